//! Files of the command: whatever ends it leaves no fragment.

mod command;

#[path = "files/signals.rs"]
mod signals;
