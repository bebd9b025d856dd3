//! Runs a task set event by event under the device's scheduler.
