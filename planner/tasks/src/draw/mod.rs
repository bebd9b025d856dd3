//! Pictures of a schedule: a Gantt chart, and memory over time.
