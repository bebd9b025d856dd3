//! An image next to the memories of its board.

use super::image::{Bytes, Image, Kind};
use eyelet_planner::board::described::{self, Board, Region};
use serde::{Deserialize, Serialize};

/// What an image takes of a memory. Data whose first values are stored in flash count there, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    pub name: String,
    pub bytes: u64,
    pub used_bytes: u64,
    pub code_bytes: u64,
    pub rodata_bytes: u64,
    pub data_bytes: u64,
    pub bss_bytes: u64,
    pub arena_bytes: u64,
    /// Fast memory for the network's buffers and scratch.
    #[serde(default)]
    pub fast_bytes: u64,
    /// What the board's description sets aside.
    pub stack_bytes: u64,
}

impl Memory {
    fn of(memory: &described::Memory) -> Self {
        let stack = memory.region(Region::Stack);
        Self {
            name: memory.name.clone(),
            bytes: memory.bytes,
            used_bytes: stack,
            stack_bytes: stack,
            ..Self::default()
        }
    }

    /// The parts of what is used, with their names.
    pub fn parts(&self) -> [(&'static str, u64); 7] {
        [
            ("code", self.code_bytes),
            ("rodata", self.rodata_bytes),
            ("data", self.data_bytes),
            ("bss", self.bss_bytes),
            ("arena", self.arena_bytes),
            ("fast", self.fast_bytes),
            ("stack", self.stack_bytes),
        ]
    }

    fn add(&mut self, kind: Kind, bytes: u64, [arena, fast]: [u64; 2]) {
        let part = match kind {
            Kind::Code => &mut self.code_bytes,
            Kind::Rodata => &mut self.rodata_bytes,
            Kind::Data => &mut self.data_bytes,
            Kind::Bss => &mut self.bss_bytes,
        };
        *part = part.saturating_add(bytes.saturating_sub(arena).saturating_sub(fast));
        self.fast_bytes = self.fast_bytes.saturating_add(fast);
        self.arena_bytes = self.arena_bytes.saturating_add(arena);
        self.used_bytes = self.used_bytes.saturating_add(bytes);
    }
}

/// What an image takes of each memory of a board, in the order of its description.
pub fn count(image: &Image, board: &Board) -> Result<Vec<Memory>, String> {
    let mut memories: Vec<Memory> = board.memories.iter().map(Memory::of).collect();
    let find = |address: u64| {
        board.memories.iter().position(|memory| (memory.base..memory.end()).contains(&address))
    };
    for section in &image.sections {
        let Bytes { address, bytes } = section.at;
        let Some(index) = find(address) else {
            let known: Vec<String> = board
                .memories
                .iter()
                .map(|memory| {
                    format!("{} is {:#x} to {:#x}", memory.name, memory.base, memory.end())
                })
                .collect();
            return Err(format!(
                "the section {} at {address:#x} lies in no memory of the board {}: {}; correct the linker script or \
                 the board.toml",
                section.name,
                board.name,
                known.join(", ")
            ));
        };
        let inside = |part: &Bytes| part.address >= address && part.address - address < bytes;
        let network = [image.arena, image.fast]
            .map(|part| part.filter(inside).map_or(0, |part| part.bytes.min(bytes)));
        memories[index].add(section.kind, bytes, network);
        if let Some(stored) = section.stored.and_then(find).filter(|stored| *stored != index) {
            memories[stored].add(section.kind, bytes, [0; 2]);
        }
    }
    Ok(memories)
}

#[cfg(test)]
pub mod tests {
    use super::super::image::tests::{BSS, CODE, DATA, RODATA, elf};
    use super::*;
    use described::Document;

    /// A board with 16 KiB of flash at 0 and 32 KiB of RAM at 0x20000000, of which the network has 8 and stacks 4.
    pub fn board() -> Board {
        let text = described::Source::find("portable").unwrap().text;
        let memories = "
[[memory]]
name = \"flash\"
kind = \"flash\"
base = 0
bytes = \"16KiB\"

[[memory]]
name = \"sram\"
kind = \"ram\"
base = 0x2000_0000
bytes = \"32KiB\"
working = \"8KiB\"
stack = \"4KiB\"

[profile]
";
        let text = text.replacen("[profile]\n", memories, 1);
        Document::parse("board.toml", &text).unwrap().board().clone()
    }

    #[test]
    fn every_byte_is_counted_once_and_stored_data_twice() {
        let image = elf(false, &[CODE, RODATA, DATA, BSS], "ARENA");
        let memories = count(&Image::parse(&image, ["ARENA", "FAST"]).unwrap(), &board()).unwrap();
        let [flash, sram] = &memories[..] else { panic!("{memories:?}") };
        assert_eq!((flash.code_bytes, flash.rodata_bytes, flash.data_bytes), (5000, 3000, 200));
        assert_eq!((flash.used_bytes, flash.bss_bytes), (8200, 0));
        assert_eq!((sram.data_bytes, sram.bss_bytes, sram.arena_bytes), (200, 1000, 8192));
        assert_eq!((sram.stack_bytes, sram.used_bytes), (4096, 200 + 9192 + 4096));
        for memory in &memories {
            assert_eq!(
                memory.parts().iter().map(|(_, bytes)| bytes).sum::<u64>(),
                memory.used_bytes
            );
        }
    }

    #[test]
    fn a_section_outside_of_the_board_is_named() {
        let far = (".text", CODE.1, 0x8000_0000, 100, false, 0x8000_0000);
        let image = elf(true, &[far, BSS], "ARENA");
        let error = count(&Image::parse(&image, ["ARENA", "FAST"]).unwrap(), &board()).unwrap_err();
        assert!(
            error.contains(".text at 0x80000000") && error.contains("flash is 0x0 to 0x4000"),
            "{error}"
        );
    }
}
