//! A board as constants: for Rust, for a linker, and for C.

use crate::{Board, MemoryKind, Region};
use std::fmt::Write;

/// Rust: the constants of `eyelet::board`.
pub fn constants(board: &Board) -> String {
    let mut out = String::new();
    let mut constant = |says: &str, name: &str, kind: &str, value: String| {
        let _ = writeln!(out, "/// {says}\npub const {name}: {kind} = {value};");
    };
    let text = |text: &str| format!("{text:?}");
    constant("The board's name.", "NAME", "&str", text(&board.name));
    let isa = board.isa.as_deref().unwrap_or("cuda");
    constant("The instruction set that its packs are for.", "ISA", "&str", text(isa));
    constant("Bytes of a page of its storage.", "PAGE", "usize", board.page.to_string());
    let threads = board.threads.unwrap_or(1);
    constant("Threads that compute.", "THREADS", "usize", threads.to_string());
    for (says, name, value) in numbers(board) {
        let kind = if name.ends_with("_HZ") { "u64" } else { "usize" };
        constant(&format!("{says} 0: the description has none."), name, kind, value.to_string());
    }
    let cores = board.cores.as_ref();
    let big = cores.map_or_else(Vec::new, |cores| cores.big.clone());
    constant("The numbers of the large cores.", "BIG_CORES", "&[usize]", format!("&{big:?}"));
    let compute = format!("&{:?}", board.compute_cores());
    let says = "The cores that compute, one for each thread: the large ones first. Empty: the description has no cores.";
    constant(says, "COMPUTE_CORES", "&[usize]", compute);
    let loader = format!("{:?}", board.loader_core());
    let says = "The core of the loader's thread: a small one, if one is left.";
    constant(says, "LOADER_CORE", "Option<usize>", loader);
    let storage = board.storage.as_ref().map_or("", |storage| &storage.kind);
    let says = "What packs are read from. Empty: the description has none.";
    constant(says, "STORAGE", "&str", text(storage));
    let memories: Vec<String> = board
        .memories
        .iter()
        .map(|memory| {
            let crate::Memory { name, base, bytes, .. } = memory;
            let flash = memory.kind == MemoryKind::Flash;
            format!("Memory {{ name: {name:?}, base: {base}, bytes: {bytes}, flash: {flash} }}")
        })
        .collect();
    let says = "Its memories, in the order of the description.";
    constant(says, "MEMORIES", "&[Memory]", format!("&[{}]", memories.join(", ")));
    out
}

/// The numbers that Rust, C and the linker share: what they are, their names, and values.
fn numbers(board: &Board) -> [(&'static str, &'static str, u64); 8] {
    let of = |region| board.bytes(region);
    let cores = board.cores.as_ref().map_or(0, |cores| u64::from(cores.count));
    [
        (
            "Bytes of arena: the working and the kept region.",
            "ARENA_BYTES",
            board.arena_bytes().unwrap_or(0),
        ),
        ("Bytes that mean nothing between two inferences.", "WORKING_BYTES", of(Region::Working)),
        ("Bytes that live on between inferences.", "KEPT_BYTES", of(Region::Kept)),
        ("Bytes of tightly coupled memory.", "FAST_BYTES", of(Region::Fast)),
        ("Bytes of flash in which a pack is read like memory.", "MAPPED_BYTES", of(Region::Mapped)),
        ("Bytes of all stacks.", "STACK_BYTES", of(Region::Stack)),
        ("Cores.", "CORES", cores),
        (
            "Ticks a second of the counter that timeouts are measured with.",
            "CLOCK_HZ",
            board.clock_hz.unwrap_or(0),
        ),
    ]
}

/// A linker script's fragment: the memories as regions, and symbols for their shares.
pub fn linker(board: &Board) -> String {
    let mut out =
        format!("/* The memories of {}, from its board.toml. */\nMEMORY\n{{\n", board.name);
    for memory in &board.memories {
        let access = if memory.kind == MemoryKind::Flash { "rx" } else { "rwx" };
        let _ = writeln!(
            out,
            "  {} ({access}) : ORIGIN = {:#x}, LENGTH = {:#x}",
            memory.name, memory.base, memory.bytes
        );
    }
    out.push_str("}\n\n");
    for memory in &board.memories {
        let name = &memory.name;
        let _ = writeln!(out, "PROVIDE(_eyelet_memory_{name}_start = {:#x});", memory.base);
        let _ = writeln!(out, "PROVIDE(_eyelet_memory_{name}_end = {:#x});", memory.end());
    }
    for (_, name, value) in numbers(board) {
        let _ = writeln!(out, "PROVIDE(_eyelet_{} = {value:#x});", name.to_lowercase());
    }
    if let Some(memory) = board.memory_of(Region::Stack) {
        let top = memory.end();
        let _ = writeln!(out, "/* Stacks lie at the end of {}. */", memory.name);
        let _ = writeln!(out, "PROVIDE(_eyelet_stack_top = {top:#x});");
        let bottom = top - memory.region(Region::Stack);
        let _ = writeln!(out, "PROVIDE(_eyelet_stack_bottom = {bottom:#x});");
    }
    out
}

/// A header for C.
pub fn header(board: &Board) -> String {
    let mut out = format!(
        "/* The board {}, from its board.toml. Numbers that the description lacks are 0. */\n\
         #ifndef EYELET_BOARD_H\n#define EYELET_BOARD_H\n\n#include <stdint.h>\n\n\
         #define EYELET_BOARD_NAME {:?}\n#define EYELET_BOARD_PAGE {}u\n#define EYELET_BOARD_THREADS {}u\n",
        board.name,
        board.name,
        board.page,
        board.threads.unwrap_or(1)
    );
    for (says, name, value) in numbers(board) {
        let _ = writeln!(out, "/* {says} */\n#define EYELET_BOARD_{name} {value}ull");
    }
    for memory in &board.memories {
        let name = memory.name.to_uppercase();
        let _ = writeln!(out, "#define EYELET_BOARD_MEMORY_{name}_BASE {:#x}ull", memory.base);
        let _ = writeln!(out, "#define EYELET_BOARD_MEMORY_{name}_BYTES {}ull", memory.bytes);
    }
    out.push_str(
        "\n#ifdef __cplusplus\n#define EYELET_BOARD_ASSERT static_assert\n#else\n\
         #define EYELET_BOARD_ASSERT _Static_assert\n#endif\n\n\
         /* Does not compile where an array that serves as arena has more bytes than the board gives. */\n\
         #define EYELET_BOARD_CHECK_ARENA(array) \\\n    \
         EYELET_BOARD_ASSERT(sizeof(array) <= EYELET_BOARD_ARENA_BYTES, \\\n        \
         \"the arena has more bytes than the regions working and kept of the board\")\n\n",
    );
    for memory in &board.memories {
        let name = memory.name.to_uppercase();
        let _ = writeln!(
            out,
            "EYELET_BOARD_ASSERT(EYELET_BOARD_MEMORY_{name}_BASE + (EYELET_BOARD_MEMORY_{name}_BYTES - 1) <= UINTPTR_MAX,\n    \
             \"addresses of the memory {} do not fit a pointer: this is another board's header\");",
            memory.name
        );
    }
    out.push_str("\n#endif\n");
    out
}
