//! The board that is this machine.

use super::Board;

/// The board that is this machine: by what its processor can do, with as many threads as it has.
pub fn host() -> Board {
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
    fn the_host_is_a_board() {
        let board = host();
        assert!(board.profile.threads >= 1);
        assert!(Board::names().any(|name| name == board.name()));
    }
}
