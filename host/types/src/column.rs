//! One column of bytes with nulls, in Arrow's Binary layout: values end to end, n + 1 offsets, a validity bitmap.
//!
//! Invariants: offsets start at 0, never fall, and end at the length of the values; a validity bitmap, where there is
//! one, has a bit for each row. A column is immutable and cheap to share.

use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use std::fmt;

/// Why parts from outside are not a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnError {
    /// There must be one offset more than rows.
    OffsetCount {
        /// Rows expected.
        rows: usize,
        /// Offsets found.
        offsets: usize,
    },
    /// The first offset must be 0, the last the length of the data, and none may fall.
    OffsetOrder {
        /// The place of the first offset that is wrong.
        at: usize,
    },
    /// The bitmap is too short for the rows.
    ValidityLength {
        /// Rows expected.
        rows: usize,
        /// Bytes found.
        bytes: usize,
    },
}

impl fmt::Display for ColumnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnError::OffsetCount { rows, offsets } => {
                write!(f, "a column of {rows} rows has {offsets} offsets; it needs {}", rows + 1)
            }
            ColumnError::OffsetOrder { at } => write!(
                f,
                "offset {at} of a column is out of order: offsets start at 0, never fall, and end at the data's length"
            ),
            ColumnError::ValidityLength { rows, bytes } => {
                write!(f, "a validity bitmap of {bytes} bytes is too short for {rows} rows")
            }
        }
    }
}

impl std::error::Error for ColumnError {}

/// A column has no room for a value: its offsets have 31 bits, and whoever fills it may have set a lower bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnFull {
    /// The bytes that the column may have.
    pub limit: usize,
}

impl fmt::Display for ColumnFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a column holds at most {} bytes", self.limit)
    }
}

impl std::error::Error for ColumnFull {}

/// Bytes that a column may have more than it needs, and a quarter of those that it needs.
const SLACK: usize = 4096;

/// The bytes, or values, that any column may have.
pub(crate) const MOST: usize = i32::MAX as usize;

/// A column of optional byte strings.
#[derive(Clone, Debug)]
pub struct BytesColumn {
    values: Buffer,
    offsets: ScalarBuffer<i32>,
    validity: Option<NullBuffer>,
}

impl BytesColumn {
    /// From parts that a guest or a file gave; checks every invariant.
    ///
    /// `validity`: one bit a row, least significant first, 0 = null; empty = no row is null.
    pub fn from_parts(
        rows: usize,
        values: Vec<u8>,
        offsets: Vec<i32>,
        validity: &[u8],
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
        if offsets[rows] as usize != values.len() {
            return Err(ColumnError::OffsetOrder { at: rows });
        }
        let validity = if validity.is_empty() {
            None
        } else if validity.len() * 8 < rows {
            return Err(ColumnError::ValidityLength { rows, bytes: validity.len() });
        } else {
            Some(NullBuffer::new(BooleanBuffer::new(Buffer::from(validity), 0, rows)))
        };
        let validity = validity.filter(|nulls| nulls.null_count() > 0);
        Ok(BytesColumn { values: Buffer::from_vec(values), offsets: ScalarBuffer::from(offsets), validity })
    }

    /// A column of `rows` nulls.
    #[must_use]
    pub fn nulls(rows: usize) -> Self {
        BytesColumn {
            values: Buffer::from_vec(Vec::<u8>::new()),
            offsets: ScalarBuffer::from(vec![0; rows + 1]),
            validity: (rows > 0).then(|| NullBuffer::new_null(rows)),
        }
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of a row, or none where it is null. Panics when there is no such row.
    #[must_use]
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        match &self.validity {
            Some(validity) if validity.is_null(row) => None,
            _ => Some(self.value(row)),
        }
    }

    /// The bytes of a row; a null has none. Panics when there is no such row.
    #[must_use]
    pub fn value(&self, row: usize) -> &[u8] {
        &self.values[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    /// All values, end to end.
    #[must_use]
    pub fn values(&self) -> &[u8] {
        &self.values
    }

    /// n + 1 offsets into the values.
    #[must_use]
    pub fn offsets(&self) -> &[i32] {
        &self.offsets
    }

    /// The bytes that it takes in memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.values.capacity() + self.offsets.inner().capacity() + self.len() / 8
    }

    /// The validity bitmap, where a row is null.
    #[must_use]
    pub fn validity(&self) -> Option<&NullBuffer> {
        self.validity.as_ref()
    }
}

/// Builds a [`BytesColumn`] row by row, within a bound. Reusable: `finish` leaves it empty.
#[derive(Debug)]
pub struct BytesBuilder {
    values: Vec<u8>,
    offsets: Vec<i32>,
    validity: Vec<u8>,
    nulls: usize,
    /// Bytes of values, at most.
    limit: usize,
}

impl Default for BytesBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl BytesBuilder {
    /// An empty builder.
    #[must_use]
    pub fn new() -> Self {
        BytesBuilder { values: Vec::new(), offsets: vec![0], validity: Vec::new(), nulls: 0, limit: MOST }
    }

    /// The same, which takes no more than so many bytes of values; a column never has more than 2 GiB.
    #[must_use]
    pub fn within(mut self, limit: usize) -> Self {
        self.limit = limit.min(MOST);
        self
    }

    /// An empty builder with room for this much.
    #[must_use]
    pub fn with_capacity(rows: usize, bytes: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        BytesBuilder {
            values: Vec::with_capacity(bytes),
            offsets,
            validity: Vec::with_capacity(rows / 8 + 1),
            nulls: 0,
            limit: MOST,
        }
    }

    /// The number of rows so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is no row yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of value bytes so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.values.len()
    }

    /// The bytes of a row. Panics when there is no such row.
    #[must_use]
    pub fn row_bytes(&self, row: usize) -> usize {
        self.bytes_of(row, row + 1)
    }

    /// The bytes of these rows. Panics when there are no such rows.
    pub(crate) fn bytes_of(&self, from: usize, to: usize) -> usize {
        (self.offsets[to] - self.offsets[from]) as usize
    }

    /// The bytes that were allocated for it.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.values.capacity() + 4 * self.offsets.capacity() + self.validity.capacity()
    }

    /// Whether there is room for so many bytes more.
    pub fn has_room(&self, bytes: usize) -> Result<(), ColumnFull> {
        let fits = self.values.len().checked_add(bytes).is_some_and(|end| end <= self.limit);
        if fits { Ok(()) } else { Err(ColumnFull { limit: self.limit }) }
    }

    /// Appends a row. Where its bytes have no room nothing is appended; no bytes always have room.
    pub fn push(&mut self, value: Option<&[u8]>) -> Result<(), ColumnFull> {
        self.has_room(value.map_or(0, <[u8]>::len))?;
        let row = self.len();
        if row.is_multiple_of(8) {
            self.validity.push(0);
        }
        match value {
            Some(bytes) => {
                self.validity[row / 8] |= 1 << (row % 8);
                self.values.extend_from_slice(bytes);
            }
            None => self.nulls += 1,
        }
        // The limit is below 2 GiB.
        self.offsets.push(self.values.len() as i32);
        Ok(())
    }

    /// Appends a row; where its bytes have no room, a null in its place.
    pub fn push_or_null(&mut self, value: Option<&[u8]>) -> Result<(), ColumnFull> {
        self.push(value).inspect_err(|_| {
            let null = self.push(None);
            debug_assert!(null.is_ok(), "a null has no bytes");
        })
    }

    /// Takes away all rows from this one on.
    pub(crate) fn truncate(&mut self, rows: usize) {
        for row in rows..self.len() {
            self.nulls -= usize::from(self.validity[row / 8] >> (row % 8) & 1 == 0);
        }
        if rows < self.len() {
            self.offsets.truncate(rows + 1);
            self.values.truncate(self.offsets[rows] as usize);
            self.validity.truncate(rows.div_ceil(8));
            if !rows.is_multiple_of(8) {
                self.validity[rows / 8] &= (1 << (rows % 8)) - 1;
            }
        }
    }

    /// The column so far; the builder is empty afterwards.
    pub fn finish(&mut self) -> BytesColumn {
        let rows = self.len();
        let validity = (self.nulls > 0)
            .then(|| NullBuffer::new(BooleanBuffer::new(Buffer::from_slice_ref(&self.validity), 0, rows)));
        self.validity.clear();
        self.nulls = 0;
        let offsets = std::mem::replace(&mut self.offsets, vec![0]);
        let mut values = std::mem::take(&mut self.values);
        // Columns live on, and what they grew by is nobody's; a little is not worth the call.
        if values.capacity() > values.len() / 4 * 5 + SLACK {
            values.shrink_to_fit();
        }
        BytesColumn { values: Buffer::from_vec(values), offsets: ScalarBuffer::from(offsets), validity }
    }
}

/// Indexes that were composed for one selection: from which, to which.
pub(crate) type Composed = Vec<(Arc<[u32]>, Arc<[u32]>)>;

/// A shared column as a batch sees it: row i of the batch is row `index[i]` of the data, or row i where there is no
/// index. So selecting rows composes indexes and copies no record.
#[derive(Debug)]
pub struct Column<T> {
    data: Arc<T>,
    index: Option<Arc<[u32]>>,
}

impl<T> Clone for Column<T> {
    fn clone(&self) -> Self {
        Column { data: self.data.clone(), index: self.index.clone() }
    }
}

impl<T> Column<T> {
    /// A column whose rows are the data's rows.
    pub fn new(data: T) -> Self {
        Column { data: Arc::new(data), index: None }
    }

    /// The data behind it.
    #[must_use]
    pub fn data(&self) -> &T {
        &self.data
    }

    /// Names the data behind it.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.data).addr()
    }

    /// Whether row i is row i of the data.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.index.is_none()
    }

    /// Which row of the data a row is.
    #[must_use]
    pub fn at(&self, row: u32) -> usize {
        match &self.index {
            Some(index) => index[row as usize] as usize,
            None => row as usize,
        }
    }

    /// Whether the data behind both is one.
    pub(crate) fn has_data_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.data, &other.data)
    }

    /// Whether both are seen through one index.
    #[cfg(test)]
    pub(crate) fn has_index_of<U>(&self, other: &Column<U>) -> bool {
        self.index.as_ref().zip(other.index.as_ref()).is_some_and(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// The same data, row i being row `index[i]` of it.
    pub(crate) fn seen_through(&self, index: Arc<[u32]>) -> Self {
        Column { data: self.data.clone(), index: Some(index) }
    }

    /// The same data, seen through these rows of this column. `shared` keeps composed indexes, so that columns that
    /// had one index go on sharing one.
    pub(crate) fn select(&self, rows: &Arc<[u32]>, shared: &mut Composed) -> Self {
        let index = match &self.index {
            None => rows.clone(),
            Some(old) => match shared.iter().find(|(from, _)| Arc::ptr_eq(from, old)) {
                Some((_, composed)) => composed.clone(),
                None => {
                    let composed: Arc<[u32]> = rows.iter().map(|row| old[*row as usize]).collect();
                    shared.push((old.clone(), composed.clone()));
                    composed
                }
            },
        };
        Column { data: self.data.clone(), index: Some(index) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{BytesBuilder, BytesColumn, ColumnError, ColumnFull};

    proptest! {
        #[test]
        fn a_built_column_gives_back_every_row(
            rows in proptest::collection::vec(proptest::option::of(proptest::collection::vec(any::<u8>(), 0..9)), 0..40)
        ) {
            let mut builder = BytesBuilder::new();
            for row in &rows {
                builder.push(row.as_deref()).unwrap();
            }
            let column = builder.finish();
            prop_assert!(builder.is_empty());
            prop_assert_eq!(column.len(), rows.len());
            for (index, row) in rows.iter().enumerate() {
                prop_assert_eq!(column.get(index), row.as_deref());
            }
            // What a guest would send back for it is accepted, and is the same column.
            let bits: Vec<u8> = column.validity().map_or(Vec::new(), |v| v.inner().inner().as_slice().to_vec());
            let again =
                BytesColumn::from_parts(rows.len(), column.values().to_vec(), column.offsets().to_vec(), &bits).unwrap();
            for (index, row) in rows.iter().enumerate() {
                prop_assert_eq!(again.get(index), row.as_deref());
            }
        }
    }

    proptest! {
        #[test]
        fn a_row_that_has_no_room_leaves_nothing_behind(
            rows in proptest::collection::vec(proptest::option::of(0_usize..20), 0..40),
            limit in 0_usize..100,
        ) {
            let mut builder = BytesBuilder::new().within(limit);
            let mut kept: Vec<Option<Vec<u8>>> = Vec::new();
            for (row, size) in rows.iter().enumerate() {
                let value = size.map(|size| vec![row as u8; size]);
                let fits = builder.bytes() + size.unwrap_or(0) <= limit;
                prop_assert_eq!(builder.push(value.as_deref()), if fits { Ok(()) } else { Err(ColumnFull { limit }) });
                kept.extend(fits.then_some(value));
            }
            // Rows that were taken away again are gone as well.
            let left = kept.len() / 2;
            builder.truncate(left);
            builder.push(None).unwrap();
            let column = builder.finish();
            prop_assert_eq!(column.len(), left + 1);
            for (row, value) in kept[..left].iter().enumerate() {
                prop_assert_eq!(column.get(row), value.as_deref());
            }
            prop_assert_eq!(column.get(left), None);
        }
    }

    /// No more memory is touched than the first row has.
    #[test]
    fn a_column_ends_below_two_gigabytes_with_an_error() {
        let mut builder = BytesBuilder::new();
        let half = vec![0; 1 << 20];
        builder.push(Some(&half)).unwrap();
        let most = vec![0_u8; i32::MAX as usize];
        assert_eq!(builder.push(Some(&most)), Err(ColumnFull { limit: i32::MAX as usize }));
        assert_eq!(builder.push_or_null(Some(&most)), Err(ColumnFull { limit: i32::MAX as usize }));
        assert_eq!((builder.len(), builder.bytes()), (2, 1 << 20));
    }

    #[test]
    fn wrong_parts_are_refused() {
        let parts = |rows, data: &[u8], offsets: &[i32], validity: &[u8]| {
            BytesColumn::from_parts(rows, data.to_vec(), offsets.to_vec(), validity)
                .map(|column| column.len())
        };
        assert_eq!(parts(2, b"ab", &[0, 1, 2], &[]), Ok(2));
        assert_eq!(parts(2, b"ab", &[0, 2], &[]), Err(ColumnError::OffsetCount { rows: 2, offsets: 2 }));
        assert_eq!(parts(2, b"ab", &[1, 1, 2], &[]), Err(ColumnError::OffsetOrder { at: 0 }));
        assert_eq!(parts(2, b"ab", &[0, 2, 1], &[]), Err(ColumnError::OffsetOrder { at: 2 }));
        assert_eq!(parts(2, b"ab", &[0, -1, 2], &[]), Err(ColumnError::OffsetOrder { at: 1 }));
        assert_eq!(parts(2, b"ab", &[0, 1, 3], &[]), Err(ColumnError::OffsetOrder { at: 2 }));
        assert_eq!(parts(0, b"", &[], &[]), Err(ColumnError::OffsetCount { rows: 0, offsets: 0 }));
        assert_eq!(parts(9, b"", &[0; 10], &[0xff]), Err(ColumnError::ValidityLength { rows: 9, bytes: 1 }));
    }
}
