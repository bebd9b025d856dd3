//! Networks of the papers, with seeded weights.
