//! The board that the library is built for: what `EYELET_BOARD` names, as constants.
//!
//! Without that variable there is no such module. `docs/boards.md` says what each number is.

use crate::pack;

include!(concat!(env!("OUT_DIR"), "/board.rs"));

/// A range of addresses with one kind of memory behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Its name in the description.
    pub name: &'static str,
    /// Its first address.
    pub base: u64,
    /// Its size.
    pub bytes: u64,
    /// Whether it is flash, and not RAM.
    pub flash: bool,
}

/// Ends the build if a pack, an array of bytes in a constant or static, does not fit the board that the library
/// is built for.
///
/// ```ignore
/// static PACK: &[u8; include_bytes!("net.pack").len()] = include_bytes!("net.pack");
/// eyelet::board_check!(PACK);
/// ```
#[macro_export]
macro_rules! board_check {
    ($pack:expr) => {
        // An array and a reference to one both become a slice by this.
        const _: () = $crate::board::check($pack.split_at(0).1);
    };
}

/// Checks a pack for [`board_check`].
///
/// # Panics
/// When the pack does not fit: while the program is compiled.
#[doc(hidden)]
pub const fn check(bytes: &[u8]) {
    let needs = match pack::needs(bytes) {
        Ok(needs) => needs,
        Err(flaw) => panic!("{}", flaw.what),
    };
    let (isa, smallest) = (needs.isa.name(), needs.least_arena_bytes());
    let mut text = Text::new();
    if !same(isa, ISA) {
        text = text.add("the pack is for ").add(isa).add(", and the board ").add(NAME);
        text = text.add(" is ").add(ISA).add(": plan it with --board ").add(NAME);
    } else if ARENA_BYTES == 0 {
        text =
            text.add("the board ").add(NAME).add(" gives a network no memory, and the pack needs ");
        text =
            text.number(smallest).add(" bytes of arena: add the region working to its board.toml");
    } else if smallest > ARENA_BYTES as u64 {
        text = text.add("the pack needs ").number(smallest);
        text = text.add(" bytes in the regions working and kept, and the board ").add(NAME);
        text = text.add(" gives ").number(ARENA_BYTES as u64).add(": plan it with --budget ");
        text = text.number(ARENA_BYTES as u64).add(", or give the regions more in its board.toml");
    } else if needs.least_fast_bytes(ARENA_BYTES as u64) > FAST_BYTES as u64 {
        text = text.add("the pack needs ").number(needs.least_fast_bytes(ARENA_BYTES as u64));
        text = text.add(" bytes in the region fast, and the board ").add(NAME).add(" gives ");
        text = text.number(FAST_BYTES as u64).add(": plan it with --board ").add(NAME);
        text = text.add(", or give the region more in its board.toml");
    } else if MAPPED_BYTES > 0 && needs.pack_bytes > MAPPED_BYTES as u64 {
        text = text.add("the pack has ").number(needs.pack_bytes);
        text = text.add(" bytes, and the region mapped of the board ").add(NAME).add(" has ");
        text = text
            .number(MAPPED_BYTES as u64)
            .add(": store weights in fewer bits (plan --weights int8)");
    }
    if text.len > 0 {
        panic!("{}", text.as_str());
    }
}

const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// A sentence that is put together while the program is compiled. What is too long for it is cut off.
struct Text {
    bytes: [u8; 512],
    len: usize,
}

impl Text {
    const fn new() -> Self {
        Self { bytes: [0; 512], len: 0 }
    }

    const fn add(mut self, text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() && self.len < self.bytes.len() {
            self.bytes[self.len] = bytes[at];
            (self.len, at) = (self.len + 1, at + 1);
        }
        self
    }

    const fn number(self, value: u64) -> Self {
        let mut digits = [0; 20];
        let (mut first, mut rest) = (digits.len(), value);
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        match core::str::from_utf8(digits.split_at(first).1) {
            Ok(digits) => self.add(digits),
            Err(_) => self,
        }
    }

    const fn as_str(&self) -> &str {
        match core::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => text,
            // A board's name that is cut within a character.
            Err(_) => "the pack does not fit the board",
        }
    }
}
