//! A pack that is part of the image, in flash that is read like memory, and the bytes of its arena.

/// Bytes that start where the weights of a pack must.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Aligned<const N: usize>(pub [u8; N]);

/// The bytes of arena of an image: what its pack needs, or all that the board gives where it has no
/// pack.
pub const fn arena_bytes(pack: &[u8], most: usize) -> usize {
    if pack.is_empty() {
        return most;
    }
    match eyelet::pack::needs(pack) {
        Ok(needs) => needs.least_arena_bytes() as usize,
        Err(flaw) => panic!("{}", flaw.what),
    }
}

/// The bytes of fast memory of an image: what its pack needs next to so many bytes of arena, or all
/// that the board gives where it has no pack.
pub const fn fast_bytes(pack: &[u8], arena_bytes: usize, most: usize) -> usize {
    if pack.is_empty() {
        return most;
    }
    match eyelet::pack::needs(pack) {
        Ok(needs) => needs.least_fast_bytes(arena_bytes as u64) as usize,
        Err(flaw) => panic!("{}", flaw.what),
    }
}

/// The static `PACK`: the pack that the build script was given, in the section that the linker
/// script puts into flash. It is empty if there is none.
#[macro_export]
macro_rules! pack {
    () => {
        /// The pack, where it is part of the image.
        #[unsafe(link_section = ".pack")]
        static PACK: $crate::pack::Aligned<
            { include_bytes!(concat!(env!("OUT_DIR"), "/board.pack")).len() },
        > = $crate::pack::Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/board.pack")));
    };
}
