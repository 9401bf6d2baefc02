//! Columns on their way into a guest. Only what the plugin reads crosses. Rows that lie side by side in a column cross
//! as they lie, with one copy, by wasmtime, into the guest; others are gathered into buffers that are kept from call to
//! call.

use loom_types::{Batch, BytesColumn, Column, HeaderColumn};

use crate::bindings::loom::plugin::columns::{
    self, ByteColumnParam, Fields, HeaderColumnParam, NullableColumnParam, Selection, SourceColumn,
};

/// What a plugin reads, and the buffers for it.
#[derive(Debug, Default)]
pub(crate) struct Crossing {
    payload: Option<Buffers>,
    key: Option<Buffers>,
    headers: Option<HeaderBuffers>,
    source: Option<SourceBuffers>,
}

impl Crossing {
    pub(crate) fn new(reads: Selection) -> Self {
        let Selection { fields, header_names } = reads;
        let names = header_names.into_iter().map(String::into_bytes).collect();
        Crossing {
            payload: fields.contains(Fields::PAYLOAD).then(Buffers::default),
            key: fields.contains(Fields::KEY).then(Buffers::default),
            headers: fields
                .contains(Fields::HEADERS)
                .then(|| HeaderBuffers { only: names, ..HeaderBuffers::default() }),
            source: fields.contains(Fields::SOURCE).then(SourceBuffers::default),
        }
    }

    /// The names that source columns point to; empty where no source crosses.
    pub(crate) fn topics<'a>(&self, batch: &'a Batch) -> Vec<&'a str> {
        match &self.source {
            Some(_) => batch.source_column().data().topics().iter().map(|topic| &**topic).collect(),
            None => Vec::new(),
        }
    }

    /// These rows of a batch, with what [`Crossing::topics`] gave for it.
    pub(crate) fn lower<'a>(
        &'a mut self,
        batch: &'a Batch,
        rows: &[u32],
        topics: &'a [&'a str],
    ) -> columns::Batch<'a> {
        columns::Batch {
            rows: rows.len() as u32,
            payload: self
                .payload
                .as_mut()
                .map(|buffers| buffers.nullable(Some(batch.payload_column()), rows)),
            key: self.key.as_mut().map(|buffers| buffers.nullable(batch.key_column(), rows)),
            headers: self.headers.as_mut().map(|buffers| buffers.headers(batch.header_column(), rows)),
            source: self.source.as_mut().map(|buffers| buffers.source(batch, rows, topics)),
        }
    }
}

/// Where the rows lie in the column's data, if they lie side by side.
fn run<T>(column: &Column<T>, rows: &[u32]) -> Option<usize> {
    let first = column.at(*rows.first()?);
    rows.iter().enumerate().all(|(i, row)| column.at(*row) == first + i).then_some(first)
}

/// The buffers of one column of bytes.
#[derive(Debug, Default)]
struct Buffers {
    data: Vec<u8>,
    offsets: Vec<i32>,
    validity: Vec<u8>,
}

impl Buffers {
    fn nullable<'a>(
        &'a mut self,
        column: Option<&'a Column<BytesColumn>>,
        rows: &[u32],
    ) -> NullableColumnParam<'a> {
        let Some(column) = column else { return self.nulls(rows.len()) };
        match run(column, rows) {
            Some(first) => self.slice(column.data(), first, rows.len()),
            None => self.gather(column.data(), rows.iter().map(|row| column.at(*row))),
        }
    }

    fn nulls(&mut self, rows: usize) -> NullableColumnParam<'_> {
        self.data.clear();
        self.offsets.clear();
        self.offsets.resize(rows + 1, 0);
        self.validity.clear();
        self.validity.resize(rows.div_ceil(8), 0);
        self.whole()
    }

    fn slice<'a>(
        &'a mut self,
        column: &'a BytesColumn,
        first: usize,
        rows: usize,
    ) -> NullableColumnParam<'a> {
        self.validity.clear();
        if let Some(validity) = column.validity()
            && (first..first + rows).any(|row| validity.is_null(row))
        {
            self.validity.resize(rows.div_ceil(8), 0);
            for row in 0..rows {
                self.validity[row / 8] |= u8::from(validity.is_valid(first + row)) << (row % 8);
            }
        }
        NullableColumnParam {
            values: slice(column, first, rows, &mut self.offsets),
            validity: &self.validity,
        }
    }

    fn gather(
        &mut self,
        column: &BytesColumn,
        at: impl ExactSizeIterator<Item = usize>,
    ) -> NullableColumnParam<'_> {
        self.data.clear();
        self.offsets.clear();
        self.offsets.push(0);
        self.validity.clear();
        self.validity.resize(at.len().div_ceil(8), 0);
        let mut nulls = false;
        for (row, at) in at.enumerate() {
            match column.get(at) {
                Some(value) => {
                    self.data.extend_from_slice(value);
                    self.validity[row / 8] |= 1 << (row % 8);
                }
                None => nulls = true,
            }
            self.offsets.push(self.data.len() as i32);
        }
        if !nulls {
            self.validity.clear();
        }
        self.whole()
    }

    fn whole(&self) -> NullableColumnParam<'_> {
        NullableColumnParam { values: self.values(), validity: &self.validity }
    }

    fn values(&self) -> ByteColumnParam<'_> {
        ByteColumnParam { data: &self.data, offsets: &self.offsets }
    }
}

/// Rows of a column that lie side by side: the data as it lies, its offsets moved to begin at 0.
fn slice<'a>(
    column: &'a BytesColumn,
    first: usize,
    rows: usize,
    moved: &'a mut Vec<i32>,
) -> ByteColumnParam<'a> {
    let offsets = &column.offsets()[first..=first + rows];
    let (from, to) = (offsets[0], offsets[rows]);
    let data = &column.values()[from as usize..to as usize];
    if from == 0 {
        return ByteColumnParam { data, offsets };
    }
    moved.clear();
    moved.extend(offsets.iter().map(|offset| offset - from));
    ByteColumnParam { data, offsets: moved }
}

/// The buffers of the headers.
#[derive(Debug, Default)]
struct HeaderBuffers {
    /// The names that cross; empty = all.
    only: Vec<Vec<u8>>,
    offsets: Vec<i32>,
    names: Buffers,
    values: Buffers,
}

impl HeaderBuffers {
    fn headers<'a>(
        &'a mut self,
        column: Option<&'a Column<HeaderColumn>>,
        rows: &[u32],
    ) -> HeaderColumnParam<'a> {
        match column {
            None => self.none(rows.len()),
            Some(column) => match run(column, rows) {
                Some(first) if self.only.is_empty() => self.slice(column.data(), first, rows.len()),
                _ => self.gather(column, rows),
            },
        }
    }

    fn none(&mut self, rows: usize) -> HeaderColumnParam<'_> {
        self.offsets.clear();
        self.offsets.resize(rows + 1, 0);
        self.names.nulls(0);
        self.values.nulls(0);
        self.whole()
    }

    fn slice<'a>(&'a mut self, column: &'a HeaderColumn, first: usize, rows: usize) -> HeaderColumnParam<'a> {
        let offsets = &column.offsets()[first..=first + rows];
        let (from, to) = (offsets[0] as usize, offsets[rows] as usize);
        self.offsets.clear();
        self.offsets.extend(offsets.iter().map(|offset| offset - offsets[0]));
        HeaderColumnParam {
            offsets: &self.offsets,
            names: slice(column.names(), from, to - from, &mut self.names.offsets),
            values: self.values.slice(column.values(), from, to - from),
        }
    }

    fn gather(&mut self, column: &Column<HeaderColumn>, rows: &[u32]) -> HeaderColumnParam<'_> {
        let data = column.data();
        let mut picked = Vec::new();
        self.offsets.clear();
        self.offsets.push(0);
        for row in rows {
            let at = column.at(*row);
            let headers = data.offsets()[at] as usize..data.offsets()[at + 1] as usize;
            picked.extend(headers.filter(|header| {
                self.only.is_empty() || self.only.iter().any(|name| name == data.names().value(*header))
            }));
            self.offsets.push(picked.len() as i32);
        }
        self.names.gather(data.names(), picked.iter().copied());
        self.values.gather(data.values(), picked.iter().copied());
        self.whole()
    }

    fn whole(&self) -> HeaderColumnParam<'_> {
        HeaderColumnParam { offsets: &self.offsets, names: self.names.values(), values: self.values.whole() }
    }
}

/// The buffers of the source columns.
#[derive(Debug, Default)]
struct SourceBuffers {
    topic: Vec<u16>,
    partition: Vec<u32>,
    offset: Vec<u64>,
    timestamp_ms: Vec<i64>,
    timestamp_validity: Vec<u8>,
    row: Buffers,
}

impl SourceBuffers {
    fn source<'a>(&'a mut self, batch: &Batch, rows: &[u32], topics: &'a [&'a str]) -> SourceColumn<'a> {
        let column = batch.source_column();
        let data = column.data();
        self.topic.clear();
        self.partition.clear();
        self.offset.clear();
        self.timestamp_ms.clear();
        self.timestamp_validity.clear();
        self.timestamp_validity.resize(rows.len().div_ceil(8), 0);
        self.row.data.clear();
        self.row.offsets.clear();
        self.row.offsets.push(0);
        let mut timeless = false;
        for (i, row) in rows.iter().enumerate() {
            let at = column.at(*row);
            let source = batch.source(*row);
            self.topic.push(data.topic_index(at));
            self.partition.push(source.partition as u32);
            self.offset.push(source.offset.0 as u64);
            self.timestamp_ms.push(source.timestamp_ms.unwrap_or_default());
            match source.timestamp_ms {
                Some(_) => self.timestamp_validity[i / 8] |= 1 << (i % 8),
                None => timeless = true,
            }
            self.row.data.extend_from_slice(source.row.as_bytes());
            self.row.offsets.push(self.row.data.len() as i32);
        }
        if !timeless {
            self.timestamp_validity.clear();
        }
        SourceColumn {
            topics,
            topic: &self.topic,
            partition: &self.partition,
            offset: &self.offset,
            timestamp_ms: &self.timestamp_ms,
            timestamp_validity: &self.timestamp_validity,
            row: (!batch.is_plain()).then(|| self.row.values()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loom_types::{Batch, BatchBuilder, RecordOffset, RecordRef};

    use super::Crossing;
    use crate::bindings::loom::plugin::columns::{Fields, NullableColumnParam, Selection};

    /// Row i: payload "p<i>" (null where i % 3 == 2), key "k<i>", headers a=<i>, b, and one time in two a timestamp.
    fn batch(rows: usize) -> Batch {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in"), Arc::from("more")]));
        for i in 0..rows {
            let (payload, key, value) = (format!("p{i}"), format!("k{i}"), format!("{i}"));
            builder.header(b"a", Some(value.as_bytes()));
            builder.header(b"b", None);
            builder
                .push(RecordRef {
                    topic: (i % 2) as u16,
                    partition: 3,
                    offset: RecordOffset(100 + i as i64),
                    timestamp_ms: (i % 2 == 0).then_some(7),
                    key: Some(key.as_bytes()),
                    payload: (i % 3 != 2).then_some(payload.as_bytes()),
                    row: "",
                })
                .unwrap();
        }
        builder.finish()
    }

    fn all(names: &[&str]) -> Crossing {
        let header_names = names.iter().map(|name| (*name).to_owned()).collect();
        Crossing::new(Selection { fields: Fields::all(), header_names })
    }

    fn values(column: &NullableColumnParam<'_>) -> Vec<Option<String>> {
        let offsets = column.values.offsets;
        assert_eq!(offsets[0], 0);
        assert_eq!(*offsets.last().unwrap() as usize, column.values.data.len());
        (0..offsets.len() - 1)
            .map(|row| {
                let there = column.validity.is_empty() || column.validity[row / 8] >> (row % 8) & 1 == 1;
                let bytes = &column.values.data[offsets[row] as usize..offsets[row + 1] as usize];
                there.then(|| String::from_utf8(bytes.to_vec()).unwrap())
            })
            .collect()
    }

    #[test]
    fn rows_side_by_side_and_scattered_rows_cross_alike() {
        let batch = batch(20);
        for rows in
            [(0..20).collect::<Vec<u32>>(), (5..14).collect(), vec![3, 1, 19, 19, 2], vec![8], Vec::new()]
        {
            let mut crossing = all(&[]);
            let topics = crossing.topics(&batch);
            let lowered = crossing.lower(&batch, &rows, &topics);
            assert_eq!(lowered.rows as usize, rows.len());
            let text = |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
            let payloads: Vec<_> = rows.iter().map(|row| text(batch.payload(*row))).collect();
            assert_eq!(values(lowered.payload.as_ref().unwrap()), payloads, "{rows:?}");
            let keys: Vec<_> = rows.iter().map(|row| text(batch.key(*row))).collect();
            assert_eq!(values(lowered.key.as_ref().unwrap()), keys, "{rows:?}");
            let headers = lowered.headers.unwrap();
            assert_eq!(
                headers.offsets.to_vec(),
                (0..=rows.len() as i32).map(|row| row * 2).collect::<Vec<_>>()
            );
            let expected: Vec<_> = rows.iter().flat_map(|row| [Some(format!("{row}")), None]).collect();
            assert_eq!(values(&headers.values), expected, "{rows:?}");
            assert_eq!(headers.names.data, "ab".repeat(rows.len()).as_bytes());
            let source = lowered.source.unwrap();
            assert_eq!(source.topics, ["in", "more"]);
            assert_eq!(
                source.offset.to_vec(),
                rows.iter().map(|row| u64::from(100 + row)).collect::<Vec<_>>()
            );
            let timed = |i: usize| {
                source.timestamp_validity.is_empty() || source.timestamp_validity[i / 8] >> (i % 8) & 1 == 1
            };
            assert!(rows.iter().enumerate().all(|(i, row)| timed(i) == (row % 2 == 0)), "{rows:?}");
            assert!(source.row.is_none());
        }
    }

    #[test]
    fn only_what_is_read_crosses_and_headers_can_be_narrowed() {
        let batch = batch(3);
        let mut crossing = Crossing::new(Selection { fields: Fields::KEY, header_names: Vec::new() });
        let topics = crossing.topics(&batch);
        let lowered = crossing.lower(&batch, &[0, 1], &topics);
        assert!(lowered.payload.is_none() && lowered.headers.is_none() && lowered.source.is_none());
        assert!(lowered.key.is_some());

        let mut crossing = all(&["b", "none"]);
        let topics = crossing.topics(&batch);
        let headers = crossing.lower(&batch, &[0, 1], &topics).headers.unwrap();
        assert_eq!((headers.offsets, headers.names.data), (&[0, 1, 2][..], &b"bb"[..]));
        assert_eq!(values(&headers.values), [None, None]);
    }

    #[test]
    fn a_batch_without_keys_and_headers_has_columns_of_nothing() {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        builder
            .push(RecordRef {
                topic: 0,
                partition: 0,
                offset: RecordOffset(0),
                timestamp_ms: None,
                key: None,
                payload: Some(b"x"),
                row: "2.0",
            })
            .unwrap();
        let batch = builder.finish();
        let mut crossing = all(&[]);
        let topics = crossing.topics(&batch);
        let lowered = crossing.lower(&batch, &[0], &topics);
        assert_eq!(values(lowered.key.as_ref().unwrap()), [None]);
        assert_eq!(lowered.headers.unwrap().offsets, [0, 0]);
        assert_eq!(lowered.source.unwrap().row.unwrap().data, b"2.0");
    }
}
