//! `eyelet sizes`: what a linked image takes of a board's memories.

mod count;
mod image;
mod limit;
mod report;

use super::Error;
use super::error::SizesError;
use super::files::Files;
use super::output::Output;
use count::Memory;
use eyelet_planner::board::Board;
use eyelet_planner::{open, replace};
use image::Image;
use limit::Limit;
use report::{Compared, Report};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Counts what a firmware image takes of every memory of its board: code, constants, data, zeroed data, the arena of
/// networks, their fast memory, and the stack that the board's description sets aside. Exits with 1 where a memory is too small, or a part
/// larger than its limit.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The image: an ELF file, as the linker wrote it.
    #[arg(value_name = "IMAGE.elf")]
    image: PathBuf,
    /// The board that it was linked for: a name, or the path of a board.toml.
    #[arg(long, value_name = "BOARD")]
    board: String,
    /// The variable that serves as arena, in Rust or C.
    #[arg(long, value_name = "SYMBOL", default_value = "ARENA")]
    arena: String,
    /// The variable that serves as fast memory, in Rust or C.
    #[arg(long, value_name = "SYMBOL", default_value = "FAST")]
    fast: String,
    /// The most that a part may take in all memories together: code=300KiB, or another column's name. May be repeated.
    #[arg(long, value_name = "PART=SIZE", value_parser = limit::parse)]
    limit: Vec<Limit>,
    /// Writes the sizes to a file, to compare later images with.
    #[arg(long, value_name = "FILE.json")]
    save: Option<PathBuf>,
    /// Shows what has changed since the sizes of a file were saved.
    #[arg(long, value_name = "FILE.json")]
    compare: Option<PathBuf>,
}

const EXAMPLE: &str = "\
Example:
  eyelet sizes firmware.elf --board ./mine.toml --save sizes.json
  eyelet sizes firmware.elf --board ./mine.toml --compare sizes.json
  eyelet sizes firmware.elf --board ./mine.toml --limit code=300KiB";

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    Files::default()
        .reads("the image", [&args.image])
        .reads("--compare", &args.compare)
        .reads_board("--board", Some(&args.board))
        .writes("--save", &args.save)
        .check()?;
    let board = Board::load(&args.board)?.described;
    if board.memories.is_empty() {
        return Err(SizesError::NoMemories { board: board.name }.into());
    }
    let wrong = |reason| SizesError::Image { path: args.image.clone(), reason };
    let bytes = open::map(&args.image)
        .map_err(|source| Error::Read { path: args.image.clone(), source })?;
    let image = Image::parse(&bytes, [&args.arena, &args.fast]).map_err(wrong)?;
    let memories = count::count(&image, &board).map_err(wrong)?;
    let before = match &args.compare {
        Some(path) => Some(saved(path)?),
        None => None,
    };
    let report = Report::new(&args.image, &board, &image, memories);
    if let Some(path) = &args.save {
        let write = |source| Error::Write { path: path.clone(), source };
        let text = serde_json::to_string_pretty(&report)
            .map_err(|error| write(std::io::Error::from(error)))?;
        replace::replace(path, |sink| writeln!(sink, "{text}")).map_err(write)?;
    }
    let mut over = report.over();
    over.extend(args.limit.iter().filter_map(|limit| limit.over(report.memories())));
    output.report(&Compared { report, before })?;
    match over.is_empty() {
        true => Ok(()),
        false => Err(SizesError::Over { path: args.image, over }.into()),
    }
}

/// The memories that a file has saved.
fn saved(path: &Path) -> Result<Vec<Memory>, Error> {
    let bytes = open::read(path, open::DESCRIPTION)
        .map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let report: report::Saved = serde_json::from_slice(&bytes).map_err(|error| {
        let reason = format!("it is no file that `eyelet sizes --save` wrote: {error}");
        SizesError::Image { path: path.to_owned(), reason }
    })?;
    Ok(report.memories)
}
