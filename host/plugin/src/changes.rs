//! Puts the answers of a run of calls together: one column for each field that changed, with a row for each row that comes
//! out. A step's rows are those that went in; an expander's each have an original among them.
//!
//! A row that has no room in a column beside the others has no answer: the plugin's for it is left out, and its caller told.
//!
//! A field that nothing changed has no column at all. A column that answered the whole run is taken as it came; only
//! where a run was cut into several calls, or rows answered one by one, values are copied together.

use std::borrow::Cow;

use loom_types::{
    Batch, BytesBuilder, BytesColumn, Changes, ColumnError, ColumnFull, HeaderBuilder, HeaderColumn,
};

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
    /// Bytes of a column, at most, where it is put together.
    room: usize,
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
        Assembler {
            batch,
            rows,
            done: 0,
            payload: Field::Same,
            key: Field::Same,
            headers: Field::Same,
            room: usize::MAX,
        }
    }

    /// Rows with these originals come out too; their answers are given next.
    pub(crate) fn made_from(&mut self, originals: impl IntoIterator<Item = u32>) {
        self.rows.to_mut().extend(originals);
    }

    /// How many rows have an answer so far.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// The next rows' answer, as columns. `whole`: there are no others. `full` is told the rows that have no room, in order,
    /// by their place among these.
    pub(crate) fn columns(
        &mut self,
        rows: usize,
        answer: Changes,
        whole: bool,
        mut full: impl FnMut(usize, ColumnFull),
    ) {
        if whole {
            self.payload.take(answer.payload);
            self.key.take(answer.key);
            self.headers.take(answer.headers);
            self.done += rows;
            return;
        }
        let Changes { payload, key, headers } = &answer;
        for row in 0..rows {
            let pushed = [
                self.bytes(payload.as_ref().map(|column| column.get(row)), Of::Payload),
                self.bytes(key.as_ref().map(|column| column.get(row)), Of::Key),
                self.header_row(headers.as_ref().map(|column| column.get(row))),
            ];
            self.done += 1;
            if let Some(error) = pushed.into_iter().find_map(Result::err) {
                full(row, error);
            }
        }
    }

    /// The next row's answer, as a patch. An error is a column without room for it.
    pub(crate) fn patch(&mut self, patch: Patch) -> Result<(), ColumnFull> {
        let value = |change| match change {
            Change::Keep => None,
            Change::Clear => Some(None),
            Change::Set(value) => Some(Some(value)),
        };
        let (payload, key) = (value(patch.payload), value(patch.key));
        let headers = patch.headers.as_ref();
        let headers = headers.map(|list| list.iter().map(|h| (h.name.as_bytes(), h.value.as_deref())));
        let pushed = [
            self.bytes(payload.as_ref().map(Option::as_deref), Of::Payload),
            self.bytes(key.as_ref().map(Option::as_deref), Of::Key),
            self.header_row(headers),
        ];
        self.done += 1;
        pushed.into_iter().collect()
    }

    /// The next row, as a whole one. An error is a column without room for it.
    pub(crate) fn row(&mut self, row: Row) -> Result<(), ColumnFull> {
        let change = |value: Option<Vec<u8>>| value.map_or(Change::Clear, Change::Set);
        self.patch(Patch { payload: change(row.payload), key: change(row.key), headers: Some(row.headers) })
    }

    /// The next row has no answer.
    pub(crate) fn keep(&mut self) {
        let row = self.rows[self.done];
        // Values of a row without an answer mean nothing: where they have no room, nothing is in their place.
        let _ = [
            self.payload.keep(Of::Payload, self.batch, row),
            self.key.keep(Of::Key, self.batch, row),
            self.headers.keep(self.batch, row),
        ];
        self.done += 1;
    }

    /// The next row's bytes; none where they are as they were.
    fn bytes(&mut self, value: Option<Option<&[u8]>>, of: Of) -> Result<(), ColumnFull> {
        let row = self.rows[self.done];
        let field = match of {
            Of::Payload => &mut self.payload,
            Of::Key => &mut self.key,
        };
        match value {
            None => field.keep(of, self.batch, row),
            Some(value) => {
                field.build(BytesBuilder::new().within(self.room), |builder| {
                    let before = || self.rows[..self.done].iter().map(|row| of.value(self.batch, *row));
                    builder.has_room(before().map(|value| value.map_or(0, <[u8]>::len)).sum())?;
                    before().try_for_each(|value| builder.push(value))
                })?;
                field.builder().map_or(Ok(()), |builder| builder.push_or_null(value))
            }
        }
    }

    /// The next row's headers; none where they are as they were.
    fn header_row<'h>(
        &mut self,
        headers: Option<impl Iterator<Item = (&'h [u8], Option<&'h [u8]>)>>,
    ) -> Result<(), ColumnFull> {
        let row = self.rows[self.done];
        let Some(headers) = headers else { return self.headers.keep(self.batch, row) };
        self.headers.build(HeaderBuilder::new().within(self.room), |builder| {
            let mut before = self.rows[..self.done].iter();
            builder.has_room(before.clone().map(|row| self.batch.header_bytes(*row)).sum())?;
            before.try_for_each(|row| builder.push_row(self.batch.headers(*row)))
        })?;
        self.headers.builder().map_or(Ok(()), |builder| builder.push_row(headers))
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
        (self.done..self.rows.len()).for_each(|_| self.keep());
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

/// A field of bytes.
#[derive(Clone, Copy)]
enum Of {
    Payload,
    Key,
}

impl Of {
    fn value(self, batch: &Batch, row: u32) -> Option<&[u8]> {
        match self {
            Of::Payload => batch.payload(row),
            Of::Key => batch.key(row),
        }
    }
}

impl<C, B> Field<C, B> {
    /// Takes the column that answered the whole call.
    fn take(&mut self, column: Option<C>) {
        if let Some(column) = column {
            *self = Field::Whole(column);
        }
    }

    /// Has values put together from now on; `before` appends those of the rows before. Without room for those nothing
    /// changes.
    fn build(
        &mut self,
        mut builder: B,
        before: impl FnOnce(&mut B) -> Result<(), ColumnFull>,
    ) -> Result<(), ColumnFull> {
        if !matches!(self, Field::Built(_)) {
            before(&mut builder)?;
            *self = Field::Built(builder);
        }
        Ok(())
    }

    /// Where values are put together.
    fn builder(&mut self) -> Option<&mut B> {
        match self {
            Field::Built(builder) => Some(builder),
            Field::Same | Field::Whole(_) => None,
        }
    }
}

impl Field<BytesColumn, BytesBuilder> {
    /// The next row's value is as it was.
    fn keep(&mut self, of: Of, batch: &Batch, row: u32) -> Result<(), ColumnFull> {
        self.builder().map_or(Ok(()), |builder| builder.push_or_null(of.value(batch, row)))
    }
}

impl Field<HeaderColumn, HeaderBuilder> {
    /// The next row's headers are as they were.
    fn keep(&mut self, batch: &Batch, row: u32) -> Result<(), ColumnFull> {
        self.builder().map_or(Ok(()), |builder| builder.push_row(batch.headers(row)))
    }
}

/// What a header costs beside its bytes.
pub(crate) const HEADER_BYTES: usize = 12;

/// What columns hold, in bytes.
pub(crate) fn bytes_of(changes: &Changes) -> usize {
    let bytes = |column: &Option<BytesColumn>| column.as_ref().map_or(0, |column| column.values().len());
    let headers = changes.headers.as_ref().map_or(0, |column| {
        column.names().values().len() + column.values().values().len() + HEADER_BYTES * column.names().len()
    });
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
            builder
                .push(RecordRef {
                    topic: 0,
                    partition: 0,
                    offset: RecordOffset(i as i64),
                    timestamp_ms: None,
                    key: None,
                    payload: Some(payload.as_bytes()),
                    row: "",
                })
                .unwrap();
        }
        builder.finish()
    }

    fn column(values: &[Option<&str>]) -> BytesColumn {
        let mut builder = BytesBuilder::new();
        values.iter().for_each(|value| builder.push(value.map(str::as_bytes)).unwrap());
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
        assembler.keep();
        assembler.columns(
            2,
            Changes { payload: Some(column(&[Some("E"), None])), ..Changes::default() },
            false,
            |_, _| unreachable!("there is room"),
        );
        assembler.keep();
        assembler
            .patch(Patch { payload: Change::Set(b"B".to_vec()), key: Change::Keep, headers: None })
            .unwrap();
        let changes = assembler.finish();
        assert!(changes.key.is_none() && changes.headers.is_none());
        let payload = changes.payload.unwrap();
        assert_eq!(text(&payload), [Some("f"), Some("E"), None, Some("c"), Some("B"), Some("a")]);
    }

    #[test]
    fn nothing_changed_has_no_column_and_a_whole_one_is_taken() {
        let batch = batch(&["a", "b"]);
        let mut assembler = Assembler::new(&batch, &[0, 1]);
        assembler.keep();
        assembler.patch(Patch { payload: Change::Keep, key: Change::Keep, headers: None }).unwrap();
        assert!(assembler.finish().is_empty());
        let mut assembler = Assembler::new(&batch, &[0, 1]);
        assembler.columns(
            2,
            Changes { key: Some(column(&[None, Some("k")])), ..Changes::default() },
            true,
            |_, _| {},
        );
        assert_eq!(text(&assembler.finish().key.unwrap()), [None, Some("k")]);
    }

    #[test]
    fn headers_of_other_rows_are_kept_where_one_row_changed_its_own() {
        let batch = batch(&["a", "b", "c"]);
        let mut assembler = Assembler::new(&batch, &[0, 1, 2]);
        let keep = || Patch { payload: Change::Keep, key: Change::Keep, headers: None };
        assembler.patch(keep()).unwrap();
        let header = |name: &str, value| HeaderResult { name: name.to_owned(), value };
        assembler
            .patch(Patch { headers: Some(vec![header("x", None), header("x", Some(vec![1]))]), ..keep() })
            .unwrap();
        assembler.patch(keep()).unwrap();
        let headers = assembler.finish().headers.unwrap();
        let of = |row| headers.get(row).collect::<Vec<_>>();
        assert_eq!(of(0), [(&b"h"[..], Some(&b"a"[..]))]);
        assert_eq!(of(1), [(&b"x"[..], None), (&b"x"[..], Some(&[1][..]))]);
        assert_eq!(of(2), [(&b"h"[..], Some(&b"c"[..]))]);
    }

    #[test]
    fn a_row_that_has_no_room_beside_the_others_is_told_and_has_no_value() {
        let batch = batch(&["aaaa", "bbbb", "cccc", "dddd", "eeee"]);
        let set = |text: &str| Patch { payload: Change::Set(text.into()), key: Change::Keep, headers: None };
        let full = || Err(loom_types::ColumnFull { limit: 14 });
        // Rows before the first change are copied then, and rows behind it are kept.
        let mut assembler = Assembler { room: 14, ..Assembler::new(&batch, &[0, 1, 2, 3, 4]) };
        assembler.keep();
        assert_eq!(assembler.patch(set("B")), Ok(()));
        assert_eq!(assembler.patch(set("CCCCCCCCCC")), full());
        let keep = Patch { payload: Change::Keep, key: Change::Keep, headers: None };
        assert_eq!(assembler.patch(keep.clone()), Ok(()));
        assert_eq!(assembler.patch(set("EEEEE")), Ok(()));
        let payload = assembler.finish().payload.unwrap();
        assert_eq!(text(&payload), [Some("aaaa"), Some("B"), None, Some("dddd"), Some("EEEEE")]);
        // Where those before have no room already, nothing changes at all.
        let mut assembler = Assembler { room: 14, ..Assembler::new(&batch, &[0, 1, 2, 3, 4]) };
        (0..4).for_each(|_| assembler.keep());
        assert_eq!(assembler.patch(set("E")), full());
        assert!(assembler.finish().payload.is_none());
        // Columns tell each row that has none, by its place among theirs.
        let mut assembler = Assembler { room: 14, ..Assembler::new(&batch, &[0, 1, 2, 3, 4]) };
        assembler.keep();
        let answer = column(&[Some("B"), Some("CCCCCCCCCCCC"), Some("D"), Some("EEEEEEEEEEE")]);
        let mut told = Vec::new();
        let changes = Changes { payload: Some(answer), ..Changes::default() };
        assembler.columns(4, changes, false, |row, _| told.push(row));
        assert_eq!(told, [1, 3]);
        assert_eq!(
            text(&assembler.finish().payload.unwrap()),
            [Some("aaaa"), Some("B"), None, Some("D"), None]
        );
        // Headers alike.
        let header = |name: &str| HeaderResult { name: name.to_owned(), value: None };
        let headed = |name: &str| Patch { headers: Some(vec![header(name)]), ..keep.clone() };
        let mut assembler = Assembler { room: 30, ..Assembler::new(&batch, &[0, 1, 2]) };
        assert_eq!(assembler.patch(headed("first")), Ok(()));
        assert_eq!(assembler.patch(headed("much too long")), Err(loom_types::ColumnFull { limit: 30 }));
        let headers = {
            assembler.keep();
            assembler.finish().headers.unwrap()
        };
        assert_eq!([0, 1, 2].map(|row| headers.get(row).len()), [1, 0, 1]);
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
