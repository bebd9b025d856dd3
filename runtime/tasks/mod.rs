//! Several networks that share one memory, one storage and one compute device, each with deadlines: the scheduler.
