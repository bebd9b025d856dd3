//! From a board's description to the board: what its processor, its GPU and both memories of that have in common is
//! written once.

use super::{Board, BoardError, Gpu, Memory};
use crate::profile::Profile;
use eyelet::kernels::Isa;
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
    /// What of the profile is different when an integrated GPU's plans are staged, costs of copies first of all.
    staged: Option<toml::Table>,
}

impl Board {
    /// A board from its description. What board and profile have in common stands at the top only.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, BoardError> {
        let toml = |error| BoardError::Toml { name: name.to_owned(), error };
        let field = |field, expected| BoardError::Field { name: name.to_owned(), field, expected };
        let mut table: toml::Table = text.parse().map_err(toml)?;
        let description = match table.remove("description") {
            Some(toml::Value::String(text)) => text,
            _ => return Err(field("description", "a string")),
        };
        let largest = eyelet::pack::PAGE;
        let page = match table.remove("page") {
            Some(toml::Value::Integer(page)) => page,
            _ => return Err(field("page", "an integer")),
        };
        if page <= 0 || page as u64 > largest || !(page as u64).is_power_of_two() {
            return Err(BoardError::Page { name: name.to_owned(), page, largest });
        }
        let gpu = match table.remove("gpu") {
            Some(toml::Value::Table(gpu)) => Some(GpuTable::deserialize(gpu).map_err(toml)?),
            Some(_) => return Err(field("gpu", "a table")),
            None => None,
        };
        let own = match (table.remove("profile"), &gpu) {
            (Some(toml::Value::Table(profile)), _) => Some(profile),
            (None, Some(_)) => None,
            _ => return Err(field("profile", "a table")),
        };
        let profile = |mut profile: toml::Table, more: toml::Table| {
            // Whatever else there is the profile knows, or refuses.
            profile.extend(more);
            let profile: Profile = profile.try_into().map_err(toml)?;
            let valid = profile.validate();
            valid.map_err(|error| BoardError::Profile { name: name.to_owned(), error })?;
            Ok(profile)
        };
        let storage = own.as_ref().and_then(|own| own.get("storage").cloned());
        let gpu = match gpu {
            Some(gpu) => Some(gpu.finish(name, &table, storage, profile)?),
            None => None,
        };
        let profile = match (own, &gpu) {
            (Some(own), _) => profile(own, table)?,
            (None, Some(gpu)) => {
                if let Some((key, value)) = table.iter().find(|(key, _)| *key != "name") {
                    let (name, found) = (name.to_owned(), format!("{key} = {value}"));
                    return Err(BoardError::Processor { name, found });
                }
                gpu.profile.clone()
            }
            (None, None) => return Err(field("profile", "a table")),
        };
        Ok(Self { description, page: page as u64, profile, gpu })
    }
}

impl GpuTable {
    /// A GPU from its table, and what stands at the top of the board's; its storage is the board's, if that has one.
    fn finish(
        self,
        name: &str,
        top: &toml::Table,
        storage: Option<toml::Value>,
        profile: impl Fn(toml::Table, toml::Table) -> Result<Profile, BoardError>,
    ) -> Result<Gpu, BoardError> {
        let Self { arch, multiprocessors, memory, ptx, profile: mut own, staged } = self;
        let wrong = |field, found: &str, expected| {
            let (name, found) = (name.to_owned(), found.to_owned());
            Err(BoardError::Gpu { name, field, found, expected })
        };
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !arch.strip_prefix("sm_").is_some_and(digits) {
            return wrong("arch", &arch, "like sm_53");
        }
        if !ptx.split_once('.').is_some_and(|(major, minor)| digits(major) && digits(minor)) {
            return wrong("ptx", &ptx, "like 6.5");
        }
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
        let first = profile(own, more.clone())?;
        let second = staged.map(|own| profile(own, more)).transpose()?;
        if second.is_some() && first.transfer.is_some() {
            return Err(BoardError::Staged { name: name.to_owned() });
        }
        let transfer = |memory| BoardError::Transfer { name: name.to_owned(), memory };
        if second.as_ref().is_some_and(|second| second.transfer.is_none()) {
            return Err(transfer(Memory::Staged));
        }
        let (profile, other) = match (Memory::of(&first) == Some(memory), second) {
            (true, second) => (first, second),
            (false, Some(second)) => (second, Some(first)),
            (false, None) => return Err(transfer(memory)),
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
    use super::super::KNOWN;
    use super::*;

    #[test]
    fn what_is_wrong_is_said() {
        let error = Board::load("jetson-nona").unwrap_err().to_string();
        assert!(error.contains("jetson-nona") && error.contains("jetson-nano,"), "{error}");
        let text = KNOWN[4].1;
        let wrong = |from: &str, to: &str, says: &str| {
            let error = Board::parse("x", &text.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        };
        wrong("page = 4096", "page = 4095", "page is 4095");
        wrong("page = 4096", "", "page is missing");
        wrong("threads = 4", "threads = 0", "threads is 0");
        wrong("isa = \"neon\"", "isa = \"vax\"", "vax");
        wrong("threads = 4", "threads = 4\nheads = 4", "heads");
        wrong("[profile]", "[profile", "not as it should be");
        wrong("sm_53", "maxwell", "gpu.arch is `maxwell`; it must be like sm_53");
        wrong("\"6.5\"", "\"six\"", "gpu.ptx is `six`");
        wrong("[gpu.staged.transfer]", "[gpu.staged.delays]", "delays");
        wrong("[gpu.staged]", "[gpu.stages]", "stages");
        wrong("cache_bytes = 262_144", "cash_bytes = 1", "cash_bytes");
        let transfer = "[gpu.staged.transfer]\nlatency_ns = 25_000\ngbs = 5.4";
        wrong(transfer, "", "costs of staged without a transfer table");
        let both =
            "[gpu.profile.transfer]\nlatency_ns = 25_000\ngbs = 5.4\n\n[gpu.staged.transfer]";
        wrong("[gpu.staged.transfer]", both, "leave out one of them");
        wrong("memory = \"zero-copy\"", "memory = \"managed\"", "managed");
        wrong("multiprocessors = 1", "multiprocessors = 0", "multiprocessors is 0");
        wrong("memory = ", "vram = ", "vram");
        let text = KNOWN[9].1;
        let wrong = |from: &str, to: &str, says: &str| {
            let error = Board::parse("x", &text.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        };
        wrong(
            "memory = \"staged\"",
            "memory = \"zero-copy\"",
            "costs of zero-copy with a transfer table",
        );
        wrong("page = 4096", "page = 4096\nthreads = 4", "`threads = 4` is of a processor");
        wrong("gbs = 51.2", "gbs = 0.0", "transfer.gbs is 0");
        wrong("[gpu.profile.storage]", "[gpu.storage]", "storage");
    }
}
