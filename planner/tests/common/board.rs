//! The board that tests plan for. It has one name, so that plans are the same on every machine, and
//! not those of the machine that the tests run on. Tests run what they plan, so its kernels must
//! run there: [`HOST_BOARD`] names another.

use eyelet_planner::board::{Board, HOST_BOARD, host};

/// Its name, without [`HOST_BOARD`].
pub const NAME: &str = if cfg!(target_arch = "x86_64") {
    "host-avx2"
} else if cfg!(target_arch = "aarch64") {
    "host-neon"
} else {
    "portable"
};

pub fn board() -> Board {
    match std::env::var_os(HOST_BOARD) {
        Some(_) => host().unwrap(),
        None => Board::load(NAME).unwrap(),
    }
}
