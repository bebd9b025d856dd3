//! Rules among several keys of a description.

use crate::check::{Place, at, inner, integer, locate, narrow, tables};
use crate::error::Error;
use crate::{Board, Cores, Memory, MemoryKind, Region, size};
use toml::de::DeTable;

/// Bytes of an arena's pages, whatever the storage's.
const ARENA_PAGE: u64 = 4096;

/// Refuses a board whose keys contradict one another.
pub(crate) fn check(board: &Board, place: Place<'_>, table: &DeTable<'_>) -> Result<(), Error> {
    processor(board, place, table)?;
    cores(board, place, table)?;
    let tables: Vec<_> = tables(table, "memory").collect();
    for (index, memory) in board.memories.iter().enumerate() {
        let wrong = clash(memory, &board.memories[..index])
            .or_else(|| regions(memory, &board.memories[..index]));
        if let Some((key, reason)) = wrong {
            return Err(fault(place, &tables, index, key, reason));
        }
    }
    arena(board, place, &tables)
}

/// A fault at a key of a memory.
fn fault(
    place: Place<'_>,
    tables: &[&DeTable<'_>],
    index: usize,
    key: &str,
    reason: String,
) -> Error {
    place.fault(at(tables[index], key), format!("memory[{index}].{key}"), reason)
}

/// Costs of a processor go with what it is.
fn processor(board: &Board, place: Place<'_>, table: &DeTable<'_>) -> Result<(), Error> {
    let has = |key| table.contains_key(key);
    let fault = |at, key, reason| Err(place.fault(at, key, reason));
    if has("profile") {
        let lacks = ["isa", "threads"].into_iter().find(|key| !has(*key));
        if let Some(key) = lacks {
            let reason = "it is missing, and there is a [profile] of a processor: add it";
            return fault(at(table, "profile"), key, reason);
        }
        if board.isa.as_deref() == Some("cuda") {
            let reason = "it is `cuda`, which is no processor's: describe the GPU in [gpu]";
            return fault(at(table, "isa"), "isa", reason);
        }
    } else if !has("gpu") {
        let reason = "it is missing, and there is no [gpu]: add the costs of the processor";
        return fault(0, "profile", reason);
    } else if let Some(key) = ["isa", "threads", "cores"].into_iter().find(|key| has(*key)) {
        let reason =
            "it is of a processor, and there is no [profile] of one: add it, or leave this out";
        return fault(at(table, key), key, reason);
    }
    Ok(())
}

/// Cores that are named exist, and threads are no more than there are cores.
fn cores(board: &Board, place: Place<'_>, table: &DeTable<'_>) -> Result<(), Error> {
    let Some(cores) = &board.cores else { return Ok(()) };
    match cores.wrong(board.threads) {
        Some((key, reason)) => Err(place.fault(locate(table, key), key, reason)),
        None => Ok(()),
    }
}

/// Refuses a profile whose cores contradict one another.
pub(crate) fn check_profile(place: Place<'_>, table: &DeTable<'_>) -> Result<(), Error> {
    let threads = table.get("threads").and_then(|value| integer(value.get_ref())).map(narrow);
    let wrong = inner(table, "cores").and_then(|cores| Cores::read(cores).wrong(threads));
    match wrong {
        Some((key, reason)) => Err(place.fault(locate(table, key), key, reason)),
        None => Ok(()),
    }
}

/// A conflict of a memory with those before it: the key, and the reason.
fn clash(memory: &Memory, before: &[Memory]) -> Option<(&'static str, String)> {
    let Memory { name, base, .. } = memory;
    if before.iter().any(|other| other.name == *name) {
        return Some(("name", format!("there are two memories `{name}`")));
    }
    let meets = |other: &&Memory| other.base < memory.end() && *base < other.end();
    let other = before.iter().find(meets)?;
    let reason = format!(
        "`{name}` is {base:#x} to {:#x}, and `{}` is {:#x} to {:#x}: they must not overlap",
        memory.end(),
        other.name,
        other.base,
        other.end()
    );
    Some(("base", reason))
}

/// An error in the regions of a memory: the key, and the reason.
fn regions(memory: &Memory, before: &[Memory]) -> Option<(&'static str, String)> {
    for region in Region::ALL.into_iter().filter(|region| memory.region(*region) > 0) {
        let key = region.name();
        let (wanted, kind) = match region {
            Region::Mapped => (MemoryKind::Flash, "flash"),
            _ => (MemoryKind::Ram, "ram"),
        };
        if memory.kind != wanted {
            return Some((key, format!("the memory is not of kind \"{kind}\", as this must be")));
        }
        if let Some(other) = before.iter().find(|other| other.region(region) > 0) {
            return Some((
                key,
                format!("`{}` has this region: it must lie in one memory", other.name),
            ));
        }
    }
    let sum: u64 = Region::ALL.into_iter().map(|region| memory.region(region)).sum();
    (sum > memory.bytes).then(|| {
        let (has, take) = (size::exact(memory.bytes), size::exact(sum));
        ("bytes", format!("the memory has {has}, and its regions take {take}: give them less"))
    })
}

/// Working and kept lie side by side, and are whole pages together.
fn arena(board: &Board, place: Place<'_>, tables: &[&DeTable<'_>]) -> Result<(), Error> {
    let of = |region| board.memories.iter().position(|memory| memory.region(region) > 0);
    let (working, kept) = (of(Region::Working), of(Region::Kept));
    let bytes = board.arena_bytes().unwrap_or(0);
    match (working, kept) {
        (_, Some(index)) if kept != working => {
            let reason =
                "the working region is not in this memory: the arena is both, side by side";
            Err(fault(place, tables, index, "kept", reason.to_owned()))
        }
        (Some(index), _) if !bytes.is_multiple_of(ARENA_PAGE) => {
            let reason = format!(
                "the arena, working and kept together, has {bytes} bytes: it must be whole pages of {ARENA_PAGE}"
            );
            Err(fault(place, tables, index, "working", reason))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Document, Region};

    const PORTABLE: &str = include_str!("../portable/board.toml");
    const MEMORIES: &str = r#"
[cores]
count = 2
big = [1]
pipeline = "in-order"

[clock]
hz = 25_000_000

[storage]
kind = "flash"

[[memory]]
name = "flash"
kind = "flash"
base = 0
bytes = "1MiB"
mapped = "768KiB"

[[memory]]
name = "sram"
kind = "ram"
base = 0x2000_0000
bytes = "256KiB"
gbs = 0.4
working = "96KiB"
kept = 32_768
stack = "16KiB"

[profile]
"#;

    fn file() -> String {
        PORTABLE.replacen("[profile]\n", MEMORIES, 1)
    }

    #[test]
    fn memories_are_read() {
        let document = Document::parse("x", &file()).unwrap();
        let board = document.board();
        assert_eq!(board.arena_bytes(), Some(128 << 10));
        assert_eq!(board.bytes(Region::Mapped), 768 << 10);
        assert_eq!(board.memory_of(Region::Stack).unwrap().name, "sram");
        assert_eq!(board.memories[1].base, 0x2000_0000);
        assert_eq!((board.memories[1].gbs, board.clock_hz), (Some(0.4), Some(25_000_000)));
        let cores = board.cores.as_ref().unwrap();
        assert_eq!((cores.count, &cores.big[..]), (2, &[1][..]));
        let plain = Document::parse("x", PORTABLE).unwrap();
        assert_eq!(plain.board().arena_bytes(), None);
    }

    #[test]
    fn large_cores_compute_and_a_small_one_loads() {
        let cores = |count: u32, big: &str, threads: u32| {
            let text = file()
                .replacen("count = 2", &format!("count = {count}"), 1)
                .replacen("big = [1]", &format!("big = {big}"), 1)
                .replacen("threads = 1", &format!("threads = {threads}"), 1);
            let document = Document::parse("x", &text).unwrap();
            (document.board().compute_cores(), document.board().loader_core())
        };
        assert_eq!(cores(6, "[4, 5]", 2), (vec![4, 5], Some(0)));
        assert_eq!(cores(6, "[4, 5]", 3), (vec![4, 5, 0], Some(1)));
        assert_eq!(cores(4, "[2, 3]", 1), (vec![2], Some(0)));
        assert_eq!(cores(2, "[0, 1]", 1), (vec![0], Some(1)));
        assert_eq!(cores(4, "[]", 4), (vec![0, 1, 2, 3], None));
        assert_eq!(cores(4, "[]", 3), (vec![0, 1, 2], Some(3)));
        let plain = Document::parse("x", PORTABLE).unwrap();
        assert_eq!((plain.board().compute_cores(), plain.board().loader_core()), (vec![], None));
    }

    /// A change, the key that the error names, and a part of the reason. The line is that of the changed text.
    #[test]
    fn faults_have_a_line_a_key_and_a_reason() {
        let text = file();
        for (from, to, key, reason) in [
            (
                "kept = 32_768",
                "keep = 32_768",
                "memory[1].keep",
                "no such key; there are: name, kind",
            ),
            ("\"96KiB\"", "\"96KB\"", "memory[1].working", "`96KB` is not a size"),
            ("\"96KiB\"", "-1", "memory[1].working", "it is -1; it must be bytes between 1"),
            ("\"96KiB\"", "9.5", "memory[1].working", "it is 9.5; it must be bytes between 1"),
            (
                "working = \"96KiB\"",
                "working = 98_305",
                "memory[1].working",
                "131073 bytes: it must be whole pages",
            ),
            (
                "gbs = 0.4",
                "gbs = \"400MB/s\"",
                "memory[1].gbs",
                "it is `400MB/s`; it must be between",
            ),
            ("gbs = 0.4", "gbs = nan", "memory[1].gbs", "it is NaN; it must be between"),
            ("0x2000_0000", "\"0x20000000\"", "memory[1].base", "it must be an integer between 0"),
            ("0x2000_0000", "0x000F_0000", "memory[1].base", "they must not overlap"),
            ("name = \"sram\"", "name = \"flash\"", "memory[1].name", "two memories `flash`"),
            ("name = \"sram\"", "name = \"S RAM\"", "memory[1].name", "a lower-case letter"),
            (
                "bytes = \"256KiB\"",
                "bytes = \"128KiB\"",
                "memory[1].bytes",
                "regions take 144 KiB (147456 bytes)",
            ),
            ("mapped = ", "working = ", "memory[0].working", "not of kind \"ram\""),
            ("stack = ", "mapped = ", "memory[1].mapped", "not of kind \"flash\""),
            ("big = [1]", "big = [2]", "cores.big", "core 2, and the 2 cores"),
            ("big = [1]", "big = [1, 1]", "cores.big", "core 1 twice"),
            ("big = [1]", "loader = 2", "cores.loader", "core 2, and the 2 cores"),
            ("big = [1]", "loader = -1", "cores.loader", "it is -1; it must be an integer between"),
            ("big = [1]", "little_speed = 0.5", "cores.little_speed", "no core is named as big"),
            (
                "big = [1]",
                "little_speed = 0.5\nbig = [1, 0]",
                "cores.little_speed",
                "all cores are named as big",
            ),
            (
                "big = [1]",
                "little_speed = 1.5\nbig = [1]",
                "cores.little_speed",
                "it is 1.5; it must be between 0.01 and 1",
            ),
            ("big = [1]", "little_sped = 0.5", "cores.little_sped", "no such key"),
            (
                "count = 2",
                "count = 0",
                "cores.count",
                "it is 0; it must be an integer between 1 and 1024",
            ),
            ("threads = 1", "threads = 3", "threads", "it is 3, and there are 2 cores"),
            ("page = 4096", "page = 4095", "page", "it is 4095; it must be a power of two"),
            (
                "kind = \"ram\"",
                "kind = \"dram\"",
                "memory[1].kind",
                "it is `dram`; it must be one of: ram, flash",
            ),
            ("hz = 25_000_000", "hz = 25.0", "clock.hz", "it is 25; it must be an integer"),
            (
                "exposed = 0.8",
                "exposed = 1.5",
                "profile.compute.exposed",
                "it is 1.5; it must be between 0 and 1",
            ),
            ("[profile.storage]", "[profile.store]", "profile.store", "no such key"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            let error = Document::parse("board.toml", &changed).unwrap_err();
            let line = text[..text.find(from).unwrap()].matches('\n').count() + 1;
            assert_eq!((error.key.as_str(), error.line), (key, line), "{error}");
            assert!(error.reason.contains(reason), "{error}");
            assert!(
                error.to_string().starts_with(&format!("board.toml:{line}: {key}: ")),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        let lacks = |from: &str, key: &str| {
            let error = Document::parse("x", &file().replacen(from, "", 1)).unwrap_err();
            assert_eq!(error.key, key);
            assert!(error.reason.contains("it is missing"), "{error}");
        };
        lacks("page = 4096\n", "page");
        lacks("isa = \"portable\"\n", "isa");
        lacks("base = 0\n", "memory[0].base");
        lacks("copy_gbs = 3.0\n", "profile.compute.copy_gbs");
        let error = Document::parse("x", &file().replacen("[profile]", "[profile", 1)).unwrap_err();
        assert!(error.key.is_empty() && error.reason.contains("it is no TOML"), "{error}");
        assert!(error.line > 20, "{error}");
    }
}
