//! Text on its way to a terminal: names in it are the model's, and may hold whatever a terminal obeys.

use std::fmt::{self, Write as _};
use std::io;

/// Writes text with control characters as escapes, but for tabs and the ends of lines.
pub fn write(to: &mut impl io::Write, text: impl fmt::Display) -> io::Result<()> {
    let mut printable = Printable { to, failed: None };
    let written = write!(printable, "{text}");
    match (printable.failed, written) {
        (Some(error), _) => Err(error),
        (None, Ok(())) => Ok(()),
        (None, Err(_)) => Err(io::Error::other("a report cannot be written as text")),
    }
}

struct Printable<'a, W> {
    to: &'a mut W,
    failed: Option<io::Error>,
}

impl<W: io::Write> fmt::Write for Printable<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(is_obeyed) {
            let (before, from) = rest.split_at(at);
            let mut chars = from.chars();
            let escaped = chars.next().map(char::escape_default);
            self.put(format_args!("{before}"))?;
            escaped.map_or(Ok(()), |escaped| self.put(format_args!("{escaped}")))?;
            rest = chars.as_str();
        }
        self.put(format_args!("{rest}"))
    }
}

impl<W: io::Write> Printable<'_, W> {
    fn put(&mut self, text: fmt::Arguments<'_>) -> fmt::Result {
        self.to.write_fmt(text).map_err(|error| {
            self.failed = Some(error);
            fmt::Error
        })
    }
}

/// Whether a terminal does something else than to show the character: control characters, and those that turn the
/// direction of what follows.
fn is_obeyed(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control() && !matches!(c, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown() {
        let mut shown = Vec::new();
        write(&mut shown, "a\u{1b}[31mred\u{7}\r\u{9b}2J\u{202e}é\n").unwrap();
        assert_eq!(
            String::from_utf8(shown).unwrap(),
            "a\\u{1b}[31mred\\u{7}\\r\\u{9b}2J\\u{202e}é\n"
        );
    }
}
