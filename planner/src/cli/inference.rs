//! How inferences run: options that `run` and `bench` share.

use super::first::First;
use super::pin::Pin;
use eyelet::arena::MapOptions;
use eyelet::device::workers::MAX_THREADS;
use eyelet::storage::MAX_DEPTH;
use eyelet_planner::source::Io;
use std::path::{Path, PathBuf};

/// Threads, reads, and what may delay them.
#[derive(Clone, Debug, clap::Args)]
pub struct Inference {
    /// Compute threads [default: as planned, but no more than there are cores]. The loader has its own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_THREADS as i64))]
    pub threads: Option<u32>,
    /// How weights are read: past the page cache, through it, or from a map of the whole pack.
    #[arg(long, value_enum, default_value_t = Io::Direct)]
    pub io: Io,
    /// Reads under way at once, at most: 1 is a load after the other [default: as many as the storage takes, 4 past the
    /// page cache; with --slow-to-board, and otherwise, 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_DEPTH as i64))]
    pub depth: Option<u32>,
    /// Has reads take as long as on a board, or by a profile: its name, or the path of a file. What this machine's
    /// storage takes longer for, it takes.
    #[arg(long, alias = "pace", value_name = "BOARD|FILE.toml")]
    pub slow_to_board: Option<PathBuf>,
    /// Does not compare what is read with its checksums.
    #[arg(long)]
    pub no_verify: bool,
    #[command(flatten)]
    pub pin: Pin,
    #[command(flatten)]
    pub first: First,
    /// Locks the arena in memory, so that it is never swapped out. Needs CAP_IPC_LOCK or a limit of its size (ulimit -l).
    #[arg(long)]
    pub lock: bool,
}

impl Inference {
    /// How the arena is mapped.
    pub fn map(&self) -> MapOptions {
        MapOptions { locked: self.lock, ..MapOptions::default() }
    }

    /// The board or file that reads are slowed to, as text.
    pub fn pace(&self) -> Option<&str> {
        self.slow_to_board.as_deref().and_then(Path::to_str)
    }

    /// The command line that gives another process these options, with weights read like this.
    pub fn options(&self, io: Io) -> Vec<String> {
        let Self { threads, depth, slow_to_board, no_verify, pin, first, lock, .. } = self;
        let pace = slow_to_board.as_ref().map(|path| path.to_string_lossy().into_owned());
        let valued = [
            ("--threads", threads.map(|threads| threads.to_string())),
            ("--io", Some(io.name().to_owned())),
            ("--depth", depth.map(|depth| depth.to_string())),
            ("--slow-to-board", pace),
            ("--pin", pin.pin.clone()),
            ("--priority", first.priority.map(|priority| priority.to_string())),
        ];
        let valued = valued.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
        let flags = [("--no-verify", *no_verify), ("--lock", *lock)];
        let flags = flags.into_iter().filter(|(_, given)| *given);
        valued.flatten().chain(flags.map(|(name, _)| name.to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        inference: Inference,
    }

    #[test]
    fn another_process_gets_what_this_one_got() {
        let line = "x --threads 2 --io memory --depth 3 --slow-to-board pi --pin pi --priority 7 --no-verify --lock";
        let given = Line::parse_from(line.split(' ')).inference;
        let again = |inference: &Inference| {
            let options = inference.options(inference.io);
            Line::parse_from(std::iter::once("x".to_owned()).chain(options)).inference
        };
        assert_eq!(format!("{:?}", again(&given)), format!("{given:?}"));
        let none = Line::parse_from(["x"]).inference;
        assert_eq!(format!("{:?}", again(&none)), format!("{none:?}"));
        assert_eq!(none.options(Io::Buffered), ["--io", "buffered"]);
    }
}
