//! Options of a measurement, and the place of the profile.

use crate::files::{Files, of_board};
use crate::measure::{Patience, measure};
use crate::progress::Progress;
use crate::{Error, Report};
use eyelet::device::workers::MAX_THREADS;
use eyelet::kernels::Kernels;
use eyelet_model::replace::replace;
use eyelet_plan::board::{self, Board};
use eyelet_plan::source::Io;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The options of `eyelet profile` and of `eyelet-profile`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Measures the kernels of that board, which this processor must be able to run [default: its best]. `--board list`
    /// prints the boards that come with eyelet.
    #[arg(long, value_name = "BOARD")]
    board: Option<String>,
    /// Compute threads [default: as many as there are cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_THREADS as i64))]
    threads: Option<u32>,
    /// A folder on the storage that is to be measured [default: the folder of the profile].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How packs will be read: past the page cache, through it (with the pack there), or from a map.
    #[arg(long, value_enum, default_value_t = Io::Direct)]
    io: Io,
    /// Measures for a third of the time. What disturbs the machine meanwhile then counts more.
    #[arg(long)]
    brief: bool,
    /// Measures everything once, to see that it works, on an emulator for example. The numbers mean little.
    #[arg(long, conflicts_with = "brief")]
    once: bool,
    /// Where to write the profile. There is no default: it is written nowhere else, nor printed.
    #[arg(short, long, value_name = "FILE.toml")]
    output: Option<PathBuf>,
}

impl Options {
    /// Whether the boards that come with eyelet are to be listed, and nothing measured.
    pub fn lists_boards(&self) -> bool {
        self.board.as_deref() == Some("list")
    }

    /// Measures this machine and writes the profile. A terminal on stderr may show how far that is.
    pub fn measure(&self, with_progress: bool) -> Result<Report, Error> {
        let file = self.output.clone().ok_or(Error::NoOutput)?;
        let board = self.board.as_deref();
        Files::default().reads("--board", &of_board(board)).writes("-o", [&file]).check()?;
        let board = match board {
            Some(name) => Board::load(name)?,
            None => board::host()?,
        };
        let isa = board.profile.isa;
        let kernels = Kernels::for_isa(isa)
            .ok_or_else(|| Error::NotHere { board: board.name().to_owned(), isa: isa.name() })?;
        let cores = board::host()?.profile.threads.min(MAX_THREADS as u32);
        let folder = self.dir.as_deref().or_else(|| file.parent());
        let folder = folder.filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let progress = Progress::new(with_progress);
        let profile = measure(
            board.name(),
            kernels,
            self.threads.unwrap_or(cores),
            folder,
            self.io,
            match (self.brief, self.once) {
                (_, true) => Patience::ONCE,
                (true, _) => Patience::SHORT,
                _ => Patience::LONG,
            },
            &|share| progress.set(share),
        )?;
        drop(progress);
        replace(&file, |sink| sink.write_all(profile.to_toml().as_bytes()))
            .map_err(|source| Error::Write { path: file.clone(), source })?;
        Ok(Report { file, profile })
    }
}
