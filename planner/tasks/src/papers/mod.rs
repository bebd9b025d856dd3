//! Published tables and figures, as data and as experiments.
