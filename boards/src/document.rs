//! A description as a whole: its file, its text, and what it says.

use crate::Board;
use crate::check::{Place, locate, parse};
use crate::error::Error;
use crate::{rules, schema};
use toml::de::DeTable;

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
        let place = Place { file, text };
        rules::check_profile(place, &parse(place, schema::PROFILE)?)
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
