//! Swap volumes: how many bytes of each network leave memory between two jobs.
