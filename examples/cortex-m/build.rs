//! Writes `memory.x`, which cortex-m-rt's linker script includes: the memories of `board.toml`, of
//! which the library's build has made a linker script's fragment.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// What cortex-m-rt calls the memories, where the stack begins, and a section for the pack.
const MEMORY: &str = "
REGION_ALIAS(FLASH, flash);
REGION_ALIAS(RAM, sram);
_stack_start = _eyelet_stack_top;
SECTIONS { .pack : { *(.pack) } > packs } INSERT AFTER .text;
";

fn main() {
    let fragment = env::var_os("DEP_EYELET_BOARD_LINKER").expect("EYELET_BOARD names a board.toml");
    let memories = fs::read_to_string(Path::new(&fragment)).expect("the fragment is there");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("memory.x"), memories + MEMORY).expect("a file in OUT_DIR");
    println!("cargo::rustc-link-search={}", out.display());
    println!("cargo::rerun-if-changed=digits.pack");
}
