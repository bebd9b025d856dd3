//! Checks a file against the schema, and reads single values from it.

use crate::error::Error;
use crate::schema::{Key, Kind, Need, Range};
use crate::size;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A file and its text: what places in it are called.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl Place<'_> {
    /// A fault at a byte of the text.
    pub fn fault(self, at: usize, key: impl Into<String>, reason: impl Into<String>) -> Error {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        Error { file: self.file.to_owned(), line, key: key.into(), reason: reason.into() }
    }
}

/// Parses TOML and checks it against keys.
pub(crate) fn parse<'t>(place: Place<'t>, keys: &[Key]) -> Result<DeTable<'t>, Error> {
    let table = DeTable::parse(place.text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        place.fault(at, "", format!("it is no TOML: {}", error.message().replace('\n', ", ")))
    })?;
    let table = table.into_inner();
    check_table(place, 0, "", &table, keys, true)?;
    Ok(table)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Checks a table that begins at a byte of the text: no unknown key, none missing, every value as it must be.
fn check_table(
    place: Place<'_>,
    at: usize,
    path: &str,
    table: &DeTable<'_>,
    keys: &[Key],
    complete: bool,
) -> Result<(), Error> {
    for (name, value) in in_order(table) {
        let path = join(path, name.get_ref());
        let Some(key) = keys.iter().find(|key| key.name == name.get_ref()) else {
            let known = keys.iter().filter(|key| key.need != Need::Former).map(|key| key.name);
            let known: Vec<&str> = known.collect();
            let reason = format!("there is no such key; there are: {}", known.join(", "));
            return Err(place.fault(name.span().start, path, reason));
        };
        check_value(place, name.span().start, &path, value, &key.kind, complete)?;
    }
    let lacks = |key: &&Key| key.need == Need::Required && !table.contains_key(key.name);
    match keys.iter().find(lacks) {
        Some(key) if complete => {
            let reason = format!("it is missing; it must be {}", expected(&key.kind));
            Err(place.fault(at, join(path, key.name), reason))
        }
        _ => Ok(()),
    }
}

/// The entries of a table as they stand in the file: the first fault is the one that is named.
fn in_order<'a, 't>(
    table: &'a DeTable<'t>,
) -> Vec<(&'a Spanned<std::borrow::Cow<'t, str>>, &'a Spanned<DeValue<'t>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries
}

fn check_value(
    place: Place<'_>,
    at: usize,
    path: &str,
    value: &Spanned<DeValue<'_>>,
    kind: &Kind,
    complete: bool,
) -> Result<(), Error> {
    let refused = |reason: String| Err(place.fault(value.span().start, path, reason));
    let must = || refused(format!("it is {}; it must be {}", shown(value), expected(kind)));
    let good = match (kind, value.get_ref()) {
        (Kind::Table(keys), DeValue::Table(table)) => {
            return check_table(place, at, path, table, keys, complete);
        }
        (Kind::Part(keys), DeValue::Table(table)) => {
            return check_table(place, at, path, table, keys, false);
        }
        (Kind::Tables(keys), DeValue::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                let path = format!("{path}[{index}]");
                let at = item.span().start;
                let DeValue::Table(table) = item.get_ref() else {
                    let reason = format!("it is {}; it must be a table", shown(item));
                    return Err(place.fault(at, path, reason));
                };
                // A table of a list is whole, whatever surrounds it.
                check_table(place, at, &path, table, keys, true)?;
            }
            return match items.is_empty() {
                true => refused("it is empty; it must be a list of tables".to_owned()),
                false => Ok(()),
            };
        }
        (Kind::Integers(range), DeValue::Array(items)) => {
            let outside = |item: &&Spanned<DeValue<'_>>| !is_integer(item.get_ref(), range);
            return match items.iter().find(outside) {
                Some(item) => refused(format!("{} in it must be {}", shown(item), range.text)),
                None => Ok(()),
            };
        }
        (Kind::Size(range), DeValue::String(text)) => match size::parse(text) {
            Ok(bytes) => range.holds(bytes as f64),
            Err(reason) => return refused(reason),
        },
        (Kind::Text, DeValue::String(text)) => !text.is_empty(),
        (Kind::Formed(is, _), DeValue::String(text)) => is(text),
        (Kind::Choice(choices), DeValue::String(text)) => choices.contains(&text.as_ref()),
        (Kind::Flag, DeValue::Boolean(_)) => true,
        (Kind::Integer(range) | Kind::Size(range), value) => is_integer(value, range),
        (Kind::Power(range), value) => {
            is_integer(value, range) && integer(value).is_some_and(u64::is_power_of_two)
        }
        (Kind::Number(range), value) => number(value).is_some_and(|value| range.holds(value)),
        _ => false,
    };
    if good { Ok(()) } else { must() }
}

fn is_integer(value: &DeValue<'_>, range: &Range) -> bool {
    integer(value).is_some_and(|value| range.holds(value as f64))
}

/// An integer that is not negative.
pub(crate) fn integer(value: &DeValue<'_>) -> Option<u64> {
    let found = value.as_integer()?;
    u64::from_str_radix(found.as_str(), found.radix()).ok()
}

/// A number, with or without a point.
pub(crate) fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Float(found) => found.as_str().parse().ok(),
        DeValue::Integer(found) => {
            i64::from_str_radix(found.as_str(), found.radix()).ok().map(|value| value as f64)
        }
        _ => None,
    }
}

/// Bytes, as an integer or with a unit.
pub(crate) fn bytes(value: &DeValue<'_>) -> Option<u64> {
    match value {
        DeValue::String(text) => size::parse(text).ok(),
        value => integer(value),
    }
}

/// A value, or its type where it is long.
fn shown(value: &Spanned<DeValue<'_>>) -> String {
    match value.get_ref() {
        DeValue::String(text) => format!("`{text}`"),
        DeValue::Integer(found) if found.radix() == 10 => found.as_str().to_owned(),
        DeValue::Integer(found) => format!("{} in base {}", found.as_str(), found.radix()),
        // As short as the number is: `0.0` is 0, and NaN is NaN.
        DeValue::Float(found) => match found.as_str().parse::<f64>() {
            Ok(value) => value.to_string(),
            Err(_) => found.as_str().to_owned(),
        },
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
        DeValue::Datetime(time) => time.to_string(),
    }
}

/// The expected kind of a value, in words.
fn expected(kind: &Kind) -> String {
    match kind {
        Kind::Text => "a string that is not empty".to_owned(),
        Kind::Formed(_, text) => (*text).to_owned(),
        Kind::Choice(choices) => format!("one of: {}", choices.join(", ")),
        Kind::Flag => "true or false".to_owned(),
        Kind::Power(range) => format!("{} (an integer)", range.text),
        Kind::Integer(range) => format!("an integer {}", range.text),
        Kind::Size(range) => format!("bytes {}, as an integer or like \"512KiB\"", range.text),
        Kind::Number(range) => range.text.to_owned(),
        Kind::Integers(range) => format!("a list of integers {}", range.text),
        Kind::Table(_) | Kind::Part(_) => "a table".to_owned(),
        Kind::Tables(_) => "a list of tables".to_owned(),
    }
}

/// The table of a key.
pub(crate) fn inner<'a, 't>(table: &'a DeTable<'t>, key: &str) -> Option<&'a DeTable<'t>> {
    table.get(key)?.get_ref().as_table()
}

/// The tables of a list.
pub(crate) fn tables<'a, 't>(
    table: &'a DeTable<'t>,
    key: &str,
) -> impl Iterator<Item = &'a DeTable<'t>> {
    let items = table.get(key).and_then(|value| value.get_ref().as_array());
    items.into_iter().flat_map(|items| items.iter()).filter_map(|item| item.get_ref().as_table())
}

/// Where a key stands.
pub(crate) fn at(table: &DeTable<'_>, key: &str) -> usize {
    table.get_key_value(key).map_or(0, |(name, _)| name.span().start)
}

/// Where a key is: the byte at which it, or the nearest table around it, begins.
pub(crate) fn locate(table: &DeTable<'_>, key: &str) -> usize {
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

/// The schema has no number of this kind that is too large.
pub(crate) fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

pub(crate) fn text(table: &DeTable<'_>, key: &str) -> Option<String> {
    Some(table.get(key)?.get_ref().as_str()?.to_owned())
}

pub(crate) fn natural(table: &DeTable<'_>, key: &str) -> Option<u64> {
    integer(table.get(key)?.get_ref())
}
