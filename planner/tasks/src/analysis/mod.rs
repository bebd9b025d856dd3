//! Schedulability tests: do all jobs of a set keep their deadlines?
