//! Puts the answers of a run of calls together: one column for each field that changed, with a row for each row that comes
//! out. A step's rows are those that went in; an expander's each have an original among them.
//!
//! A field that nothing changed has no column at all. A column that answered the whole run is taken as it came; only
//! where a run was cut into several calls, or rows answered one by one, values are copied together.

use std::borrow::Cow;
use std::ops::Range;

use loom_types::{Batch, BytesBuilder, BytesColumn, Changes, ColumnError, HeaderBuilder, HeaderColumn};

use crate::bindings::loom::plugin::columns::{self, HeaderColumnResult, NullableColumnResult};
use crate::bindings::loom::plugin::types::{Change, Patch, Row};

/// The answers of one run of calls so far, in order.
#[derive(Debug)]
pub(crate) struct Assembler<'a> {
    batch: &'a Batch,
    /// The originals of the rows that come out.
    rows: Cow<'a, [u32]>,
    done: usize,
    payload: Field<BytesColumn, BytesBuilder>,
    key: Field<BytesColumn, BytesBuilder>,
    headers: Field<HeaderColumn, HeaderBuilder>,
}

#[derive(Debug)]
enum Field<C, B> {
    /// Nothing changed so far.
    Same,
    /// One column answered the whole call.
    Whole(C),
    /// Changed and unchanged values, up to `done`.
    Built(B),
}

impl<'a> Assembler<'a> {
    /// Of rows that come out one for one.
    pub(crate) fn new(batch: &'a Batch, rows: &'a [u32]) -> Self {
        Self::of(batch, Cow::Borrowed(rows))
    }

    /// Of rows that are told with [`Assembler::made_from`].
    pub(crate) fn empty(batch: &'a Batch) -> Self {
        Self::of(batch, Cow::Owned(Vec::new()))
    }

    fn of(batch: &'a Batch, rows: Cow<'a, [u32]>) -> Self {
        Assembler { batch, rows, done: 0, payload: Field::Same, key: Field::Same, headers: Field::Same }
    }

    /// Rows with these originals come out too; their answers are given next.
    pub(crate) fn made_from(&mut self, originals: impl IntoIterator<Item = u32>) {
        self.rows.to_mut().extend(originals);
    }

    /// How many rows have an answer so far.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// The next rows' answer, as columns. `whole`: there are no others.
    pub(crate) fn columns(&mut self, rows: usize, answer: Changes, whole: bool) {
        let (batch, all, done) = (self.batch, &*self.rows, self.done);
        bytes_column(&mut self.payload, answer.payload, batch, all, done..done + rows, whole, Batch::payload);
        bytes_column(&mut self.key, answer.key, batch, all, done..done + rows, whole, Batch::key);
        match (answer.headers, &mut self.headers) {
            (None, Field::Same | Field::Whole(_)) => {}
            (None, Field::Built(builder)) => keep_headers(builder, batch, &all[done..done + rows]),
            (Some(column), field @ Field::Same) if whole => *field = Field::Whole(column),
            (Some(column), field) => {
                let builder = header_builder(field, batch, &all[..done]);
                for row in 0..rows {
                    for (name, value) in column.get(row) {
                        builder.push(name, value);
                    }
                    builder.end_row();
                }
            }
        }
        self.done += rows;
    }

    /// The next row's answer, as a patch.
    pub(crate) fn patch(&mut self, patch: Patch) {
        let (batch, all, done) = (self.batch, &*self.rows, self.done);
        bytes_change(&mut self.payload, patch.payload, batch, all, done, Batch::payload);
        bytes_change(&mut self.key, patch.key, batch, all, done, Batch::key);
        match (patch.headers, &mut self.headers) {
            (Some(headers), field) => {
                let builder = header_builder(field, batch, &all[..done]);
                for header in headers {
                    builder.push(header.name.as_bytes(), header.value.as_deref());
                }
                builder.end_row();
            }
            (None, Field::Built(builder)) => keep_headers(builder, batch, &all[done..=done]),
            (None, Field::Same | Field::Whole(_)) => {}
        }
        self.done += 1;
    }

    /// The next row, as a whole one.
    pub(crate) fn row(&mut self, row: Row) {
        let change = |value: Option<Vec<u8>>| value.map_or(Change::Clear, Change::Set);
        self.patch(Patch { payload: change(row.payload), key: change(row.key), headers: Some(row.headers) });
    }

    /// The next rows have no answer.
    pub(crate) fn keep(&mut self, rows: usize) {
        self.columns(rows, Changes::default(), false);
    }

    /// What changed, with a row for each that comes out.
    pub(crate) fn finish(self) -> Changes {
        self.into_parts().1
    }

    /// The rows that come out, as a batch: their originals, changed.
    pub(crate) fn finish_batch(self) -> Batch {
        let batch = self.batch;
        let (rows, changes) = self.into_parts();
        batch.select(&rows).with(changes)
    }

    fn into_parts(mut self) -> (Cow<'a, [u32]>, Changes) {
        self.keep(self.rows.len() - self.done);
        let bytes = |field| match field {
            Field::Same => None,
            Field::Whole(column) => Some(column),
            Field::Built(mut builder) => Some(BytesBuilder::finish(&mut builder)),
        };
        let headers = match self.headers {
            Field::Same => None,
            Field::Whole(column) => Some(column),
            Field::Built(mut builder) => Some(builder.finish()),
        };
        (self.rows, Changes { payload: bytes(self.payload), key: bytes(self.key), headers })
    }
}

type Original = fn(&Batch, u32) -> Option<&[u8]>;

fn bytes_builder<'f>(
    field: &'f mut Field<BytesColumn, BytesBuilder>,
    batch: &Batch,
    before: &[u32],
    original: Original,
) -> &'f mut BytesBuilder {
    if !matches!(field, Field::Built(_)) {
        let mut builder = BytesBuilder::new();
        before.iter().for_each(|row| builder.push(original(batch, *row)));
        *field = Field::Built(builder);
    }
    match field {
        Field::Built(builder) => builder,
        Field::Same | Field::Whole(_) => unreachable!("it was just made one that is built"),
    }
}

fn bytes_column(
    field: &mut Field<BytesColumn, BytesBuilder>,
    answer: Option<BytesColumn>,
    batch: &Batch,
    all: &[u32],
    about: Range<usize>,
    whole: bool,
    original: Original,
) {
    match (answer, field) {
        (None, Field::Same | Field::Whole(_)) => {}
        (None, Field::Built(builder)) => {
            all[about].iter().for_each(|row| builder.push(original(batch, *row)));
        }
        (Some(column), field @ Field::Same) if whole => *field = Field::Whole(column),
        (Some(column), field) => {
            let builder = bytes_builder(field, batch, &all[..about.start], original);
            (0..about.len()).for_each(|row| builder.push(column.get(row)));
        }
    }
}

fn bytes_change(
    field: &mut Field<BytesColumn, BytesBuilder>,
    change: Change,
    batch: &Batch,
    all: &[u32],
    done: usize,
    original: Original,
) {
    match (change, field) {
        (Change::Keep, Field::Same | Field::Whole(_)) => {}
        (Change::Keep, Field::Built(builder)) => builder.push(original(batch, all[done])),
        (Change::Clear, field) => bytes_builder(field, batch, &all[..done], original).push(None),
        (Change::Set(value), field) => bytes_builder(field, batch, &all[..done], original).push(Some(&value)),
    }
}

fn header_builder<'f>(
    field: &'f mut Field<HeaderColumn, HeaderBuilder>,
    batch: &Batch,
    before: &[u32],
) -> &'f mut HeaderBuilder {
    if !matches!(field, Field::Built(_)) {
        let mut builder = HeaderBuilder::new();
        keep_headers(&mut builder, batch, before);
        *field = Field::Built(builder);
    }
    match field {
        Field::Built(builder) => builder,
        Field::Same | Field::Whole(_) => unreachable!("it was just made one that is built"),
    }
}

fn keep_headers(builder: &mut HeaderBuilder, batch: &Batch, rows: &[u32]) {
    for row in rows {
        for (name, value) in batch.headers(*row) {
            builder.push(name, value);
        }
        builder.end_row();
    }
}

/// What columns hold, in bytes.
pub(crate) fn bytes_of(changes: &Changes) -> usize {
    let bytes = |column: &Option<BytesColumn>| column.as_ref().map_or(0, |column| column.values().len());
    let headers = changes
        .headers
        .as_ref()
        .map_or(0, |column| column.names().values().len() + column.values().values().len());
    bytes(&changes.payload) + bytes(&changes.key) + headers
}

/// A guest's columns, checked: every one has so many rows.
pub(crate) fn checked(rows: usize, answer: columns::Changes) -> Result<Changes, String> {
    let bytes = |name: &str, column: Option<NullableColumnResult>| {
        column
            .map(|column| {
                nullable(rows, column).map_err(|error| format!("its {name} column is invalid: {error}"))
            })
            .transpose()
    };
    Ok(Changes {
        payload: bytes("payload", answer.payload)?,
        key: bytes("key", answer.key)?,
        headers: answer
            .headers
            .map(|column| {
                headers(rows, column).map_err(|error| format!("its header column is invalid: {error}"))
            })
            .transpose()?,
    })
}

fn nullable(rows: usize, column: NullableColumnResult) -> Result<BytesColumn, ColumnError> {
    BytesColumn::from_parts(rows, column.values.data, column.values.offsets, &column.validity)
}

fn headers(rows: usize, column: HeaderColumnResult) -> Result<HeaderColumn, String> {
    let invalid = |error: ColumnError| error.to_string();
    // How many headers there are is what the last offset says; the columns of names and values must agree.
    let count = column.offsets.last().map_or(0, |last| usize::try_from(*last).unwrap_or(0));
    let names =
        BytesColumn::from_parts(count, column.names.data, column.names.offsets, &[]).map_err(invalid)?;
    // Kafka's header names are text, and what is written to an output must be readable.
    if let Some(name) = (0..count).find(|name| std::str::from_utf8(names.value(*name)).is_err()) {
        return Err(format!("the name of header {name} is not UTF-8"));
    }
    let values = nullable(count, column.values).map_err(invalid)?;
    HeaderColumn::from_parts(rows, column.offsets, names, values).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loom_types::{Batch, BatchBuilder, BytesBuilder, BytesColumn, Changes, RecordOffset, RecordRef};

    use super::{Assembler, checked};
    use crate::bindings::loom::plugin::columns::{
        self, ByteColumnResult, HeaderColumnResult, NullableColumnResult,
    };
    use crate::bindings::loom::plugin::types::{Change, HeaderResult, Patch};

    fn batch(payloads: &[&str]) -> Batch {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        for (i, payload) in payloads.iter().enumerate() {
            builder.header(b"h", Some(payload.as_bytes()));
            builder.push(RecordRef {
                topic: 0,
                partition: 0,
                offset: RecordOffset(i as i64),
                timestamp_ms: None,
                key: None,
                payload: Some(payload.as_bytes()),
                row: "",
            });
        }
        builder.finish()
    }

    fn column(values: &[Option<&str>]) -> BytesColumn {
        let mut builder = BytesBuilder::new();
        values.iter().for_each(|value| builder.push(value.map(str::as_bytes)));
        builder.finish()
    }

    fn text(column: &BytesColumn) -> Vec<Option<&str>> {
        (0..column.len())
            .map(|row| column.get(row).map(|bytes| std::str::from_utf8(bytes).unwrap()))
            .collect()
    }

    #[test]
    fn parts_that_change_and_parts_that_do_not_make_one_column() {
        let batch = batch(&["a", "b", "c", "d", "e", "f"]);
        let rows = [5, 4, 3, 2, 1, 0];
        let mut assembler = Assembler::new(&batch, &rows);
        assembler.keep(1);
        assembler.columns(
            2,
            Changes { payload: Some(column(&[Some("E"), None])), ..Changes::default() },
            false,
        );
        assembler.keep(1);
        assembler.patch(Patch { payload: Change::Set(b"B".to_vec()), key: Change::Keep, headers: None });
        let changes = assembler.finish();
        assert!(changes.key.is_none() && changes.headers.is_none());
        let payload = changes.payload.unwrap();
        assert_eq!(text(&payload), [Some("f"), Some("E"), None, Some("c"), Some("B"), Some("a")]);
    }

    #[test]
    fn nothing_changed_has_no_column_and_a_whole_one_is_taken() {
        let batch = batch(&["a", "b"]);
        let mut assembler = Assembler::new(&batch, &[0, 1]);
        assembler.keep(1);
        assembler.patch(Patch { payload: Change::Keep, key: Change::Keep, headers: None });
        assert!(assembler.finish().is_empty());
        let mut assembler = Assembler::new(&batch, &[0, 1]);
        assembler.columns(2, Changes { key: Some(column(&[None, Some("k")])), ..Changes::default() }, true);
        assert_eq!(text(&assembler.finish().key.unwrap()), [None, Some("k")]);
    }

    #[test]
    fn headers_of_other_rows_are_kept_where_one_row_changed_its_own() {
        let batch = batch(&["a", "b", "c"]);
        let mut assembler = Assembler::new(&batch, &[0, 1, 2]);
        let keep = || Patch { payload: Change::Keep, key: Change::Keep, headers: None };
        assembler.patch(keep());
        let header = |name: &str, value| HeaderResult { name: name.to_owned(), value };
        assembler
            .patch(Patch { headers: Some(vec![header("x", None), header("x", Some(vec![1]))]), ..keep() });
        assembler.patch(keep());
        let headers = assembler.finish().headers.unwrap();
        let of = |row| headers.get(row).collect::<Vec<_>>();
        assert_eq!(of(0), [(&b"h"[..], Some(&b"a"[..]))]);
        assert_eq!(of(1), [(&b"x"[..], None), (&b"x"[..], Some(&[1][..]))]);
        assert_eq!(of(2), [(&b"h"[..], Some(&b"c"[..]))]);
    }

    #[test]
    fn columns_of_a_wrong_length_or_order_are_told() {
        let bytes = |data: &[u8], offsets: &[i32]| ByteColumnResult {
            data: data.to_vec(),
            offsets: offsets.to_vec(),
        };
        let nullable = |values| NullableColumnResult { values, validity: Vec::new() };
        let none = || columns::Changes { payload: None, key: None, headers: None, failures: Vec::new() };
        let payload = |values| columns::Changes { payload: Some(nullable(values)), ..none() };
        assert!(checked(2, payload(bytes(b"ab", &[0, 1, 2]))).is_ok());
        let told = checked(2, payload(bytes(b"ab", &[0, 2]))).unwrap_err();
        assert_eq!(told, "its payload column is invalid: a column of 2 rows has 2 offsets; it needs 3");
        assert!(checked(2, payload(bytes(b"ab", &[0, 3, 2]))).is_err());
        assert!(checked(0, payload(bytes(b"", &[]))).is_err());
        let headers = |offsets: &[i32], names, values| {
            let column = HeaderColumnResult { offsets: offsets.to_vec(), names, values: nullable(values) };
            columns::Changes { headers: Some(column), ..none() }
        };
        let one = || bytes(b"n", &[0, 1]);
        assert!(checked(2, headers(&[0, 0, 1], one(), one())).is_ok());
        for offsets in [&[0, 0, 2][..], &[0, 1], &[0, -1, 1], &[0, 1, -1], &[]] {
            assert!(checked(2, headers(offsets, one(), one())).unwrap_err().contains("header column"));
        }
        let told = checked(2, headers(&[0, 0, 1], bytes(b"\xff", &[0, 1]), one())).unwrap_err();
        assert_eq!(told, "its header column is invalid: the name of header 0 is not UTF-8");
    }
}
