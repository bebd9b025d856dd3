//! One HTML page with a set's verdict, its tables and its pictures. It loads nothing.

use super::charts::escaped;

/// A page from a title, lines of text, a table and pictures.
pub fn page(
    title: &str,
    lines: &[String],
    table: &[Vec<String>],
    pictures: &[(&str, String)],
) -> String {
    let row = |(k, cells): (usize, &Vec<String>)| {
        let tag = if k == 0 { "th" } else { "td" };
        let cells: String =
            cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = table.iter().enumerate().map(row).collect();
    let lines: String = lines.iter().map(|line| format!("<p>{}</p>\n", escaped(line))).collect();
    let pictures: String =
        pictures.iter().map(|(name, svg)| format!("<h2>{}</h2>\n{svg}\n", escaped(name))).collect();
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang='en'><meta charset='utf-8'><title>{title}</title>\n<style>{STYLE}</style>\n\
         <h1>{title}</h1>\n{lines}<table>\n{rows}</table>\n{pictures}</html>\n"
    )
}

const STYLE: &str = "body{font-family:sans-serif;max-width:1040px;margin:2em auto;color:#222}\
table{border-collapse:collapse}th,td{padding:2px 10px;text-align:right;border-bottom:1px solid #ddd}\
th:first-child,td:first-child{text-align:left}svg{width:100%}";
