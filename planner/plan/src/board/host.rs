//! The board that stands for this machine.

use super::{Board, BoardError};
use std::env;

/// The environment variable that names the board that stands for this machine. Without it, the
/// processor decides.
pub const HOST_BOARD: &str = "EYELET_HOST_BOARD";

/// The board that stands for this machine: the one that [`HOST_BOARD`] names, as its description
/// has it; otherwise the one with the instruction set of this processor, and its number of threads.
pub fn host() -> Result<Board, BoardError> {
    let named = env::var_os(HOST_BOARD).filter(|name| !name.is_empty());
    match named {
        Some(name) => named_host(&name.to_string_lossy()),
        None => Ok(detected_host()),
    }
}

fn named_host(name: &str) -> Result<Board, BoardError> {
    Board::load(name)
        .map_err(|error| BoardError::Host { variable: HOST_BOARD, error: error.into() })
}

fn detected_host() -> Board {
    let mut board = Board::load(host_name()).expect("the boards that come with eyelet are valid");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    board.profile.threads = threads as u32;
    board
}

#[cfg(target_arch = "x86_64")]
fn host_name() -> &'static str {
    let fma = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    match (fma && is_x86_feature_detected!("avx512f"), fma) {
        (true, _) => "host-avx512",
        (false, true) => "host-avx2",
        (false, false) => "portable",
    }
}

#[cfg(target_arch = "aarch64")]
fn host_name() -> &'static str {
    "host-neon"
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn host_name() -> &'static str {
    "portable"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detected_host_is_a_board() {
        let board = detected_host();
        assert!(board.profile.threads >= 1);
        assert!(Board::names().any(|name| name == board.name()));
    }

    #[test]
    fn a_named_host_is_that_board() {
        for name in ["host-avx512", "host-avx2", "portable"] {
            assert_eq!(named_host(name).unwrap(), Board::load(name).unwrap());
        }
        let error = named_host("host-avx1024").unwrap_err().to_string();
        assert!(error.contains(HOST_BOARD) && error.contains("host-avx1024"), "{error}");
    }
}
