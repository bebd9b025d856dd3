//! A description as a whole: its file, its text, and what it says.

use crate::Board;
use crate::check::{Place, parse};
use crate::error::Error;
use crate::{rules, schema};
use toml::de::{DeTable, DeValue};

/// A description that fits the schema.
#[derive(Clone, Debug)]
pub struct Document {
    file: String,
    text: String,
    board: Board,
}

impl Document {
    /// Reads a board.toml. `file` is what errors call it.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let place = Place { file, text };
        let table = parse(place, schema::BOARD)?;
        let board = Board::read(&table);
        rules::check(&board, place, &table)?;
        Ok(Self { file: file.to_owned(), text: text.to_owned(), board })
    }

    /// Checks a profile, as `eyelet profile` writes it.
    pub fn check_profile(file: &str, text: &str) -> Result<(), Error> {
        parse(Place { file, text }, schema::PROFILE).map(|_| ())
    }

    pub fn board(&self) -> &Board {
        &self.board
    }

    /// A fault that the schema does not know of, at a key such as `gpu.profile.transfer`; at the nearest table around
    /// it that there is.
    pub fn fault(&self, key: &str, reason: impl Into<String>) -> Error {
        Self::fault_in(&self.file, &self.text, key, reason)
    }

    /// A fault at a key of any TOML, whatever schema it has.
    pub fn fault_in(file: &str, text: &str, key: &str, reason: impl Into<String>) -> Error {
        let place = Place { file, text };
        let at = DeTable::parse(text).map_or(0, |table| locate(table.get_ref(), key));
        place.fault(at, key, reason)
    }
}

/// Where a key is: the byte at which it, or the nearest table around it, begins.
fn locate(table: &DeTable<'_>, key: &str) -> usize {
    let mut at = 0;
    let mut table = table;
    for part in key.split('.') {
        let (name, index) = match part.split_once('[') {
            Some((name, index)) => (name, index.trim_end_matches(']').parse::<usize>().ok()),
            None => (part, None),
        };
        let Some((found, mut value)) = table.get_key_value(name) else { break };
        at = found.span().start;
        if let (Some(index), DeValue::Array(items)) = (index, value.get_ref()) {
            let Some(item) = items.get(index) else { break };
            (at, value) = (item.span().start, item);
        }
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    at
}
