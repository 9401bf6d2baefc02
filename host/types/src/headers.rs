//! The headers of many records. Order, duplicates and absent values are kept as they came.

use crate::column::{BytesBuilder, BytesColumn, ColumnError};

/// Row i has the headers `offsets[i]..offsets[i + 1]` of names and values.
#[derive(Clone, Debug)]
pub struct HeaderColumn {
    offsets: Vec<i32>,
    names: BytesColumn,
    values: BytesColumn,
}

impl HeaderColumn {
    /// From parts that a guest gave; `names` and `values` have one row for each header.
    pub fn from_parts(
        rows: usize,
        offsets: Vec<i32>,
        names: BytesColumn,
        values: BytesColumn,
    ) -> Result<Self, ColumnError> {
        if offsets.len() != rows + 1 {
            return Err(ColumnError::OffsetCount { rows, offsets: offsets.len() });
        }
        if offsets[0] != 0 {
            return Err(ColumnError::OffsetOrder { at: 0 });
        }
        if let Some(at) = offsets.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(ColumnError::OffsetOrder { at: at + 1 });
        }
        if offsets[rows] as usize != names.len() || names.len() != values.len() {
            return Err(ColumnError::OffsetOrder { at: rows });
        }
        Ok(HeaderColumn { offsets, names, values })
    }

    /// The number of rows (not of headers).
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The headers of a row, in order. Panics when there is no such row.
    #[must_use]
    pub fn get(&self, row: usize) -> HeaderIter<'_> {
        HeaderIter {
            column: Some(self),
            next: self.offsets[row] as usize,
            end: self.offsets[row + 1] as usize,
        }
    }

    /// The n + 1 offsets into names and values.
    #[must_use]
    pub fn offsets(&self) -> &[i32] {
        &self.offsets
    }

    /// Every header's name.
    #[must_use]
    pub fn names(&self) -> &BytesColumn {
        &self.names
    }

    /// Every header's value.
    #[must_use]
    pub fn values(&self) -> &BytesColumn {
        &self.values
    }
}

/// The headers of one row: names and optional values, in order.
#[derive(Clone, Debug)]
pub struct HeaderIter<'a> {
    column: Option<&'a HeaderColumn>,
    next: usize,
    end: usize,
}

impl HeaderIter<'_> {
    /// No headers.
    #[must_use]
    pub fn none() -> Self {
        HeaderIter { column: None, next: 0, end: 0 }
    }
}

impl<'a> Iterator for HeaderIter<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let column = self.column?;
        if self.next == self.end {
            return None;
        }
        let at = self.next;
        self.next += 1;
        Some((column.names.value(at), column.values.get(at)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.next, Some(self.end - self.next))
    }
}

impl ExactSizeIterator for HeaderIter<'_> {}

/// Builds a [`HeaderColumn`]: headers of a row first, then `end_row`.
#[derive(Debug)]
pub struct HeaderBuilder {
    offsets: Vec<i32>,
    names: BytesBuilder,
    values: BytesBuilder,
}

impl Default for HeaderBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl HeaderBuilder {
    /// An empty builder.
    #[must_use]
    pub fn new() -> Self {
        HeaderBuilder { offsets: vec![0], names: BytesBuilder::new(), values: BytesBuilder::new() }
    }

    /// Appends a header to the row under way.
    pub fn push(&mut self, name: &[u8], value: Option<&[u8]>) {
        self.names.push(Some(name));
        self.values.push(value);
    }

    /// Ends the row under way.
    pub fn end_row(&mut self) {
        let headers = i32::try_from(self.names.len()).expect("a batch holds less than 2^31 headers");
        self.offsets.push(headers);
    }

    /// How many headers there are in all rows.
    #[must_use]
    pub fn headers(&self) -> usize {
        self.names.len()
    }

    /// The bytes of names and values so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.names.bytes() + self.values.bytes()
    }

    /// The column so far; the builder is empty afterwards.
    pub fn finish(&mut self) -> HeaderColumn {
        HeaderColumn {
            offsets: std::mem::replace(&mut self.offsets, vec![0]),
            names: self.names.finish(),
            values: self.values.finish(),
        }
    }
}
