//! Tables of reports: numbers to the right, headers spelled out in as many lines as it takes, no wider than the terminal. What
//! does not fit continues beneath, with the first columns again.

use super::terminal;
use std::fmt;

/// A table.
#[derive(Debug, Default)]
pub struct Table {
    /// The first columns, which say what a row is of.
    keys: usize,
    headers: Vec<String>,
    rows: Vec<Vec<String>>,
    left: bool,
}

/// Spaces between two columns.
const GAP: usize = 2;

/// Most lines of headers where more would save columns.
const HEADER_LINES: usize = 3;

impl Table {
    /// With such headers, of which the first say what a row is of.
    pub fn new(keys: usize, headers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let headers = headers.into_iter().map(Into::into).collect();
        Self { keys, headers, rows: Vec::new(), left: false }
    }

    /// Has the first column start at the left: names.
    pub fn names(self) -> Self {
        Self { left: true, ..self }
    }

    /// Adds a row, with a cell for each header.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Prints it for so many columns.
    pub fn fit(&self, columns: usize, f: &mut impl fmt::Write) -> fmt::Result {
        let widths = self.widths(columns);
        for (number, block) in self.blocks(&widths, columns).iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            self.block(block, &widths, f)?;
        }
        Ok(())
    }

    /// Widths with which headers take the fewest lines that leave all columns side by side; or the least ones.
    fn widths(&self, columns: usize) -> Vec<usize> {
        let all = |lines: usize| -> Vec<usize> {
            (0..self.headers.len()).map(|index| self.width(index, lines)).collect()
        };
        let fits = |widths: &Vec<usize>| {
            widths.iter().map(|width| width + GAP).sum::<usize>() <= columns + GAP
        };
        (1..=HEADER_LINES).map(all).find(fits).unwrap_or_else(|| all(usize::MAX))
    }

    /// What a column needs: its longest cell, and room for its header in so many lines.
    fn width(&self, index: usize, lines: usize) -> usize {
        let header = &self.headers[index];
        let word = header.split(' ').map(length).max().unwrap_or(0);
        let cells = self.rows.iter().filter_map(|row| row.get(index)).map(|cell| length(cell));
        let least = cells.max().unwrap_or(0).max(word);
        let fits = |width: &usize| wrapped(header, *width).len() <= lines;
        let most = least.max(length(header));
        (least..most).find(fits).unwrap_or(most)
    }

    /// Columns that stand side by side, the first ones in each.
    fn blocks(&self, widths: &[usize], columns: usize) -> Vec<Vec<usize>> {
        let keys: Vec<usize> = (0..self.keys.min(widths.len())).collect();
        let taken = |block: &[usize]| block.iter().map(|index| widths[*index] + GAP).sum::<usize>();
        let mut blocks = vec![keys.clone()];
        for (index, width) in widths.iter().enumerate().skip(keys.len()) {
            let Some(block) = blocks.last_mut() else { break };
            let fits = taken(block) + width <= columns;
            if fits || block.len() == keys.len() {
                block.push(index);
            } else {
                blocks.push(keys.iter().copied().chain([index]).collect());
            }
        }
        blocks
    }

    fn block(&self, block: &[usize], widths: &[usize], f: &mut impl fmt::Write) -> fmt::Result {
        let headers: Vec<Vec<String>> =
            block.iter().map(|index| wrapped(&self.headers[*index], widths[*index])).collect();
        let height = headers.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            // The last lines of all headers are on one line.
            let cell = |header: &Vec<String>| {
                let skipped = height - header.len();
                line.checked_sub(skipped).map_or(String::new(), |line| header[line].clone())
            };
            self.line(&headers.iter().map(cell).collect::<Vec<_>>(), block, widths, f)?;
        }
        for row in &self.rows {
            let cells = block.iter().map(|index| row.get(*index).cloned().unwrap_or_default());
            self.line(&cells.collect::<Vec<_>>(), block, widths, f)?;
        }
        Ok(())
    }

    fn line(
        &self,
        cells: &[String],
        block: &[usize],
        widths: &[usize],
        f: &mut impl fmt::Write,
    ) -> fmt::Result {
        let mut line = String::new();
        for (cell, index) in cells.iter().zip(block) {
            let width = widths[*index];
            line += &match *index == 0 && self.left {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            };
            line += &" ".repeat(GAP);
        }
        writeln!(f, "{}", line.trim_end())
    }
}

/// As wide as the terminal.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fit(terminal::columns(), f)
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Words in lines of so many characters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if length(line) + 1 + length(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(table: &Table, columns: usize) -> String {
        let mut text = String::new();
        table.fit(columns, &mut text).unwrap();
        text
    }

    #[test]
    fn headers_wrap_and_numbers_stand_to_the_right() {
        let mut table = Table::new(1, ["budget", "lower bound", "gap"]);
        table.row(["8 MiB", "12.50", "3 %"]);
        table.row(["16 MiB", "2.00", "10 %"]);
        let text = "        lower\nbudget  bound   gap\n 8 MiB  12.50   3 %\n16 MiB   2.00  10 %\n";
        assert_eq!(fitted(&table, 20), text);
        assert!(
            fitted(&table, 80)
                .starts_with("budget  lower bound   gap\n 8 MiB        12.50   3 %\n")
        );
        assert!(fitted(&table.names(), 20).contains("\n8 MiB   12.50"));
    }

    #[test]
    fn what_does_not_fit_continues_beneath_with_its_key() {
        let mut table = Table::new(
            1,
            ["budget".to_owned()].into_iter().chain((0..20).map(|n| format!("strategy-{n}"))),
        );
        table.row(["8 MiB".to_owned()].into_iter().chain((0..20).map(|n| format!("{n}.25"))));
        for columns in [40, 80, 100] {
            let text = fitted(&table, columns);
            assert!(text.lines().all(|line| length(line) <= columns), "{text}");
            let blocks = text.split("\n\n").count();
            assert_eq!(text.matches("8 MiB").count(), blocks);
            assert_eq!(text.matches("19.25").count(), 1);
        }
        assert!(fitted(&table, 1000).lines().count() == 2);
    }

    #[test]
    fn a_column_wider_than_the_terminal_stands_alone() {
        let mut table = Table::new(1, ["a", "b", "c"]);
        table.row(["1", "a-very-long-cell-that-cannot-be-cut", "2"]);
        assert_eq!(fitted(&table, 20).split("\n\n").count(), 2);
    }
}
