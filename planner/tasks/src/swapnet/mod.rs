//! SwapNet: blocks, delay model, partition tables, and budgets of several networks.
