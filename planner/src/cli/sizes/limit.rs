//! Limits of an image's parts, so that a build fails before a memory is full.

use super::count::Memory;
use eyelet_planner::size;

/// The most bytes that a part may take in all memories together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    part: &'static str,
    bytes: u64,
}

/// Reads `code=300KiB`.
pub fn parse(text: &str) -> Result<Limit, String> {
    let known = Memory::default().parts().map(|(name, _)| name);
    let must =
        || format!("`{text}` is no limit: write PART=SIZE, with a PART of {}", known.join(", "));
    let (name, bytes) = text.split_once('=').ok_or_else(must)?;
    let part = known.into_iter().find(|known| *known == name).ok_or_else(must)?;
    let bytes = size::parse(bytes).map_err(|error| error.to_string())?;
    Ok(Limit { part, bytes })
}

impl Limit {
    /// A sentence, if the part takes more.
    pub fn over(&self, memories: &[Memory]) -> Option<String> {
        let parts = memories.iter().flat_map(Memory::parts);
        let bytes = parts.filter(|(name, _)| *name == self.part).map(|(_, bytes)| bytes);
        let bytes = bytes.fold(0, u64::saturating_add);
        (bytes > self.bytes).then(|| {
            format!(
                "{} takes {}, and its limit is {}",
                self.part,
                size::exact(bytes),
                size::exact(self.bytes)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_summed_over_all_memories() {
        let memory = Memory { code_bytes: 1000, bss_bytes: 5, ..Memory::default() };
        let memories = [memory.clone(), memory];
        assert_eq!(parse("code=2000").unwrap().over(&memories), None);
        let over = parse("code=1999").unwrap().over(&memories).unwrap();
        assert!(
            over.contains("code takes") && over.contains("2000") && over.contains("1999"),
            "{over}"
        );
        assert_eq!(parse("code=1KiB").unwrap(), Limit { part: "code", bytes: 1024 });
    }

    #[test]
    fn what_is_no_limit_is_refused() {
        for text in ["code", "text=1KiB", "=1KiB"] {
            assert!(
                parse(text).unwrap_err().contains("code, rodata, data, bss, arena, fast, stack"),
                "{text}"
            );
        }
        assert!(parse("code=1kilo").unwrap_err().contains("1kilo"));
    }
}
