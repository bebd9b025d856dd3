//! Better plans, as long as the effort lasts.

pub mod local_search;
