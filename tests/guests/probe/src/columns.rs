//! Reading and building columns in Arrow's layout, for the probes in the column form.

use crate::rows::Row;
use crate::{Change, Config, Failure, Headers, Patch, Record};

/// `byte-column` of the contract, borrowed: n + 1 offsets into the data.
#[derive(Clone, Copy)]
pub struct Bytes<'a> {
    /// All values, end to end.
    pub data: &'a [u8],
    /// Where they begin and end.
    pub offsets: &'a [i32],
}

/// `nullable-column`, borrowed; an empty validity means that no row is null.
#[derive(Clone, Copy)]
pub struct Nullable<'a> {
    /// The values; those of null rows mean nothing.
    pub values: Bytes<'a>,
    /// One bit a row, least significant first.
    pub validity: &'a [u8],
}

/// `header-column`, borrowed.
#[derive(Clone, Copy)]
pub struct HeaderColumn<'a> {
    /// n + 1 offsets into names and values.
    pub offsets: &'a [i32],
    /// The names.
    pub names: Bytes<'a>,
    /// The values.
    pub values: Nullable<'a>,
}

/// `source-column`, borrowed.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The names that `topic` indexes.
    pub topics: &'a [String],
    /// A topic a row.
    pub topic: &'a [u16],
    /// A partition a row.
    pub partition: &'a [u32],
    /// An offset a row.
    pub offset: &'a [u64],
    /// A time a row.
    pub timestamp_ms: &'a [i64],
    /// Which rows have a time.
    pub timestamp_validity: &'a [u8],
    /// Which row of its record.
    pub row: Option<Bytes<'a>>,
}

/// `batch`, borrowed.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    /// How many rows.
    pub rows: usize,
    /// Payloads, where they cross.
    pub payload: Option<Nullable<'a>>,
    /// Keys, where they cross.
    pub key: Option<Nullable<'a>>,
    /// Headers, where they cross.
    pub headers: Option<HeaderColumn<'a>>,
    /// Sources, where they cross.
    pub source: Option<Source<'a>>,
}

impl<'a> Bytes<'a> {
    fn get(&self, row: usize) -> &'a [u8] {
        &self.data[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }
}

impl<'a> Nullable<'a> {
    fn get(&self, row: usize) -> Option<&'a [u8]> {
        is_valid(self.validity, row).then(|| self.values.get(row))
    }
}

fn is_valid(validity: &[u8], row: usize) -> bool {
    validity.is_empty() || validity[row / 8] >> (row % 8) & 1 == 1
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the host sends names in UTF-8")
}

impl<'a> Batch<'a> {
    /// One row, with what of it crossed.
    pub fn record(&self, row: usize) -> Record<'a> {
        let mut record = Record {
            payload: self.payload.and_then(|column| column.get(row)),
            key: self.key.and_then(|column| column.get(row)),
            ..Record::default()
        };
        if let Some(headers) = &self.headers {
            let range = headers.offsets[row] as usize..headers.offsets[row + 1] as usize;
            record.headers = range.map(|i| (text(headers.names.get(i)), headers.values.get(i))).collect();
        }
        if let Some(source) = &self.source {
            record.topic = &source.topics[usize::from(source.topic[row])];
            record.partition = source.partition[row];
            record.offset = source.offset[row];
            record.timestamp_ms = is_valid(source.timestamp_validity, row).then(|| source.timestamp_ms[row]);
            record.row = source.row.map_or("", |column| text(column.get(row)));
        }
        record
    }
}

/// A nullable column under construction.
pub struct NullableBuilder {
    /// Values end to end.
    pub data: Vec<u8>,
    /// Where they begin and end.
    pub offsets: Vec<i32>,
    /// One bit a row.
    pub validity: Vec<u8>,
    rows: usize,
}

impl Default for NullableBuilder {
    fn default() -> Self {
        Self { data: Vec::new(), offsets: vec![0], validity: Vec::new(), rows: 0 }
    }
}

impl NullableBuilder {
    /// Adds one row.
    pub fn push(&mut self, value: Option<&[u8]>) {
        if self.rows.is_multiple_of(8) {
            self.validity.push(0);
        }
        if let Some(value) = value {
            self.data.extend_from_slice(value);
            self.validity[self.rows / 8] |= 1 << (self.rows % 8);
        }
        self.offsets.push(self.data.len() as i32);
        self.rows += 1;
    }
}

/// A header column under construction.
pub struct HeaderBuilder {
    /// Offsets of rows.
    pub offsets: Vec<i32>,
    /// Names end to end.
    pub names: Vec<u8>,
    /// Where they begin and end.
    pub name_offsets: Vec<i32>,
    /// Values.
    pub values: NullableBuilder,
}

impl Default for HeaderBuilder {
    fn default() -> Self {
        Self {
            offsets: vec![0],
            names: Vec::new(),
            name_offsets: vec![0],
            values: NullableBuilder::default(),
        }
    }
}

impl HeaderBuilder {
    fn push<'a>(&mut self, headers: impl Iterator<Item = (&'a str, Option<&'a [u8]>)>) {
        for (name, value) in headers {
            self.names.extend_from_slice(name.as_bytes());
            self.name_offsets.push(self.names.len() as i32);
            self.values.push(value);
        }
        self.offsets.push(self.name_offsets.len() as i32 - 1);
    }
}

/// `changes` of the contract: only the columns in which any row changed.
#[derive(Default)]
pub struct Changes {
    /// Payloads.
    pub payload: Option<NullableBuilder>,
    /// Keys.
    pub key: Option<NullableBuilder>,
    /// Headers.
    pub headers: Option<HeaderBuilder>,
    /// Rows that failed.
    pub failures: Vec<(u32, Failure)>,
}

/// Puts the answers for single rows together as columns.
pub fn changes(batch: &Batch, answers: Vec<Result<Patch, Failure>>) -> Changes {
    let mut changes = Changes::default();
    let mut patches = Vec::with_capacity(answers.len());
    for (row, answer) in answers.into_iter().enumerate() {
        patches.push(answer.unwrap_or_else(|failure| {
            changes.failures.push((row as u32, failure));
            Patch::default()
        }));
    }
    let records: Vec<Record> = (0..batch.rows).map(|row| batch.record(row)).collect();
    if patches.iter().any(|patch| patch.payload != Change::Keep) {
        changes.payload =
            Some(column(records.iter().map(|r| r.payload).zip(patches.iter().map(|p| &p.payload))));
    }
    if patches.iter().any(|patch| patch.key != Change::Keep) {
        changes.key = Some(column(records.iter().map(|r| r.key).zip(patches.iter().map(|p| &p.key))));
    }
    if patches.iter().any(|patch| patch.headers.is_some()) {
        let mut builder = HeaderBuilder::default();
        for (record, patch) in records.iter().zip(&patches) {
            match &patch.headers {
                Some(headers) => push_owned(&mut builder, headers),
                None => builder.push(record.headers.iter().copied()),
            }
        }
        changes.headers = Some(builder);
    }
    changes
}

fn push_owned(builder: &mut HeaderBuilder, headers: &Headers) {
    builder.push(headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())));
}

fn column<'a>(rows: impl Iterator<Item = (Option<&'a [u8]>, &'a Change)>) -> NullableBuilder {
    let mut builder = NullableBuilder::default();
    for (before, change) in rows {
        match change {
            Change::Keep => builder.push(before),
            Change::Clear => builder.push(None),
            Change::Set(bytes) => builder.push(Some(bytes)),
        }
    }
    builder
}

/// Breaks an answer in the way that `bad_columns` of the configuration names.
pub fn spoil(changes: &mut Changes, batch: &Batch, how: &str) {
    let column = changes.payload.get_or_insert_with(|| {
        let mut builder = NullableBuilder::default();
        (0..batch.rows).for_each(|row| builder.push(batch.record(row).payload));
        builder
    });
    match how {
        "short" => drop(column.offsets.pop()),
        "offsets" => *column.offsets.last_mut().expect("offsets begin with 0") = i32::MAX,
        "order" => column.offsets[0] = i32::MAX,
        "validity" => {
            // A column of eight rows or fewer has one byte, and none at all means that no row is null.
            column.validity = if batch.rows > 8 { vec![0xff] } else { vec![0xff; 2 + batch.rows] };
        }
        "failure-row" => {
            changes.failures.push((batch.rows as u32, Failure::Reject("no such row".to_owned())))
        }
        other => panic!("bad_columns: {other:?} is not known"),
    }
}

/// `rows` of the contract.
#[derive(Default)]
pub struct Rows {
    /// Which row of the batch each was made from.
    pub origin: Vec<u32>,
    /// Payloads.
    pub payload: NullableBuilder,
    /// Keys.
    pub key: Option<NullableBuilder>,
    /// Headers.
    pub headers: Option<HeaderBuilder>,
    /// Rows of the batch that failed.
    pub failures: Vec<(u32, Failure)>,
}

/// Puts the rows that were made of single records together as columns, in the way that the configuration says.
pub fn rows(answers: Vec<Result<Vec<Row>, Failure>>, config: &Config) -> Rows {
    let batch = answers.len() as u32;
    let mut rows = Rows::default();
    let (mut key, mut headers) = (NullableBuilder::default(), HeaderBuilder::default());
    let mut answers: Vec<_> = (0_u32..).zip(answers).collect();
    if config.backwards {
        answers.reverse();
    }
    for (origin, answer) in answers {
        match answer {
            Err(failure) => rows.failures.push((origin, failure)),
            Ok(made) => {
                for row in made {
                    rows.origin.push(origin);
                    rows.payload.push(row.payload.as_deref());
                    key.push(row.key.as_deref());
                    push_owned(&mut headers, &row.headers);
                }
            }
        }
    }
    if !config.inherit {
        (rows.key, rows.headers) = (Some(key), Some(headers));
    }
    match config.bad_columns.as_deref() {
        None => {}
        Some("short") => drop(rows.payload.offsets.pop()),
        Some("offsets") => *rows.payload.offsets.last_mut().expect("offsets begin with 0") = i32::MAX,
        Some("origin") => *rows.origin.last_mut().expect("a row was made") = batch,
        Some("origins") => drop(rows.origin.pop()),
        Some("failure-row") => rows.failures.push((batch, Failure::Reject("no such row".to_owned()))),
        Some(other) => panic!("bad_columns: {other:?} is not known"),
    }
    rows
}
