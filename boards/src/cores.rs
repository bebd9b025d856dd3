//! The cores of a board, and which of them compute and load.
//!
//! Some processors have cores of two kinds: big ones, and little ones that are slower. Computing
//! wants the big ones. A loader mostly waits for storage, so a little one is enough for it. The rule
//! is the same wherever a plan is made and wherever it runs:
//!
//! - Threads take the big cores first, then the little ones.
//! - The loader has the core that the description names. Otherwise it has a little core that does
//!   not compute, or else a big one that does not.
//! - A core that is named for the loader computes after all others of its kind.

use crate::check::{integer, narrow, natural, number, text};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A processor's cores.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cores {
    pub count: u32,
    /// The numbers of the large cores, where cores differ.
    pub big: Vec<u32>,
    /// How fast the others are, a large one being 1. Where it is not known, all count as equal.
    pub little_speed: Option<f64>,
    /// The core of the loader, where one is named.
    pub loader: Option<u32>,
    pub pipeline: Option<String>,
}

impl Cores {
    /// The cores of `threads` compute threads.
    pub fn computing(&self, threads: u32) -> Vec<u32> {
        let mut all: Vec<u32> = (0..self.count).collect();
        let big = |core: &u32| self.big.iter().position(|big| big == core).unwrap_or(usize::MAX);
        // The order of the list of large ones, then that of the numbers.
        all.sort_by_key(|core| {
            let place = big(core);
            (place == usize::MAX, self.loader == Some(*core), place, *core)
        });
        all.truncate(threads as usize);
        all
    }

    /// The core of the loader next to those that compute; `None` where all do and none is named.
    pub fn loader_for(&self, computing: &[u32]) -> Option<u32> {
        let free = || (0..self.count).filter(|core| !computing.contains(core));
        let little = free().find(|core| !self.big.contains(core));
        self.loader.or(little).or(free().next())
    }

    /// Whether a core is one of the large ones; all are, where none differ.
    pub fn is_big(&self, core: u32) -> bool {
        self.big.is_empty() || self.big.contains(&core)
    }

    /// An error in them, for a board of `threads` threads: the key, and the reason.
    pub(crate) fn wrong(&self, threads: Option<u32>) -> Option<(&'static str, String)> {
        let Self { count, big, little_speed, loader, .. } = self;
        if let Some(threads) = threads.filter(|threads| threads > count) {
            let reason = format!("it is {threads}, and there are {count} cores: give fewer");
            return Some(("threads", reason));
        }
        let numbered = format!("and the {count} cores are numbered from 0");
        if let Some(big) = big.iter().find(|big| *big >= count) {
            return Some(("cores.big", format!("it has core {big}, {numbered}")));
        }
        let twice = |(index, core): &(usize, &u32)| big[..*index].contains(core);
        if let Some((_, core)) = big.iter().enumerate().find(twice) {
            return Some(("cores.big", format!("it has core {core} twice: name each core once")));
        }
        if let Some(loader) = loader.filter(|loader| loader >= count) {
            return Some(("cores.loader", format!("it is core {loader}, {numbered}")));
        }
        little_speed.and_then(|_| {
            let littles = *count as usize - big.len();
            let fault = match (big.is_empty(), littles) {
                (true, _) => "no core is named as big: name those in `big`, or leave this out",
                (_, 0) => "all cores are named as big: leave this out, or name fewer in `big`",
                _ => return None,
            };
            Some(("cores.little_speed", fault.to_owned()))
        })
    }

    /// Reads what the schema has found good.
    pub(crate) fn read(table: &DeTable<'_>) -> Self {
        let big = match table.get("big").map(Spanned::get_ref) {
            Some(DeValue::Array(items)) => {
                items.iter().filter_map(|item| integer(item.get_ref())).map(narrow).collect()
            }
            _ => Vec::new(),
        };
        Self {
            count: natural(table, "count").map_or(0, narrow),
            big,
            little_speed: table.get("little_speed").and_then(|value| number(value.get_ref())),
            loader: natural(table, "loader").map(narrow),
            pipeline: text(table, "pipeline"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four little cores and two big ones.
    fn cores(loader: Option<u32>) -> Cores {
        Cores { count: 6, big: vec![4, 5], loader, ..Cores::default() }
    }

    #[test]
    fn threads_take_the_big_cores_first() {
        let none = cores(None);
        assert_eq!(none.computing(1), [4]);
        assert_eq!(none.computing(3), [4, 5, 0]);
        assert_eq!(none.computing(6), [4, 5, 0, 1, 2, 3]);
        assert_eq!(none.loader_for(&none.computing(2)), Some(0));
        assert_eq!(none.loader_for(&none.computing(5)), Some(3));
        assert_eq!(none.loader_for(&none.computing(6)), None);
        assert!(none.is_big(5) && !none.is_big(3) && Cores::default().is_big(3));
    }

    #[test]
    fn the_named_core_of_the_loader_computes_after_its_kind() {
        let big = cores(Some(4));
        assert_eq!(big.computing(1), [5]);
        assert_eq!(big.computing(2), [5, 4]);
        assert_eq!(big.computing(3), [5, 4, 0]);
        let little = cores(Some(0));
        assert_eq!(little.computing(5), [4, 5, 1, 2, 3]);
        assert_eq!(little.computing(6), [4, 5, 1, 2, 3, 0]);
        for threads in 1..=6 {
            assert_eq!(big.loader_for(&big.computing(threads)), Some(4));
            assert_eq!(little.loader_for(&little.computing(threads)), Some(0));
        }
    }
}
