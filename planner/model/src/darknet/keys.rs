//! Reads the keys of a section, and refuses those that nothing reads.

use super::config::{Entry, Section};
use super::error::DarknetError;
use std::cell::RefCell;

/// Largest number that a key may have: Darknet's integers have 32 bits.
const LARGEST: i64 = i32::MAX as i64;

/// Keys of any layer that matter in training alone.
const OF_TRAINING: &[&str] = &[
    "burnin_update",
    "dont_update",
    "dropblock",
    "learning_rate",
    "learning_rate_scale",
    "onlyforward",
    "probability",
    "stopbackward",
    "train_only_bn",
    "truth",
];

/// Keys that change what is computed in ways that are not supported, unless they are 0.
const NOT_SUPPORTED: &[&str] = &[
    "antialiasing",
    "assisted_excitation",
    "binary",
    "bin_output",
    "coordconv",
    "deform",
    "dontload",
    "dontloadscales",
    "extra",
    "flatten",
    "flipped",
    "maxpool_depth",
    "noloss",
    "rotate",
    "scale_wh",
    "share_index",
    "spatial",
    "stretch",
    "stretch_sway",
    "sway",
    "tree",
    "xnor",
];

/// A section whose keys are being read.
pub(super) struct Keys<'a> {
    section: &'a Section,
    /// Keys that were asked for.
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Keys<'a> {
    pub fn new(section: &'a Section) -> Self {
        Self { section, known: RefCell::new(vec![]) }
    }

    fn entry(&self, key: &'static str) -> Option<&'a Entry> {
        self.known.borrow_mut().push(key);
        self.section.entries.iter().find(|entry| entry.key == key)
    }

    /// The value of a key, if it is given.
    pub fn text(&self, key: &'static str) -> Option<&'a str> {
        Some(&self.entry(key)?.value)
    }

    /// A whole number of at least `least`.
    pub fn number(
        &self,
        key: &'static str,
        default: usize,
        least: usize,
    ) -> Result<usize, DarknetError> {
        Ok(self.given(key, least)?.unwrap_or(default))
    }

    /// A whole number of at least `least`, if it is given.
    pub fn given(&self, key: &'static str, least: usize) -> Result<Option<usize>, DarknetError> {
        let Some(entry) = self.entry(key) else { return Ok(None) };
        let number = entry.value.parse::<i64>().ok();
        let fits = |number: &i64| (least as i64..=LARGEST).contains(number);
        match number.filter(fits) {
            Some(number) => Ok(Some(number as usize)),
            None => Err(self.at(entry, format!("expected a whole number of {least} to {LARGEST}"))),
        }
    }

    /// Whether a key is given and not 0.
    pub fn flag(&self, key: &'static str) -> Result<bool, DarknetError> {
        Ok(self.number(key, 0, 0)? != 0)
    }

    /// Whole numbers with commas in between; without the key none.
    pub fn numbers(&self, key: &'static str) -> Result<Vec<i64>, DarknetError> {
        let Some(entry) = self.entry(key) else { return Ok(vec![]) };
        let list = entry.value.split(',').filter(|part| !part.is_empty());
        let list = list.map(|part| {
            let number = part.parse::<i64>().ok();
            number.filter(|number| number.abs() <= LARGEST)
        });
        let list: Option<Vec<i64>> = list.collect();
        list.ok_or_else(|| self.at(entry, "expected whole numbers with commas in between"))
    }

    /// An error about a key.
    pub fn wrong(&self, key: &'static str, reason: impl Into<String>) -> DarknetError {
        match self.entry(key) {
            Some(entry) => self.at(entry, reason),
            None => self.error(format!("{key}: {}", reason.into())),
        }
    }

    /// An error about the section.
    pub fn error(&self, reason: impl Into<String>) -> DarknetError {
        let Section { line, name, .. } = self.section;
        DarknetError::Section { line: *line, section: name.clone(), reason: reason.into() }
    }

    fn at(&self, entry: &Entry, reason: impl Into<String>) -> DarknetError {
        let Entry { line, key, value } = entry;
        DarknetError::Key {
            line: *line,
            section: self.section.name.clone(),
            key: key.clone(),
            value: value.clone(),
            reason: reason.into(),
        }
    }

    /// Refuses keys that nothing has asked for.
    pub fn finish(self) -> Result<(), DarknetError> {
        let known = self.known.borrow();
        for entry in &self.section.entries {
            let key = entry.key.as_str();
            if known.contains(&key) || OF_TRAINING.contains(&key) {
                continue;
            }
            if !NOT_SUPPORTED.contains(&key) {
                return Err(self.at(entry, "the section has no such key; remove or correct it"));
            }
            if entry.value != "0" {
                return Err(self.at(entry, "not supported; train the network without it"));
            }
        }
        Ok(())
    }

    /// The first key that nothing has asked for, of those that are not in a list.
    pub fn unread(&self, list: &[&str]) -> Option<&'a Entry> {
        let known = self.known.borrow();
        let read = |entry: &&Entry| {
            let key = entry.key.as_str();
            !known.contains(&key) && !list.contains(&key)
        };
        self.section.entries.iter().find(read)
    }
}
