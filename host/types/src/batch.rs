//! A batch: many rows as columns, immutable and shared. A branch of the flow is a batch and the ids of its rows;
//! nothing is copied until bytes cross into a plugin or out to Kafka.

mod copy;
mod gather;
mod moves;

use std::sync::Arc;

use crate::column::{BytesBuilder, BytesColumn, Column, ColumnFull};
use crate::headers::{HeaderBuilder, HeaderColumn, HeaderIter};
use crate::ids::RecordOffset;
use crate::source::{Source, SourceBuilder, SourceColumn};

pub use gather::Place;
pub use moves::{Move, Moves};

/// What a row takes beside its bytes: where it came from, and its places in the columns.
const ROW_OVERHEAD: usize = 48;

/// Row ids: indexes into a batch.
pub type Rows = [u32];

/// Many rows. Cloning shares the columns.
#[derive(Clone, Debug)]
pub struct Batch {
    rows: u32,
    payload: Column<BytesColumn>,
    key: Option<Column<BytesColumn>>,
    headers: Option<Column<HeaderColumn>>,
    source: Column<SourceColumn>,
    /// Which of its record's rows each is; none where every row is a record as Kafka has it.
    name: Option<Column<BytesColumn>>,
    /// The keys before `rekeyed`; none where the keys are as they came.
    former_key: Option<Option<Column<BytesColumn>>>,
    /// What a typed expander said that its rows are.
    types: Option<Types>,
}

/// A type for each row.
#[derive(Clone, Debug)]
struct Types {
    names: Arc<[Arc<str>]>,
    /// Indexes into `names`, or [`Types::NONE`].
    of: Column<Vec<u32>>,
}

impl Types {
    /// Of a row that was gathered with typed ones, and has no type.
    const NONE: u32 = u32::MAX;
}

/// Columns that replace a batch's own, each with one row for each row of the batch. What is absent stays as it was.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// New payloads.
    pub payload: Option<BytesColumn>,
    /// New keys.
    pub key: Option<BytesColumn>,
    /// New headers.
    pub headers: Option<HeaderColumn>,
}

impl Changes {
    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.payload.is_none() && self.key.is_none() && self.headers.is_none()
    }
}

impl Batch {
    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows as usize
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The payload of a row; none is a tombstone.
    #[must_use]
    pub fn payload(&self, row: u32) -> Option<&[u8]> {
        self.payload.data().get(self.payload.at(row))
    }

    /// The key of a row.
    #[must_use]
    pub fn key(&self, row: u32) -> Option<&[u8]> {
        self.key.as_ref().and_then(|key| key.data().get(key.at(row)))
    }

    /// The headers of a row, in order.
    #[must_use]
    pub fn headers(&self, row: u32) -> HeaderIter<'_> {
        self.headers.as_ref().map_or_else(HeaderIter::none, |headers| headers.data().get(headers.at(row)))
    }

    /// Where a row came from.
    #[must_use]
    pub fn source(&self, row: u32) -> Source<'_> {
        Source { row: self.name(row), ..self.source.data().get(self.source.at(row)) }
    }

    /// Which of its record's rows a row is: [`Source::row`].
    #[must_use]
    pub fn name(&self, row: u32) -> &str {
        let bytes = self.name.as_ref().map_or(&[][..], |name| name.data().value(name.at(row)));
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// The type that a typed expander gave a row; none where it was not made by one.
    #[must_use]
    pub fn type_of(&self, row: u32) -> Option<&Arc<str>> {
        let types = self.types.as_ref()?;
        types.names.get(self.type_number(row)? as usize)
    }

    /// The same, as an index into the names that the batch was given with its types.
    #[must_use]
    pub fn type_number(&self, row: u32) -> Option<u32> {
        let of = &self.types.as_ref()?.of;
        of.data().get(of.at(row)).copied()
    }

    /// Whether every row is a record as Kafka has it.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.name.is_none()
    }

    /// The bytes of a row's payload, key and headers: what bounds count.
    #[must_use]
    pub fn row_bytes(&self, row: u32) -> usize {
        let (payload, key) = (self.payload(row).map_or(0, <[u8]>::len), self.key(row).map_or(0, <[u8]>::len));
        payload + key + self.header_bytes(row)
    }

    /// The bytes of a row's headers, with what each takes beside its text.
    #[must_use]
    pub fn header_bytes(&self, row: u32) -> usize {
        self.headers.as_ref().map_or(0, |headers| headers.data().row_bytes(headers.at(row)))
    }

    /// The bytes that a row has to itself in memory, where it shares none with other rows.
    #[must_use]
    pub fn row_memory(&self, row: u32) -> usize {
        let former = self.former_key.iter().flatten().map(|key| key.data().value(key.at(row)).len());
        ROW_OVERHEAD + self.row_bytes(row) + self.name(row).len() + former.sum::<usize>()
    }

    /// The payload column.
    #[must_use]
    pub fn payload_column(&self) -> &Column<BytesColumn> {
        &self.payload
    }

    /// The key column; none when no row has a key.
    #[must_use]
    pub fn key_column(&self) -> Option<&Column<BytesColumn>> {
        self.key.as_ref()
    }

    /// The header column; none when no row has a header.
    #[must_use]
    pub fn header_column(&self) -> Option<&Column<HeaderColumn>> {
        self.headers.as_ref()
    }

    /// The source column.
    #[must_use]
    pub fn source_column(&self) -> &Column<SourceColumn> {
        &self.source
    }

    /// The batch of these rows, in this order. Copies row ids, no records.
    #[must_use]
    pub fn select(&self, rows: &Rows) -> Batch {
        let index: Arc<[u32]> = rows.into();
        let mut shared = Vec::new();
        Batch {
            rows: u32::try_from(rows.len()).expect("a batch holds less than 2^32 rows"),
            payload: self.payload.select(&index, &mut shared),
            key: self.key.as_ref().map(|key| key.select(&index, &mut shared)),
            headers: self.headers.as_ref().map(|headers| headers.select(&index, &mut shared)),
            source: self.source.select(&index, &mut shared),
            name: self.name.as_ref().map(|name| name.select(&index, &mut shared)),
            former_key: self
                .former_key
                .as_ref()
                .map(|key| key.as_ref().map(|key| key.select(&index, &mut shared))),
            types: self
                .types
                .as_ref()
                .map(|types| Types { names: types.names.clone(), of: types.of.select(&index, &mut shared) }),
        }
    }

    /// The same rows without types.
    #[must_use]
    pub fn untyped(mut self) -> Batch {
        self.types = None;
        self
    }

    /// Whether rows may have types.
    #[must_use]
    pub fn is_typed(&self) -> bool {
        self.types.is_some()
    }

    /// The batch as new rows of its records, with these names ([`Source::row`]), which must be UTF-8, and without types.
    /// Panics when there is not one for each row.
    #[must_use]
    pub fn named(mut self, name: BytesColumn) -> Batch {
        assert_eq!(name.len(), self.len(), "a name column has one row for each row of its batch");
        self.name = Some(Column::new(name));
        self.types = None;
        self
    }

    /// The batch with a type for each row: an index into `names`. Panics when there is not one for each row.
    #[must_use]
    pub fn typed(mut self, names: Arc<[Arc<str>]>, types: Vec<u32>) -> Batch {
        assert_eq!(types.len(), self.len(), "there is one type for each row of a batch");
        self.types = Some(Types { names, of: Column::new(types) });
        self
    }

    /// The batch with other keys, which remembers those that it had. Panics when there is not one for each row.
    #[must_use]
    pub fn rekeyed(mut self, key: BytesColumn) -> Batch {
        assert_eq!(key.len(), self.len(), "a key column has one row for each row of its batch");
        let former = self.key.replace(Column::new(key));
        self.former_key.get_or_insert(former);
        self
    }

    /// Whether its keys are others than it came with.
    #[must_use]
    pub fn is_rekeyed(&self) -> bool {
        self.former_key.is_some()
    }

    /// The batch with the keys that it had before [`Batch::rekeyed`].
    #[must_use]
    pub fn with_former_keys(mut self) -> Batch {
        if let Some(key) = self.former_key.take() {
            self.key = key;
        }
        self
    }

    /// The batch with these columns in place of its own. Panics when a column has another number of rows.
    #[must_use]
    pub fn with(mut self, changes: Changes) -> Batch {
        if let Some(payload) = changes.payload {
            assert_eq!(payload.len(), self.len(), "a payload column has one row for each row of its batch");
            self.payload = Column::new(payload);
        }
        if let Some(key) = changes.key {
            assert_eq!(key.len(), self.len(), "a key column has one row for each row of its batch");
            self.key = Some(Column::new(key));
        }
        if let Some(headers) = changes.headers {
            assert_eq!(headers.len(), self.len(), "a header column has one row for each row of its batch");
            self.headers = Some(Column::new(headers));
        }
        self
    }
}

/// One record to append to a batch.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// Index into the topics that the builder was made with.
    pub topic: u16,
    /// The source partition.
    pub partition: i32,
    /// The record's offset.
    pub offset: RecordOffset,
    /// Milliseconds since 1970-01-01 UTC, where the record carries a time.
    pub timestamp_ms: Option<i64>,
    /// The key, if any.
    pub key: Option<&'a [u8]>,
    /// The payload; none is a tombstone.
    pub payload: Option<&'a [u8]>,
    /// Empty for a record as Kafka has it; see [`Source::row`].
    pub row: &'a str,
}

/// Builds a [`Batch`] record by record. Reusable: `finish` leaves it empty.
#[derive(Debug)]
pub struct BatchBuilder {
    payload: BytesBuilder,
    key: BytesBuilder,
    keyed: bool,
    headers: HeaderBuilder,
    source: SourceBuilder,
    name: BytesBuilder,
    named: bool,
    /// A header of the next record had no room.
    full: Option<ColumnFull>,
}

impl BatchBuilder {
    /// For records of these topics.
    #[must_use]
    pub fn new(topics: Arc<[Arc<str>]>) -> Self {
        BatchBuilder {
            payload: BytesBuilder::new(),
            key: BytesBuilder::new(),
            keyed: false,
            headers: HeaderBuilder::new(),
            source: SourceBuilder::new(topics),
            name: BytesBuilder::new(),
            named: false,
            full: None,
        }
    }

    /// The number of rows so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.source.len()
    }

    /// Whether there is no row yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.source.is_empty()
    }

    /// The bytes of payloads, keys and headers so far, each header counted with what it takes beside its text.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.payload.bytes() + self.key.bytes() + self.headers.bytes()
    }

    /// Appends a header to the next record; call it before [`BatchBuilder::push`], which says whether there was room.
    pub fn header(&mut self, name: &[u8], value: Option<&[u8]>) {
        if let Err(full) = self.headers.push(name, value) {
            self.full = Some(full);
        }
    }

    /// The bytes of the headers that were given for the next record.
    #[must_use]
    pub fn header_bytes(&self) -> usize {
        self.headers.open_bytes()
    }

    /// Forgets the headers that were given for the next record.
    pub fn forget_headers(&mut self) {
        self.headers.drop_row();
        self.full = None;
    }

    /// Appends a record with the headers given before it. Where one of its values has no room nothing is appended, and the
    /// headers are forgotten. An empty builder has room for every record that Kafka can hold.
    pub fn push(&mut self, record: RecordRef<'_>) -> Result<(), ColumnFull> {
        let row = self.len();
        if let Err(full) = self.push_values(record) {
            self.payload.truncate(row);
            self.key.truncate(row);
            self.name.truncate(row);
            self.headers.drop_row();
            return Err(full);
        }
        self.keyed |= record.key.is_some();
        self.headers.end_row();
        self.source.push(record.topic, record.partition, record.offset, record.timestamp_ms);
        Ok(())
    }

    fn push_values(&mut self, record: RecordRef<'_>) -> Result<(), ColumnFull> {
        if let Some(full) = self.full.take() {
            return Err(full);
        }
        self.payload.push(record.payload)?;
        self.key.push(record.key)?;
        if !record.row.is_empty() && !self.named {
            self.named = true;
            (0..self.len()).try_for_each(|_| self.name.push(Some(b"")))?;
        }
        if self.named { self.name.push(Some(record.row.as_bytes())) } else { Ok(()) }
    }

    /// Appends a row of a batch that was built for the same topics, so that the batch need not be kept for it. Keys before
    /// [`Batch::rekeyed`] do not come along. Panics when there is no such row.
    pub fn push_row(&mut self, batch: &Batch, row: u32) -> Result<(), ColumnFull> {
        for (name, value) in batch.headers(row) {
            self.header(name, value);
        }
        let source = batch.source_column();
        let (data, at) = (source.data(), source.at(row));
        let record = data.get(at);
        self.push(RecordRef {
            topic: data.topic_index(at),
            partition: record.partition,
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            key: batch.key(row),
            payload: batch.payload(row),
            row: batch.name(row),
        })
    }

    /// The offset of a row that was appended. Panics when there is no such row.
    #[must_use]
    pub fn offset(&self, row: usize) -> RecordOffset {
        self.source.offset(row)
    }

    /// The bytes of a row's payload, key and headers. Panics when there is no such row.
    #[must_use]
    pub fn row_bytes(&self, row: usize) -> usize {
        self.payload.row_bytes(row) + self.key.row_bytes(row) + self.headers.row_bytes(row)
    }

    /// The bytes that were allocated for it.
    #[must_use]
    pub fn capacity(&self) -> usize {
        let columns = self.payload.capacity() + self.key.capacity() + self.name.capacity();
        columns + self.headers.capacity() + self.source.capacity()
    }

    /// The batch so far; the builder is empty afterwards.
    pub fn finish(&mut self) -> Batch {
        let rows = u32::try_from(self.len()).expect("a batch holds less than 2^32 rows");
        let with_headers = self.headers.headers() > 0;
        let headers = self.headers.finish();
        let key = self.key.finish();
        Batch {
            rows,
            payload: Column::new(self.payload.finish()),
            key: std::mem::take(&mut self.keyed).then(|| Column::new(key)),
            headers: with_headers.then(|| Column::new(headers)),
            source: Column::new(self.source.finish()),
            name: std::mem::take(&mut self.named).then(|| Column::new(self.name.finish())),
            former_key: None,
            types: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Batch, BatchBuilder, Changes, RecordRef};
    use crate::column::BytesBuilder;
    use crate::ids::RecordOffset;

    fn letters(text: &str) -> Batch {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        for (offset, letter) in text.bytes().enumerate() {
            builder.header(b"n", Some(&[letter]));
            builder
                .push(RecordRef {
                    topic: 0,
                    partition: 3,
                    offset: RecordOffset(offset as i64),
                    timestamp_ms: Some(7),
                    key: (letter != b'c').then_some(&[letter][..]),
                    payload: Some(&[letter]),
                    row: "",
                })
                .unwrap();
        }
        builder.finish()
    }

    #[test]
    fn selected_rows_keep_their_columns_together_through_changes() {
        let batch = letters("abcdef").select(&[1, 2, 4]).select(&[2, 1]);
        let mut payload = BytesBuilder::new();
        payload.push(Some(b"E")).unwrap();
        payload.push(None).unwrap();
        let batch =
            batch.with(Changes { payload: Some(payload.finish()), ..Changes::default() }).select(&[1, 0, 0]);
        let seen: Vec<_> = (0..3)
            .map(|row| {
                let headers: Vec<_> = batch.headers(row).map(|(_, value)| value.unwrap().to_vec()).collect();
                (batch.payload(row), batch.key(row), headers, batch.source(row).offset.0)
            })
            .collect();
        assert_eq!(seen[0], (None, None, vec![b"c".to_vec()], 2));
        assert_eq!(seen[1], (Some(&b"E"[..]), Some(&b"e"[..]), vec![b"e".to_vec()], 4));
        assert_eq!(seen[2], seen[1]);
    }

    #[test]
    fn a_rekeyed_batch_remembers_the_keys_that_it_came_with() {
        let mut key = BytesBuilder::new();
        [None, Some(&b"new"[..]), Some(b"other")].into_iter().for_each(|value| key.push(value).unwrap());
        let batch = letters("abc").rekeyed(key.finish()).select(&[1, 2]);
        assert_eq!((batch.key(0), batch.key(1)), (Some(&b"new"[..]), Some(&b"other"[..])));
        let former = batch.with_former_keys();
        assert_eq!((former.key(0), former.key(1)), (Some(&b"b"[..]), None));
        assert_eq!(former.clone().with_former_keys().key(0), Some(&b"b"[..]));
    }

    #[test]
    fn rows_that_share_a_record_have_names_of_their_own() {
        let batch = letters("ab");
        assert!(batch.is_plain());
        let mut names = BytesBuilder::new();
        [&b"0"[..], b"0", b"1"].into_iter().for_each(|name| names.push(Some(name)).unwrap());
        let batch = batch.select(&[0, 1, 1]).named(names.finish()).select(&[2, 0]);
        let of = |row| (batch.source(row).offset.0, batch.source(row).row, batch.name(row));
        assert_eq!((of(0), of(1)), ((1, "1", "1"), (0, "0", "0")));
        assert!(!batch.is_plain());
    }

    #[test]
    fn rows_keep_their_types_until_others_are_made_of_them() {
        let types: Arc<[Arc<str>]> = Arc::from(vec![Arc::from("store"), Arc::from("language")]);
        let of = |batch: &Batch, row| batch.type_of(row).map(|name| name.to_string());
        let batch = letters("abc");
        assert_eq!((of(&batch, 0), batch.type_number(0)), (None, None));
        let batch = batch.typed(types, vec![1, 0, 1]).select(&[2, 1]).with(Changes::default());
        assert_eq!((of(&batch, 0), of(&batch, 1)), (Some("language".to_owned()), Some("store".to_owned())));
        assert_eq!((batch.type_number(0), batch.type_number(1)), (Some(1), Some(0)));
        let mut names = BytesBuilder::new();
        names.push(Some(b"0")).unwrap();
        let made = batch.select(&[0]).named(names.finish());
        assert_eq!(of(&made, 0), None);
        let others = letters("d").typed(Arc::from(vec![Arc::from("store")]), vec![0]);
        let gathered = Batch::gather(&[&batch, &made, &others], &[(2, 0), (1, 0), (0, 0), (0, 1)]).unwrap();
        let gathered = (0..4).map(|row| of(&gathered, row)).collect::<Vec<_>>();
        let (store, language) = (Some("store".to_owned()), Some("language".to_owned()));
        assert_eq!(gathered, [store.clone(), None, language, store]);
    }

    #[test]
    fn rows_of_several_batches_are_gathered_whole() {
        let batch = letters("abcd");
        let mut names = BytesBuilder::new();
        [&b"0"[..], b"1"].into_iter().for_each(|name| names.push(Some(name)).unwrap());
        let named = batch.select(&[2, 2]).named(names.finish());
        let mut builder = BatchBuilder::new(batch.source_column().data().topics().clone());
        builder.push_row(&batch, 3).unwrap();
        builder.push_row(&named, 1).unwrap();
        assert_eq!(builder.bytes(), batch.row_bytes(3) + named.row_bytes(1));
        let gathered = builder.finish();
        let of = |row| {
            let headers: Vec<_> = gathered.headers(row).map(|(_, value)| value.unwrap().to_vec()).collect();
            (gathered.payload(row), gathered.key(row), headers, gathered.source(row).offset.0)
        };
        assert_eq!(of(0), (Some(&b"d"[..]), Some(&b"d"[..]), vec![b"d".to_vec()], 3));
        assert_eq!(of(1), (Some(&b"c"[..]), None, vec![b"c".to_vec()], 2));
        let source = gathered.source(1);
        assert_eq!(
            (&**source.topic, source.partition, source.timestamp_ms, source.row),
            ("in", 3, Some(7), "1")
        );
        assert_eq!(gathered.name(0), "");
    }

    #[test]
    fn a_builder_names_the_rows_that_have_names() {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        for row in ["", "2.0", ""] {
            let (key, payload) = (None, None);
            let offset = RecordOffset(0);
            builder
                .push(RecordRef { topic: 0, partition: 0, offset, timestamp_ms: None, key, payload, row })
                .unwrap();
        }
        let batch = builder.finish();
        assert_eq!([0, 1, 2].map(|row| batch.name(row)), ["", "2.0", ""]);
        assert!(builder.finish().is_plain());
    }
}
