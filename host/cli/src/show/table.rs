//! Tables for people: columns as wide as their widest cell, numbers to the right. A cell is one line, whatever is in it.

use std::borrow::Cow;

use loom_types::printable;

/// Which side a column's cells stand at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// A table with a line of headings; lines end without blanks. Empty without rows.
pub fn table(headings: &[(&str, Side)], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let heads = headings.iter().map(|(head, _)| Cow::Borrowed(*head)).collect();
    let rows = rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect());
    let lines: Vec<Vec<Cow<'_, str>>> = std::iter::once(heads).chain(rows).collect();
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let mut out = String::new();
        for ((cell, width), (_, side)) in line.iter().zip(&widths).zip(headings) {
            if !out.is_empty() {
                out.push_str("  ");
            }
            match side {
                Side::Left => out.push_str(&format!("{cell:<width$}")),
                Side::Right => out.push_str(&format!("{cell:>width$}")),
            }
        }
        text.push_str(out.trim_end());
        text.push('\n');
    }
    text
}

/// A number with its thousands apart.
pub fn number(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0 { format!("-{text}") } else { text }
}

/// A count with its thousands apart.
pub fn count(value: u64) -> String {
    number(i64::try_from(value).unwrap_or(i64::MAX))
}

/// A number that may be unknown.
pub fn known(value: Option<i64>) -> String {
    value.map_or_else(|| "-".to_owned(), number)
}

#[cfg(test)]
mod tests {
    use super::{Side, count, known, number, table};

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            vec!["in/0".to_owned(), "7".to_owned(), String::new()],
            vec!["orders/12".to_owned(), "1,000".to_owned(), "x".to_owned()],
        ];
        let text = table(&[("PARTITION", Side::Left), ("LAG", Side::Right), ("", Side::Left)], &rows);
        assert_eq!(text, "PARTITION    LAG\nin/0           7\norders/12  1,000  x\n");
        assert_eq!(table(&[("A", Side::Left)], &[]), "");
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(
            [0, 999, 1000, 1_234_567, -1000].map(number),
            ["0", "999", "1,000", "1,234,567", "-1,000"]
        );
        assert_eq!((count(u64::MAX), known(None)), (number(i64::MAX), "-".to_owned()));
    }
}
