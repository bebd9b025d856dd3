//! The text: sections in brackets, each with lines of `key=value`.
//!
//! As for Darknet, white space counts nowhere and `#` and `;` begin comments. Of a key that is
//! given twice the first counts.

use super::error::DarknetError;

/// A section.
#[derive(Debug)]
pub(super) struct Section {
    /// Line of its name, from 1.
    pub line: usize,
    /// Its name without brackets.
    pub name: String,
    pub entries: Vec<Entry>,
}

/// A line of a section.
#[derive(Debug)]
pub(super) struct Entry {
    pub line: usize,
    pub key: String,
    pub value: String,
}

/// Longest part of a line that an error repeats.
const SHOWN: usize = 60;

/// Takes a text apart.
pub(super) fn sections(text: &str) -> Result<Vec<Section>, DarknetError> {
    let mut sections: Vec<Section> = vec![];
    for (at, given) in text.lines().enumerate() {
        let line = at + 1;
        let given = given.split(['#', ';']).next().unwrap_or_default();
        let bare: String =
            given.chars().filter(|c| !c.is_whitespace() && *c != '\u{feff}').collect();
        if bare.is_empty() {
            continue;
        }
        let refuse = |reason| {
            let text = bare.chars().take(SHOWN).collect();
            DarknetError::Line { line, text, reason }
        };
        if let Some(rest) = bare.strip_prefix('[') {
            let name = rest.strip_suffix(']').ok_or_else(|| refuse("has no closing bracket"))?;
            sections.push(Section { line, name: name.into(), entries: vec![] });
            continue;
        }
        let Some(section) = sections.last_mut() else {
            return Err(refuse("comes before [net], with which a Darknet .cfg begins"));
        };
        let Some((key, value)) = bare.split_once('=') else {
            return Err(refuse("is neither a section in brackets nor key=value"));
        };
        section.entries.push(Entry { line, key: key.into(), value: value.into() });
    }
    Ok(sections)
}
