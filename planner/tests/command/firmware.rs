//! Firmware outside of the repository, built for a board by `EYELET_BOARD`: constants, a pack that is checked while the
//! program is compiled, a linker script and a header for C, and the sizes of a linked image.

use super::boards::microcontroller;
use crate::common::command::{Done, LARGE, eyelet_in, packed};
use std::path::Path;
use std::process::Command;

const MANIFEST: &str = r#"[package]
name = "image"
edition = "2024"
build = "build.rs"

[dependencies]
eyelet = { path = "ROOT", default-features = false }

[workspace]
"#;

/// What the library's build gives to those who use it.
const BUILD: &str = r#"
fn main() {
    for (variable, name) in [("DEP_EYELET_BOARD_LINKER", "board.x"), ("DEP_EYELET_BOARD_HEADER", "eyelet_board.h")] {
        std::fs::copy(std::env::var(variable).expect(variable), name).expect(name);
    }
}
"#;

const PROGRAM: &str = r#"
#![no_std]
#![forbid(unsafe_code)]
use eyelet::arena::ArenaMemory;
use eyelet::board;

const PACK: &[u8; include_bytes!("../net.pack").len()] = include_bytes!("../net.pack");
eyelet::board_check!(PACK);

pub fn arena() -> Option<ArenaMemory<'static>> {
    eyelet::take_arena!(board::ARENA_BYTES)
}

const _: () = {
    assert!(board::WORKING_BYTES == 64 << 10 && board::KEPT_BYTES == 32 << 10);
    assert!(board::STACK_BYTES == 16 << 10 && board::MAPPED_BYTES == 1 << 20);
    assert!(board::PAGE == 4096 && board::THREADS == 1 && board::CORES == 1);
    assert!(board::COMPUTE_CORES.len() == 1 && board::LOADER_CORE.is_none());
    assert!(board::CLOCK_HZ == 25_000_000 && board::MEMORIES[1].base == 0x2000_0000);
    match eyelet::pack::needs(PACK) {
        Ok(needs) => assert!(needs.least_arena_bytes() <= board::ARENA_BYTES as u64),
        Err(_) => panic!(),
    }
};
"#;

/// Writes the crate around a pack.
fn write_crate(folder: &Path, pack: &str) {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    std::fs::create_dir_all(folder.join("src")).expect("a folder");
    for (name, text) in [
        ("Cargo.toml", MANIFEST.replace("ROOT", root)),
        ("build.rs", BUILD.to_owned()),
        ("src/lib.rs", PROGRAM.to_owned()),
    ] {
        std::fs::write(folder.join(name), text).expect("a file");
    }
    // The versions that the workspace is tested with.
    std::fs::copy(Path::new(root).join("Cargo.lock"), folder.join("Cargo.lock")).expect("a copy");
    std::fs::copy(folder.join(pack), folder.join("net.pack")).expect("a copy");
}

/// Compiles the crate for the board of the folder.
fn check(folder: &Path, board: &str) -> Done {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("firmware");
    // Kernels in plain Rust are enough.
    let compiler = format!("CC_{}_unknown_linux_gnu", std::env::consts::ARCH);
    let done = Command::new(cargo)
        .args(["check", "--quiet", "--offline", "--target-dir"])
        .arg(target)
        .current_dir(folder)
        .env("EYELET_BOARD", folder.join(board))
        .env(compiler, "false")
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Done { code: done.status.code(), out: text(done.stdout), err: text(done.stderr) }
}

#[test]
fn a_pack_that_a_board_has_no_room_for_does_not_compile() {
    let folder = packed();
    let path = folder.path();
    std::fs::write(path.join("mcu.toml"), microcontroller()).unwrap();
    std::fs::write(path.join("bad.toml"), microcontroller().replace("mapped", "maped")).unwrap();
    let plan = ["plan", "digits.onnx", "--effort", "fast", "--json"];
    let fits = ["--board", "./mcu.toml", "-o", "small.pack"];
    eyelet_in(path, &[&plan[..], &fits].concat()).json();
    let large = ["--board", "portable", "--budget", LARGE, "-o", "large.pack"];
    let report = eyelet_in(path, &[&plan[..], &large].concat()).json();
    let other = ["--board", "host-avx2", "--budget", "96KiB", "-o", "other.pack"];
    eyelet_in(path, &[&plan[..], &other].concat()).json();

    write_crate(path, "small.pack");
    let done = check(path, "mcu.toml");
    assert_eq!(done.code, Some(0), "{}", done.err);
    linked(path);

    let needs = report["plans"][0]["arena_bytes"].as_u64().unwrap();
    let says = format!(
        "the pack needs {needs} bytes in the regions working and kept, and the board mcu gives 98304: plan it with \
         --budget 98304"
    );
    for (pack, says) in [
        ("large.pack", says.as_str()),
        (
            "other.pack",
            "the pack is for avx2, and the board mcu is portable: plan it with --board mcu",
        ),
        ("digits.onnx", "it is no pack"),
    ] {
        write_crate(path, pack);
        let done = check(path, "mcu.toml");
        assert!(done.code == Some(101) && done.err.contains(says), "{pack}: {}", done.err);
    }
    // The library's build and the planner say the same of a board.
    let done = check(path, "bad.toml");
    let text = microcontroller();
    let line = text.lines().position(|line| line.starts_with("mapped")).unwrap() + 1;
    let fault = format!("bad.toml:{line}: memory[0].maped: there is no such key; there are: name");
    let fault = fault.as_str();
    assert!(done.code == Some(101) && done.err.contains(fault), "{}", done.err);
    eyelet_in(path, &[&plan[..4], &["--board", "./bad.toml"]].concat()).fails(&[fault]);
}

/// Links a program in C with the linker script and the header, and counts its bytes.
fn linked(path: &Path) {
    let program = |arena: u32| {
        format!(
            "#include \"eyelet_board.h\"\n\
             unsigned char ARENA[{arena}];\nEYELET_BOARD_CHECK_ARENA(ARENA);\n\
             const unsigned char table[1000] = {{1}};\nint counter = 5;\n\
             void _start(void) {{ for (;;) counter += table[counter & 511] + ARENA[counter & 511]; }}\n"
        )
    };
    let script = "INCLUDE board.x\nENTRY(_start)\nSECTIONS {\n\
                  .text : { *(.text*) } > flash\n .rodata : { *(.rodata*) } > flash\n\
                  .data : { *(.data*) } > sram AT > flash\n .bss (NOLOAD) : { *(.bss*) } > sram\n\
                  ASSERT(_eyelet_stack_top == 0x20040000, \"the stack's end\")\n\
                  /DISCARD/ : { *(.comment) *(.note*) *(.eh_frame*) } }\n";
    std::fs::write(path.join("link.ld"), script).unwrap();
    let link = |arena| {
        std::fs::write(path.join("image.c"), program(arena)).unwrap();
        let options = [
            "-std=c11",
            "-O1",
            "-mcmodel=large",
            "-fno-pic",
            "-ffreestanding",
            "-nostdlib",
            "-static",
            "-no-pie",
        ];
        let mut command = Command::new("cc");
        command.args(options).args([
            "-Wl,-T,link.ld,--build-id=none",
            "image.c",
            "-o",
            "image.elf",
        ]);
        command.current_dir(path).output().expect("cc starts")
    };
    let done = link(96 << 10);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let sizes = ["sizes", "image.elf", "--board", "./mcu.toml"];
    let sizes = |more: &[&str]| eyelet_in(path, &[&sizes[..], more].concat());
    let report = sizes(&["--save", "sizes.json", "--json"]).json();
    let [flash, sram] = [0, 1].map(|index| &report["memories"][index]);
    assert_eq!((&flash["rodata_bytes"], &flash["data_bytes"]), (&1000.into(), &4.into()));
    assert_eq!((&sram["arena_bytes"], &sram["data_bytes"]), (&98304.into(), &4.into()));
    assert_eq!((&sram["stack_bytes"], &report["fits"]), (&16384.into(), &true.into()));
    assert!(sizes(&["--compare", "sizes.json"]).text().contains("  change\n"));

    // One byte more than the regions have: refused by C; and by its size where C does not look.
    let done = link((96 << 10) + 1);
    let error = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && error.contains("the regions working and kept"), "{error}");
    let smaller = microcontroller().replace("\"32KiB\"", "\"16KiB\"");
    std::fs::write(path.join("smaller.toml"), smaller).unwrap();
    let done = eyelet_in(path, &["sizes", "image.elf", "--board", "./smaller.toml"]);
    assert_eq!(done.code, Some(1));
    assert!(
        done.err.contains("the arena has 96 KiB") && done.err.contains("a network 80 KiB"),
        "{}",
        done.err
    );
    sizes(&["--save", "image.elf"]).fails(&["it is the image"]);
}
