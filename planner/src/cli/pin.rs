//! Threads on the cores that a board names: big ones compute, a little one loads.

use super::Error;
use super::error::TargetError;
use eyelet_planner::board::{Board, HOST_BOARD, described, host};
use eyelet_planner::cores::{Cores, Unpinned};
use eyelet_planner::profile::Profile;
use std::fmt::Display;
use std::path::Path;

/// Which cores run what.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Pin {
    /// Keeps each thread to a core of its own, as a board or profile names them: big cores compute, and a little one
    /// loads. Where the system refuses that, it places the threads, and a note says why [default: the board of
    /// EYELET_HOST_BOARD, if its cores are of two kinds].
    #[arg(long, value_name = "BOARD|FILE.toml")]
    pub pin: Option<String>,
}

/// What became of it.
#[derive(Debug, Default)]
pub struct Pinned {
    /// None where nothing was asked for, or where that is refused.
    pub cores: Option<Cores>,
    /// Why it was refused.
    pub note: Option<String>,
}

impl Pin {
    /// The cores for so many threads that compute. Whether threads may run there is tried.
    pub fn find(&self, threads: u32) -> Result<Pinned, Error> {
        let Some((board, cores)) = self.named()? else { return Ok(Pinned::default()) };
        let computing = cores.computing(threads);
        let loader = cores.loader_for(&computing).or(computing.last().copied());
        let pinned = match (computing.len() == threads as usize, loader) {
            (true, Some(loader)) => Cores::pinned(&computing, loader),
            _ => Err(Unpinned::Few { threads, cores: cores.count }),
        };
        Ok(match pinned {
            Ok(cores) => Pinned { cores: Some(cores), note: None },
            Err(refused) => {
                let note = format!("threads are not pinned as {board} says: {refused}");
                Pinned { cores: None, note: Some(note) }
            }
        })
    }

    /// Whose cores, and these.
    fn named(&self) -> Result<Option<(String, described::Cores)>, Error> {
        let Some(name) = &self.pin else {
            let named = std::env::var_os(HOST_BOARD).is_some_and(|name| !name.is_empty());
            let board = if named { Some(host()?) } else { None };
            let of_board = |board: Board| Some((board.name().to_owned(), board.profile.cores?));
            let found = board.and_then(of_board);
            return Ok(found.map(|(board, cores)| (board, cores.described())));
        };
        let cores = match is_profile(name) {
            true => Profile::load(Path::new(name))?.cores.map(|cores| cores.described()),
            false => Board::load(name)?.described.cores,
        };
        match cores {
            Some(cores) => Ok(Some((name.clone(), cores))),
            None => Err(TargetError::NoCores { name: name.clone() }.into()),
        }
    }
}

/// Which cores compute, and which loads.
pub fn listed<Core: Copy + Display + PartialEq>(
    computing: &[Core],
    loader: Option<Core>,
) -> String {
    let cores: Vec<String> = computing.iter().map(ToString::to_string).collect();
    let cores = match cores.as_slice() {
        [one] => format!("core {one} computes"),
        cores => format!("cores {} compute", cores.join(", ")),
    };
    match loader {
        Some(core) if computing.contains(&core) => format!("{cores}, core {core} loads as well"),
        Some(core) => format!("{cores}, core {core} loads"),
        None => cores,
    }
}

/// A profile has no description, and no board is without.
fn is_profile(name: &str) -> bool {
    let source = described::Source::find(name).ok().filter(|source| source.path.is_some());
    let table = source.and_then(|source| source.text.parse::<toml::Table>().ok());
    table.is_some_and(|table| !table.contains_key("description"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use eyelet_planner::profile::UnequalCores;
    use std::fs::write;

    fn pin(name: &Path) -> Pin {
        Pin { pin: Some(name.to_str().unwrap().to_owned()) }
    }

    #[test]
    fn boards_and_profiles_name_cores() {
        let folder = tempfile::tempdir().unwrap();
        let named = |pin: Pin| pin.named().map(|found| found.unwrap().1);
        let board = named(pin(Path::new("rockpro64"))).unwrap();
        assert_eq!((board.count, &board.big[..]), (6, &[4, 5][..]));
        let mut profile = Board::load("rockpro64").unwrap().profile;
        let cores = UnequalCores { count: 8, big: vec![7], little_speed: 0.3, loader: Some(2) };
        (profile.cores, profile.threads) = (Some(cores), 8);
        let path = folder.path().join("measured.toml");
        write(&path, profile.to_toml()).unwrap();
        let cores = named(pin(&path)).unwrap();
        assert_eq!((cores.count, &cores.big[..], cores.loader), (8, &[7][..], Some(2)));
        // Equal cores have no names in a profile, and most boards name none.
        profile.cores = None;
        write(&path, profile.to_toml()).unwrap();
        for without in [path.as_path(), Path::new("jetson-nano")] {
            let error = pin(without).named().unwrap_err().to_string();
            assert!(error.contains("names no cores"), "{error}");
        }
        assert!(pin(Path::new("rockpro65")).named().unwrap_err().to_string().contains("rockpro65"));
    }

    #[test]
    fn cores_are_listed() {
        assert_eq!(listed(&[4, 5], Some(0)), "cores 4, 5 compute, core 0 loads");
        assert_eq!(listed(&[4, 5], Some(5)), "cores 4, 5 compute, core 5 loads as well");
        assert_eq!(listed(&[4], None), "core 4 computes");
    }

    #[test]
    fn what_is_refused_is_said() {
        let found = pin(Path::new("rockpro64")).find(7).unwrap();
        assert_eq!(found.cores, None);
        let note = found.note.unwrap();
        assert!(note.contains("rockpro64 says: 7 threads compute, and it has 6 cores"), "{note}");
    }
}
