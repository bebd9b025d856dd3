//! From a board's description to the board: what its processor, its GPU and both memories of that have in common is
//! written once.

use super::described::{self, Region};
use super::{Board, BoardError, Gpu, Memory};
use crate::profile::{Fast, Profile, UnequalCores, Unfit};
use eyelet::kernels::Isa;
use eyelet::pack::PAGE;
use eyelet_board::Document;
use serde::Deserialize;

/// `[gpu]` of a board's description.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GpuTable {
    arch: String,
    multiprocessors: u32,
    memory: Memory,
    ptx: String,
    profile: toml::Table,
    /// The keys of the profile that differ when an integrated GPU's plans are staged, first of all the costs of
    /// copies.
    staged: Option<toml::Table>,
}

impl Board {
    /// A board from its description. Keys that board and profile share stand at the top only.
    pub(super) fn parse(file: &str, text: &str) -> Result<Self, BoardError> {
        let document = Document::parse(file, text)?;
        let odd = |error: toml::de::Error| document.fault("", error.message().to_owned());
        let mut table: toml::Table = text.parse().map_err(odd)?;
        // The keys of the description that are no costs were read with the document.
        for key in ["description", "page", "cores", "clock", "storage", "memory"] {
            table.remove(key);
        }
        let gpu = match table.remove("gpu") {
            Some(gpu) => Some(GpuTable::deserialize(gpu).map_err(odd)?),
            None => None,
        };
        let own = match table.remove("profile") {
            Some(toml::Value::Table(profile)) => Some(profile),
            _ => None,
        };
        let profile = |key: &str, mut profile: toml::Table, more: toml::Table| {
            profile.extend(more);
            let profile: Profile =
                profile.try_into().map_err(|error| document.fault(key, error.to_string()))?;
            let fault = |unfit: Unfit| {
                let key = match unfit.field.as_str() {
                    top @ ("threads" | "multiprocessors") => top.to_owned(),
                    field => format!("{key}.{field}"),
                };
                document.fault(&key, unfit.reason())
            };
            profile.validate().map_err(fault)?;
            Ok(profile)
        };
        let storage = own.as_ref().and_then(|own| own.get("storage").cloned());
        let gpu = match gpu {
            Some(gpu) => Some(gpu.finish(&document, &table, storage, profile)?),
            None => None,
        };
        let profile = match (own, &gpu) {
            (Some(own), _) => profile("profile", own, table)?,
            (None, Some(gpu)) => gpu.profile.clone(),
            // The document would not have been one.
            (None, None) => return Err(document.fault("profile", "it is missing").into()),
        };
        let described = document.board().clone();
        let profile = Profile { fast: fast(&described), cores: cores(&described), ..profile };
        Ok(Self { described, profile, gpu })
    }
}

/// The cores of a board's processor, if they are of two kinds. A GPU's costs do not look at them.
fn cores(board: &described::Board) -> Option<UnequalCores> {
    let processor = board.isa.is_some();
    board.cores.as_ref().filter(|_| processor).and_then(UnequalCores::of)
}

/// The fast memory of a board, unless its arena is as fast. Memories without a bandwidth count as
/// equal: then the arena needs less all the same.
fn fast(board: &described::Board) -> Option<Fast> {
    // Plans count whole pages of it.
    let bytes = board.bytes(Region::Fast) / PAGE * PAGE;
    let arena = board.memory_of(Region::Working).or(board.memory_of(Region::Kept));
    let gbs = |memory: Option<&described::Memory>| memory.and_then(|memory| memory.gbs);
    let of_both = gbs(board.memory_of(Region::Fast)).zip(gbs(arena));
    let (gbs, arena_gbs) = of_both.unwrap_or((1.0, 1.0));
    let is_used = bytes > 0 && board.isa.is_some() && gbs >= arena_gbs;
    is_used.then_some(Fast { bytes, gbs, arena_gbs })
}

impl GpuTable {
    /// A GPU from its table, and what stands at the top of the board's; its storage is the board's, if that has one.
    fn finish(
        self,
        document: &Document,
        top: &toml::Table,
        storage: Option<toml::Value>,
        profile: impl Fn(&str, toml::Table, toml::Table) -> Result<Profile, BoardError>,
    ) -> Result<Gpu, BoardError> {
        let Self { arch, multiprocessors, memory, ptx, profile: mut own, staged } = self;
        let mut more = toml::Table::new();
        if let Some(board) = top.get("name") {
            more.insert("name".to_owned(), board.clone());
        }
        more.insert("isa".to_owned(), Isa::Cuda.name().into());
        more.insert("threads".to_owned(), 1.into());
        more.insert("multiprocessors".to_owned(), multiprocessors.into());
        if let Some(storage) = storage {
            own.entry("storage").or_insert(storage);
        }
        let staged = staged.map(|different| merged(own.clone(), different));
        let first = profile("gpu.profile", own, more.clone())?;
        let second = staged.map(|own| profile("gpu.staged", own, more)).transpose()?;
        if second.is_some() && first.transfer.is_some() {
            let reason = "[gpu.profile] has costs of copies, and there is [gpu.staged], which is what differs from \
                          costs without copies: leave out one of them";
            return Err(document.fault("gpu.staged", reason).into());
        }
        let transfer = |memory: Memory, key: &str| {
            let with = if memory == Memory::Staged { "without" } else { "with" };
            let reason = format!(
                "costs of {} {with} a transfer table: copies have a cost if, and only if, memory is staged \
                 ([gpu.profile.transfer], or [gpu.staged.transfer] of a GPU that can do with both)",
                memory.name()
            );
            BoardError::from(document.fault(key, reason))
        };
        if second.as_ref().is_some_and(|second| second.transfer.is_none()) {
            return Err(transfer(Memory::Staged, "gpu.staged"));
        }
        let (profile, other) = match (Memory::of(&first) == Some(memory), second) {
            (true, second) => (first, second),
            (false, Some(second)) => (second, Some(first)),
            (false, None) => return Err(transfer(memory, "gpu.memory")),
        };
        Ok(Gpu { arch, ptx, memory, profile, other })
    }
}

/// A table with what is different, table by table.
fn merged(mut table: toml::Table, different: toml::Table) -> toml::Table {
    for (key, value) in different {
        let value = match (table.remove(&key), value) {
            (Some(toml::Value::Table(table)), toml::Value::Table(different)) => {
                toml::Value::Table(merged(table, different))
            }
            (_, value) => value,
        };
        table.insert(key, value);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use eyelet_board::Source;

    /// Refuses a known board with a change: with a part of the error.
    fn wrong(board: &str, from: &str, to: &str, says: &str) {
        let text = Source::find(board).unwrap().text;
        assert!(text.contains(from), "{board}: {from}");
        let error = Board::parse("x", &text.replacen(from, to, 1)).unwrap_err();
        assert!(matches!(error, BoardError::File(_)), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = Board::load("jetson-nona").unwrap_err().to_string();
        assert!(error.contains("jetson-nona") && error.contains("jetson-nano,"), "{error}");
        let nano = |from: &str, to: &str, says: &str| wrong("jetson-nano", from, to, says);
        nano("threads = 4", "threads = 0", "threads: it is 0");
        nano("isa = \"neon\"", "isa = \"vax\"", "isa: it is `vax`");
        nano("threads = 4", "threads = 4\nheads = 4", "x:12: heads: there is no such key");
        nano("sm_53", "maxwell", "gpu.arch: it is `maxwell`; it must be like sm_53");
        nano("\"6.5\"", "\"six\"", "gpu.ptx: it is `six`");
        nano(
            "[gpu.staged.transfer]",
            "[gpu.staged.delays]",
            "gpu.staged.delays.latency_ns: there is no such key",
        );
        nano("[gpu.staged]", "[gpu.stages]", "gpu.stages");
        nano("cache_bytes = 262_144", "cash_bytes = 1", "gpu.staged.compute.cash_bytes");
        let transfer = "[gpu.staged.transfer]\nlatency_ns = 25_000\ngbs = 5.4";
        nano(transfer, "", "gpu.staged: costs of staged without a transfer table");
        let both =
            "[gpu.profile.transfer]\nlatency_ns = 25_000\ngbs = 5.4\n\n[gpu.staged.transfer]";
        nano("[gpu.staged.transfer]", both, "leave out one of them");
        nano("memory = \"zero-copy\"", "memory = \"managed\"", "gpu.memory: it is `managed`");
        nano("multiprocessors = 1", "multiprocessors = 0", "gpu.multiprocessors: it is 0");
        nano("arch = ", "architecture = ", "gpu.architecture: there is no such key");
        let slower = "{ bytes = 16_384, mbs = 9_000.0 }";
        let says =
            "profile.storage.reads[1].mbs: it is 9000; it must be such that a larger read takes";
        nano("{ bytes = 16_384, mbs = 28.0 }", slower, says);
        let host = |from: &str, to: &str, says: &str| wrong("gpu-host", from, to, says);
        let says = "gpu.memory: costs of zero-copy with a transfer table";
        host("memory = \"staged\"", "memory = \"zero-copy\"", says);
        host("page = 4096", "page = 4096\nthreads = 4", "threads: it is of a processor");
        host("gbs = 51.2", "gbs = 0.0", "gpu.profile.transfer.gbs: it is 0");
        host("[gpu.profile.storage]", "[gpu.storage]", "gpu.storage");
    }
}
