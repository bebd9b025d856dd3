//! Runs a plan: a loader and a compute side, joined by one counter each.
