//! The headers of many records. Order, duplicates and absent values are kept as they came.

use crate::column::{BytesBuilder, BytesColumn, ColumnError, ColumnFull, MOST};

/// What a header takes beside its name and value: their places.
const HEADER_OVERHEAD: usize = 8;

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

    /// The bytes of a row's headers, with what each takes beside its text. Panics when there is no such row.
    #[must_use]
    pub(crate) fn row_bytes(&self, row: usize) -> usize {
        let (from, to) = (self.offsets[row] as usize, self.offsets[row + 1] as usize);
        let bytes = |column: &BytesColumn| (column.offsets()[to] - column.offsets()[from]) as usize;
        bytes(&self.names) + bytes(&self.values) + HEADER_OVERHEAD * (to - from)
    }

    /// The bytes that it takes in memory.
    pub(crate) fn memory(&self) -> usize {
        4 * self.offsets.capacity() + self.names.memory() + self.values.memory()
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

/// Builds a [`HeaderColumn`], within a bound: headers of a row first, then `end_row`.
#[derive(Debug)]
pub struct HeaderBuilder {
    offsets: Vec<i32>,
    names: BytesBuilder,
    values: BytesBuilder,
    /// Bytes of names and values, at most, with what each header takes beside its text.
    limit: usize,
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
        HeaderBuilder {
            offsets: vec![0],
            names: BytesBuilder::new(),
            values: BytesBuilder::new(),
            limit: MOST,
        }
    }

    /// The same, whose names and values take no more than so many bytes, with what each header takes beside its text; it never
    /// takes more than 2 GiB.
    #[must_use]
    pub fn within(self, limit: usize) -> Self {
        HeaderBuilder { limit: limit.min(MOST), ..self }
    }

    /// Whether there is room for so many bytes more.
    pub fn has_room(&self, bytes: usize) -> Result<(), ColumnFull> {
        if self.bytes().saturating_add(bytes) > self.limit {
            return Err(ColumnFull { limit: self.limit });
        }
        Ok(())
    }

    /// Appends a header to the row under way. Where it has no room nothing is appended.
    pub fn push(&mut self, name: &[u8], value: Option<&[u8]>) -> Result<(), ColumnFull> {
        let more = name.len().saturating_add(value.map_or(0, <[u8]>::len)).saturating_add(HEADER_OVERHEAD);
        self.has_room(more)?;
        // Neither is more than both are.
        self.names.push(Some(name))?;
        self.values.push(value)
    }

    /// Appends a row with these headers; where they have no room, one without headers in its place.
    pub fn push_row<'v>(
        &mut self,
        headers: impl IntoIterator<Item = (&'v [u8], Option<&'v [u8]>)>,
    ) -> Result<(), ColumnFull> {
        let pushed = headers.into_iter().try_for_each(|(name, value)| self.push(name, value));
        if pushed.is_err() {
            self.drop_row();
        }
        self.end_row();
        pushed
    }

    /// Takes the headers of the row under way away again.
    pub fn drop_row(&mut self) {
        let headers = self.offsets.last().map_or(0, |last| *last as usize);
        self.names.truncate(headers);
        self.values.truncate(headers);
    }

    /// Ends the row under way.
    pub fn end_row(&mut self) {
        // `push` takes no more than fit into an offset.
        self.offsets.push(self.names.len() as i32);
    }

    /// The bytes that were allocated for it.
    #[must_use]
    pub fn capacity(&self) -> usize {
        4 * self.offsets.capacity() + self.names.capacity() + self.values.capacity()
    }

    /// How many headers there are in all rows.
    #[must_use]
    pub fn headers(&self) -> usize {
        self.names.len()
    }

    /// The bytes of names and values so far, with what each header takes beside its text.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.names.bytes() + self.values.bytes() + HEADER_OVERHEAD * self.names.len()
    }

    /// The bytes of the headers of the row under way likewise.
    pub(crate) fn open_bytes(&self) -> usize {
        let (from, to) = (self.offsets.last().map_or(0, |last| *last as usize), self.names.len());
        self.names.bytes_of(from, to) + self.values.bytes_of(from, to) + HEADER_OVERHEAD * (to - from)
    }

    /// The bytes of a row's headers likewise. Panics when there is no such row.
    pub(crate) fn row_bytes(&self, row: usize) -> usize {
        let (from, to) = (self.offsets[row] as usize, self.offsets[row + 1] as usize);
        self.names.bytes_of(from, to) + self.values.bytes_of(from, to) + HEADER_OVERHEAD * (to - from)
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

#[cfg(test)]
mod tests {
    use super::HeaderBuilder;
    use crate::column::ColumnFull;

    #[test]
    fn headers_that_have_no_room_leave_nothing_of_their_row() {
        let mut headers = HeaderBuilder::new().within(3 * 8 + 5);
        headers.push_row([(&b"a"[..], Some(&b"1"[..])), (b"b", None)]).unwrap();
        let full = Err(ColumnFull { limit: 29 });
        assert_eq!(headers.push_row([(&b"c"[..], None), (b"d", Some(&b"2345"[..]))]), full);
        assert_eq!(headers.push(b"long", None), full);
        headers.push_row([(&b"e"[..], Some(&b"6"[..]))]).unwrap();
        let column = headers.finish();
        let rows: Vec<Vec<_>> = (0..column.len()).map(|row| column.get(row).collect()).collect();
        assert_eq!(rows[0], [(&b"a"[..], Some(&b"1"[..])), (b"b", None)]);
        assert!(rows[1].is_empty());
        assert_eq!(rows[2], [(&b"e"[..], Some(&b"6"[..]))]);
    }
}
