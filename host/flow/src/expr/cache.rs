//! Decoded payloads, shared by all expressions that look at the same rows.
//!
//! A payload is decoded when an expression first reads it, and never again while its column is remembered. Rows are
//! known by their place in the column's *data*, so that selections of one batch share what was decoded, and a column
//! that replaces another is told from it. A remembered column is kept alive by the cache, so an address is never
//! mistaken for another's; `clear` lets go of it.

use loom_types::{BytesColumn, Column};

use super::tape::{Tape, TapeIndex};

/// Columns remembered at once; more than the payload changes on the way of one batch are rarely read twice.
const PAGES: usize = 8;

/// Decoded payloads of the rows of a few batches. One for each worker; call [`PayloadCache::clear`] after each batch.
#[derive(Debug, Default)]
pub struct PayloadCache {
    pages: Vec<Page>,
    spare: Vec<Page>,
}

/// What is known about the rows of one payload column.
#[derive(Debug)]
struct Page {
    column: Option<Column<BytesColumn>>,
    rows: Vec<State>,
    tape: Tape,
    failures: Vec<String>,
}

/// What is known about one row.
#[derive(Clone, Copy, Debug)]
enum State {
    Unread,
    Decoded(TapeIndex),
    Failed(u32),
}

/// A decoded payload: the place of its root, and the tape that it is on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Located {
    /// Which remembered column.
    pub(super) page: u32,
    /// Where the payload's root is on that column's tape.
    pub(super) root: TapeIndex,
}

impl PayloadCache {
    /// An empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets every row and lets go of their columns; keeps the memory for the next batch.
    pub fn clear(&mut self) {
        for mut page in self.pages.drain(..) {
            page.column = None;
            page.rows.clear();
            page.tape.clear();
            page.failures.clear();
            self.spare.push(page);
        }
    }

    /// Decodes `payload`, the payload of row `at` of the data behind `column`, unless that was done before.
    pub(super) fn decode(
        &mut self,
        column: &Column<BytesColumn>,
        at: usize,
        payload: &[u8],
    ) -> Result<Located, String> {
        let number = self.page(column);
        let page = &mut self.pages[number];
        let root = match page.rows[at] {
            State::Decoded(root) => root,
            State::Failed(failure) => return Err(page.failures[failure as usize].clone()),
            State::Unread => match page.tape.decode(payload) {
                Ok(root) => {
                    page.rows[at] = State::Decoded(root);
                    root
                }
                Err(error) => {
                    let text = error.to_string();
                    page.rows[at] = State::Failed(page.failures.len() as u32);
                    page.failures.push(text.clone());
                    return Err(text);
                }
            },
        };
        Ok(Located { page: number as u32, root })
    }

    /// The tape of a remembered column.
    pub(super) fn tape(&self, page: u32) -> &Tape {
        &self.pages[page as usize].tape
    }

    /// Rows that were decoded, or tried, since they were forgotten last.
    #[cfg(test)]
    pub(super) fn decoded(&self) -> usize {
        let known = |page: &Page| page.rows.iter().filter(|row| !matches!(row, State::Unread)).count();
        self.pages.iter().map(known).sum()
    }

    fn page(&mut self, column: &Column<BytesColumn>) -> usize {
        let known =
            |page: &Page| page.column.as_ref().is_some_and(|held| std::ptr::eq(held.data(), column.data()));
        // The last column is the one that the current node reads.
        if let Some(number) = self.pages.iter().rposition(known) {
            return number;
        }
        if self.pages.len() == PAGES {
            let mut oldest = self.pages.remove(0);
            oldest.column = None;
            oldest.rows.clear();
            oldest.tape.clear();
            oldest.failures.clear();
            self.spare.push(oldest);
        }
        let mut page = self.spare.pop().unwrap_or_else(|| Page {
            column: None,
            rows: Vec::new(),
            tape: Tape::default(),
            failures: Vec::new(),
        });
        page.column = Some(column.clone());
        page.rows.resize(column.data().len(), State::Unread);
        self.pages.push(page);
        self.pages.len() - 1
    }
}
