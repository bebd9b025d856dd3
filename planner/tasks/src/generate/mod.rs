//! Random task sets, seeded.
