//! Problems and answers as text: comma-separated values as `google/minimalloc` reads and writes them.
//!
//! The first line names the columns, in any order: `id`, `lower`, `upper`, `size`, and where wanted
//! `alignment`. Any others are carried along. An answer is the same lines with `offset` added.

use super::Buffer;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// A file of buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The lines as they were, for the answer.
    header: String,
    lines: Vec<String>,
    pub ids: Vec<String>,
    pub buffers: Vec<Buffer>,
}

/// Why a file is no problem; lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CsvError {
    #[error("the file is empty; its first line should be `id,lower,upper,size`")]
    Empty,
    #[error("line 1: there is no column `{0}`; the columns should be `id,lower,upper,size`")]
    Missing(&'static str),
    #[error("line 1: the column `{0}` is there twice")]
    Repeated(String),
    #[error("line 1: there is a column `offset` already; take it away to place the buffers anew")]
    Placed,
    #[error("line {line}: a quoted field; write fields without quotes and commas")]
    Quoted { line: usize },
    #[error("line {line}: {found} fields, but {expected} columns")]
    Fields { line: usize, found: usize, expected: usize },
    #[error("line {line}: {column} `{text}` is not a whole number{range}", range = range(column))]
    Number { line: usize, column: &'static str, text: String },
    #[error("line {line}: lower {lower} is not below upper {upper}")]
    Lifetime { line: usize, lower: i64, upper: i64 },
    #[error("line {line}: the id `{id}` is that of line {first}")]
    Id { line: usize, id: String, first: usize },
    #[error("line {line}: the sizes so far add up to more than 2^62")]
    Large { line: usize },
}

fn range(column: &str) -> &'static str {
    match column {
        "size" => " from 0",
        "alignment" => " from 1",
        _ => "",
    }
}

/// Sums stay below this, so that nothing computed from them overflows.
const TOTAL: u64 = 1 << 62;

impl Table {
    pub fn parse(text: &str) -> Result<Self, CsvError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty());
        let (_, header) = lines.next().ok_or(CsvError::Empty)?;
        let columns = Columns::parse(header)?;
        let mut table = Self {
            header: header.trim().to_owned(),
            lines: Vec::new(),
            ids: Vec::new(),
            buffers: Vec::new(),
        };
        let mut seen: HashMap<String, usize> = HashMap::new();
        let mut total = 0u64;
        for (line, text) in lines {
            if text.contains('"') {
                return Err(CsvError::Quoted { line });
            }
            let fields: Vec<&str> = text.split(',').map(str::trim).collect();
            if fields.len() != columns.count {
                let (found, expected) = (fields.len(), columns.count);
                return Err(CsvError::Fields { line, found, expected });
            }
            let buffer = columns.buffer(line, &fields)?;
            let sum = total.checked_add(buffer.size).and_then(|sum| sum.checked_add(buffer.align));
            total = sum.filter(|sum| *sum <= TOTAL).ok_or(CsvError::Large { line })?;
            let id = fields[columns.id].to_owned();
            if let Some(first) = seen.insert(id.clone(), line) {
                return Err(CsvError::Id { line, id, first });
            }
            table.ids.push(id);
            table.buffers.push(buffer);
            table.lines.push(text.trim().to_owned());
        }
        Ok(table)
    }

    /// The lines with their offsets.
    pub fn with_offsets(&self, offsets: &[u64]) -> String {
        let mut text = format!("{},offset\n", self.header);
        for (line, offset) in self.lines.iter().zip(offsets) {
            // A String takes whatever is written.
            let _ = writeln!(text, "{line},{offset}");
        }
        text
    }
}

/// Which field is what.
struct Columns {
    count: usize,
    id: usize,
    lower: usize,
    upper: usize,
    size: usize,
    alignment: Option<usize>,
}

impl Columns {
    fn parse(header: &str) -> Result<Self, CsvError> {
        if header.contains('"') {
            return Err(CsvError::Quoted { line: 1 });
        }
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let mut seen = HashSet::new();
        for name in &names {
            if !seen.insert(name) {
                return Err(CsvError::Repeated((*name).to_owned()));
            }
        }
        let find = |name| names.iter().position(|other| *other == name);
        if find("offset").is_some() {
            return Err(CsvError::Placed);
        }
        let need = |name| find(name).ok_or(CsvError::Missing(name));
        Ok(Self {
            count: names.len(),
            id: need("id")?,
            lower: need("lower")?,
            upper: need("upper")?,
            size: need("size")?,
            alignment: find("alignment"),
        })
    }

    fn buffer(&self, line: usize, fields: &[&str]) -> Result<Buffer, CsvError> {
        fn number<T: std::str::FromStr>(
            line: usize,
            column: &'static str,
            text: &str,
        ) -> Result<T, CsvError> {
            text.parse().map_err(|_| CsvError::Number { line, column, text: text.to_owned() })
        }
        let lower = number(line, "lower", fields[self.lower])?;
        let upper = number(line, "upper", fields[self.upper])?;
        let size = number(line, "size", fields[self.size])?;
        let align = match self.alignment.map(|at| fields[at]) {
            None => 1,
            Some(text) => match number(line, "alignment", text)? {
                0 => {
                    return Err(CsvError::Number {
                        line,
                        column: "alignment",
                        text: text.to_owned(),
                    });
                }
                align => align,
            },
        };
        if lower >= upper {
            return Err(CsvError::Lifetime { line, lower, upper });
        }
        Ok(Buffer { lower, upper, size, align })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_come_in_any_order() {
        let table =
            Table::parse("\u{feff}size, upper,hint,id,lower\r\n4,3,x,b1,-1\r\n\r\n0,9,,b2,3\n");
        let table = table.unwrap();
        assert_eq!(table.ids, ["b1", "b2"]);
        assert_eq!(table.buffers, [Buffer::new(-1, 3, 4), Buffer::new(3, 9, 0)]);
        let answer = "size, upper,hint,id,lower,offset\n4,3,x,b1,-1,8\n0,9,,b2,3,0\n";
        assert_eq!(table.with_offsets(&[8, 0]), answer);
        let table = Table::parse("id,lower,upper,size,alignment\nb,0,1,2,64").unwrap();
        assert_eq!(table.buffers[0].align, 64);
    }

    #[test]
    fn errors_name_line_and_cause() {
        let says = |text: &str, part: &str| {
            let message = Table::parse(text).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        };
        let row = |row: &str| format!("id,lower,upper,size\na,0,1,1\n\n{row}\n");
        says("", "the file is empty");
        says("id,lower,size\n", "no column `upper`");
        says("id,lower,upper,size,id\n", "`id` is there twice");
        says("id,lower,upper,size,offset\n", "`offset` already");
        says("\"id\",lower,upper,size\n", "line 1: a quoted field");
        says(&row("\"b\",0,1,1"), "line 4: a quoted field");
        says(&row("b,0,1"), "line 4: 3 fields, but 4 columns");
        says(&row("b,0,1,-1"), "line 4: size `-1` is not a whole number from 0");
        says(&row("b,0,1.5,1"), "line 4: upper `1.5` is not a whole number");
        says(&row("b,3,3,1"), "line 4: lower 3 is not below upper 3");
        says(&row("a,0,1,1"), "line 4: the id `a` is that of line 2");
        says(&row("b,0,1,4611686018427387904"), "line 4: the sizes so far");
        says(
            "id,lower,upper,size,alignment\nb,0,1,2,0",
            "alignment `0` is not a whole number from 1",
        );
    }
}
