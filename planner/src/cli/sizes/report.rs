//! The table of `eyelet sizes`.

use super::count::Memory;
use super::image::Image;
use crate::cli::table::Table;
use eyelet_planner::board::described::{Board, Region};
use eyelet_planner::size;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// What an image takes.
#[derive(Debug, Serialize)]
pub struct Report {
    image: PathBuf,
    board: String,
    /// Whether every memory is large enough, and the arena no larger than the board allows.
    fits: bool,
    /// The arena's variable, where the image has it.
    arena_bytes: Option<u64>,
    /// What the board gives networks, if its description says so.
    board_arena_bytes: Option<u64>,
    /// The variable of fast memory, where the image has it.
    fast_bytes: Option<u64>,
    /// What the board gives networks of that.
    board_fast_bytes: u64,
    memories: Vec<Memory>,
}

/// The part of a saved report that is compared.
#[derive(Debug, Deserialize)]
pub struct Saved {
    pub memories: Vec<Memory>,
}

/// A report, next to the memories of an earlier one.
#[derive(Debug, Serialize)]
pub struct Compared {
    #[serde(flatten)]
    pub report: Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Vec<Memory>>,
}

impl Report {
    pub fn new(path: &Path, board: &Board, image: &Image, memories: Vec<Memory>) -> Self {
        let mut report = Self {
            image: path.to_owned(),
            board: board.name.clone(),
            fits: true,
            arena_bytes: image.arena.map(|arena| arena.bytes),
            board_arena_bytes: board.arena_bytes(),
            fast_bytes: image.fast.map(|fast| fast.bytes),
            board_fast_bytes: board.bytes(Region::Fast),
            memories,
        };
        report.fits = report.over().is_empty();
        report
    }

    /// What the image takes of each memory.
    pub fn memories(&self) -> &[Memory] {
        &self.memories
    }

    /// What is too large, in sentences.
    pub fn over(&self) -> Vec<String> {
        let memories = self.memories.iter().filter(|memory| memory.used_bytes > memory.bytes);
        let mut over: Vec<String> = memories
            .map(|memory| {
                let Memory { name, bytes, used_bytes, .. } = memory;
                let (used, has) = (size::exact(*used_bytes), size::exact(*bytes));
                format!(
                    "the memory {name} of the board {} has {has}, and the image takes {used}",
                    self.board
                )
            })
            .collect();
        if let (Some(arena), Some(most)) = (self.arena_bytes, self.board_arena_bytes)
            && arena > most
        {
            over.push(format!(
                "the arena has {}, and the board {} gives a network {}",
                size::exact(arena),
                self.board,
                size::exact(most)
            ));
        }
        if let Some(fast) = self.fast_bytes
            && fast > self.board_fast_bytes
        {
            over.push(format!(
                "fast memory has {}, and the region fast of the board {} has {}",
                size::exact(fast),
                self.board,
                size::exact(self.board_fast_bytes)
            ));
        }
        over
    }
}

/// Characters of a memory's bar, and what each part is drawn with.
const BAR: u64 = 40;
const MARKS: [char; 7] = ['c', 'r', 'd', 'b', 'A', 'F', 's'];

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { image, board, arena_bytes, memories, .. } = &self.report;
        writeln!(f, "{} on the board {board}, in bytes", image.display())?;
        write!(f, "{}", self.table())?;
        for memory in memories {
            writeln!(f, "{:<12}[{}]", memory.name, bar(memory))?;
        }
        writeln!(
            f,
            "c code, r constants, d data, b zeroed data, A arena, F fast memory, s stack, . free"
        )?;
        if arena_bytes.is_none() {
            writeln!(
                f,
                "The image has no symbol of the arena's name: its bytes are in another column. --arena names it."
            )?;
        }
        Ok(())
    }
}

impl Compared {
    /// A row for each part, a column for each memory, and one for what has changed of it.
    fn table(&self) -> Table {
        let memories = &self.report.memories;
        let before = |memory: &Memory| {
            self.before.iter().flatten().find(|before| before.name == memory.name)
        };
        let mut headers = vec!["part".to_owned()];
        for memory in memories {
            headers.push(memory.name.clone());
            headers.extend(before(memory).map(|_| "change".to_owned()));
        }
        let mut table = Table::new(1, headers).names();
        for index in 0..=Memory::default().parts().len() {
            let part = |memory: &Memory| {
                memory.parts().get(index).copied().unwrap_or(("used", memory.used_bytes))
            };
            let mut row = vec![part(&Memory::default()).0.to_owned()];
            for memory in memories {
                let now = part(memory).1;
                row.push(now.to_string());
                row.extend(before(memory).map(|before| change(part(before).1, now)));
            }
            table.row(row);
        }
        let mut last = |name: &str, cell: &dyn Fn(&Memory) -> String| {
            let mut row = vec![name.to_owned()];
            for memory in memories {
                row.push(cell(memory));
                row.extend(before(memory).map(|_| String::new()));
            }
            table.row(row);
        };
        last("of", &|memory| memory.bytes.to_string());
        last("share", &|memory| {
            format!("{:.1}%", 100.0 * memory.used_bytes as f64 / memory.bytes as f64)
        });
        table
    }
}

fn change(before: u64, now: u64) -> String {
    match i128::from(now) - i128::from(before) {
        0 => "0".to_owned(),
        difference => format!("{difference:+}"),
    }
}

/// A memory's parts, side by side. What there is takes a character at least.
fn bar(memory: &Memory) -> String {
    let whole = memory.bytes.max(memory.used_bytes).max(1);
    let mut bar = String::new();
    let mut passed = 0u64;
    for ((_, bytes), mark) in memory.parts().into_iter().zip(MARKS) {
        passed = passed.saturating_add(bytes);
        let end = (u128::from(passed) * u128::from(BAR)).div_ceil(u128::from(whole)) as usize;
        let least = bar.len() + usize::from(bytes > 0);
        while bar.len() < end.max(least) && bytes > 0 {
            bar.push(mark);
        }
    }
    while (bar.len() as u64) < BAR {
        bar.push('.');
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::super::count::count;
    use super::super::count::tests::board;
    use super::super::image::tests::{BSS, CODE, DATA, RODATA, elf};
    use super::*;

    fn report(bss_bytes: u64) -> Report {
        let bss = (BSS.0, BSS.1, BSS.2, bss_bytes, true, BSS.5);
        let image =
            Image::parse(&elf(true, &[CODE, RODATA, DATA, bss], "ARENA"), ["ARENA", "FAST"])
                .unwrap();
        let memories = count(&image, &board()).unwrap();
        Report::new(Path::new("image.elf"), &board(), &image, memories)
    }

    #[test]
    fn the_table_says_what_has_changed() {
        let before = Some(report(9192).memories);
        let text = Compared { report: report(10_000), before }.to_string();
        for line in [
            "part    flash  change   sram  change",
            "bss         0       0   1808    +808",
            "arena       0       0   8192       0",
            "used     8200       0  14296    +808",
            "of      16384          32768",
            "share   50.0%          43.6%",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line} in {text}");
        }
        assert!(text.contains("flash       [cccccccccccccrrrrrrrd..................."), "{text}");
    }

    /// Whatever the sizes, and with what has changed.
    #[test]
    fn the_table_fits_a_terminal() {
        let mut large = report(9192);
        let [flash, sram] = &mut large.memories[..] else { panic!("two memories") };
        (flash.code_bytes, sram.arena_bytes) = (1 << 31, 1 << 31);
        let before = Some(report(9192).memories);
        let mut text = String::new();
        Compared { report: large, before }.table().fit(80, &mut text).unwrap();
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert_eq!(text.matches("rodata").count(), 1, "{text}");
    }

    #[test]
    fn what_is_over_is_said_in_numbers() {
        assert_eq!(report(9192).over(), [""; 0]);
        let over = report(40_000).over();
        assert!(over[0].contains("sram") && over[0].contains("32 KiB (32768 bytes)"), "{over:?}");
        assert!(over[0].contains("(44296 bytes)") && over.len() == 1, "{over:?}");
    }

    #[test]
    fn an_arena_beyond_what_the_board_gives_is_over() {
        let mut report = report(9192);
        report.arena_bytes = Some(12 << 10);
        let over = report.over();
        assert!(over[0].contains("12 KiB") && over[0].contains("8 KiB"), "{over:?}");
    }

    #[test]
    fn fast_memory_beyond_what_the_board_gives_is_over() {
        let mut report = report(9192);
        report.fast_bytes = Some(4096);
        let over = report.over();
        assert!(over[0].contains("fast memory has 4 KiB") && over[0].contains("has 0"), "{over:?}");
    }
}
