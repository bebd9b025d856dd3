//! Task sets in C: several networks in one arena, each job by its deadline.
//!
//! ```text
//! arena                                                   arena + bytes
//! │ network 0 │ network 1 │ … │ record: set, threads │ slots: one a network │
//! ```
//!
//! The record and the slots hold what a Rust program has on its stack. As with a model, borrows of
//! them are made of raw pointers and said to last for ever: they never move, and
//! [`eyelet_set_close`] drops what borrows before what is borrowed.
//!
//! A set works in a scope ([`eyelet_set_run`]), which ends all reads, whatever happens. C brings the
//! scope's body as a function. Whatever works in between finds the scope by the record, and is
//! refused outside of one, and from within a function that the set itself calls.

#[cfg(all(feature = "linux", target_os = "linux"))]
mod file;
mod host;
mod open;
mod ports;
mod records;
mod refused;
mod run;
mod status;
mod tasks;

#[cfg(all(feature = "linux", target_os = "linux"))]
pub use file::{eyelet_set_file_bytes, eyelet_set_open_file};
pub use host::{Functions, Job};
pub use open::{Set, eyelet_set_bytes, eyelet_set_close, eyelet_set_open};
pub use ports::{
    Ports, eyelet_ports_input, eyelet_ports_input_info, eyelet_ports_input_words,
    eyelet_ports_output, eyelet_ports_output_info, eyelet_ports_output_words,
};
pub use records::{SetOptions, TaskOf, Timing};
pub use run::{
    eyelet_now, eyelet_set_change, eyelet_set_release, eyelet_set_run, eyelet_set_run_until,
    eyelet_set_start, eyelet_set_step, eyelet_set_stop,
};

pub use tasks::{Counts, eyelet_set_counts, eyelet_set_name, eyelet_set_tasks, eyelet_set_timing};

/// The records as a C compiler lays them out where pointers have 64 bits.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Timing>() == 40 && size_of::<Counts>() == 48 && size_of::<Job>() == 16);
    assert!(size_of::<TaskOf>() == 144 && core::mem::offset_of!(TaskOf, timing) == 96);
    assert!(size_of::<SetOptions>() == 32 && core::mem::offset_of!(SetOptions, cores) == 16);
    assert!(size_of::<Functions>() == 48 && core::mem::offset_of!(Functions, now) == 32);
};
