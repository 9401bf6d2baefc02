//! Rows that were made from records, put together as one batch: checked, in the order of their records, named.

use std::collections::BTreeMap;
use std::fmt::Write;

use loom_types::{Batch, BytesBuilder, BytesColumn, Changes, HeaderBuilder, HeaderColumn};

use crate::answers::{Cause, ExpandAnswers, told};
use crate::bindings::loom::plugin::columns;
use crate::bindings::loom::plugin::types::{Failure, Row};
use crate::calls::checked_failures;
use crate::changes::{Assembler, HEADER_BYTES, bytes_of, checked};
use crate::role::{Collector, Failures, Room, no_room};

/// What a row costs beside its bytes: its original, its offsets, the number in its name.
const ROW_BYTES: usize = 40;

/// Rows and failures so far.
pub(crate) struct RowsOut<'a> {
    batch: &'a Batch,
    inputs: &'a [u32],
    assembler: Assembler<'a>,
    /// 0, and for each input that has an answer where its rows end.
    offsets: Vec<u32>,
    failures: Failures,
    room: Room,
}

impl Collector for RowsOut<'_> {
    fn fail(&mut self, cause: Cause, reason: String) {
        self.failures.book(self.done(), cause, reason);
        self.end_input(0);
    }
}

impl<'a> RowsOut<'a> {
    pub(crate) fn new(batch: &'a Batch, inputs: &'a [u32]) -> Self {
        let mut offsets = Vec::with_capacity(inputs.len() + 1);
        offsets.push(0);
        RowsOut {
            batch,
            inputs,
            assembler: Assembler::empty(batch),
            offsets,
            failures: Failures::default(),
            room: Room::default(),
        }
    }

    /// How many inputs have an answer.
    fn done(&self) -> usize {
        self.offsets.len() - 1
    }

    fn end_input(&mut self, rows: u32) {
        let end = self.offsets[self.done()] + rows;
        self.offsets.push(end);
    }

    /// What was made of the next input. Whether its rows are there.
    pub(crate) fn answer(&mut self, answer: Result<Vec<Row>, Failure>) -> bool {
        let rows = match answer {
            Ok(rows) => rows,
            Err(failure) => {
                self.fail_all(1, failure);
                return false;
            }
        };
        let input = self.inputs[self.done()];
        let name = self.batch.name(input).len();
        if let Err(reason) = self.room.take(rows.iter().map(|row| name + cost(row)).sum()) {
            self.fail(Cause::Fail, reason);
            return false;
        }
        let count = rows.len() as u32;
        self.assembler.made_from((0..count).map(|_| input));
        let at = self.done();
        let mut pushed = Ok(());
        // Each of them, since all are counted.
        for row in rows {
            pushed = self.assembler.row(row).and(pushed);
        }
        if let Err(full) = pushed {
            // Cannot happen while all rows are counted against a lower bound. Those that are there belong to no answer.
            self.failures.book(at, Cause::Fail, no_room(full));
        }
        self.end_input(count);
        pushed.is_ok()
    }

    /// What was made of the next inputs, in one; an error names what breaks the contract.
    pub(crate) fn columns(&mut self, inputs: usize, answer: columns::Rows) -> Result<(), String> {
        let Made { origin, changes, failures } = check(inputs, answer)?;
        let done = self.done();
        let about = &self.inputs[done..done + inputs];
        let whole = inputs == self.inputs.len();
        let kept = origin.iter().map(|origin| {
            let input = about[*origin as usize];
            // Where the columns of several calls are put together, what was left out may have to be copied.
            let inherited = if whole { 0 } else { inherited(self.batch, input, &changes) };
            ROW_BYTES + self.batch.name(input).len() + inherited
        });
        let cost = kept.sum::<usize>().saturating_add(bytes_of(&changes));
        if let Err(reason) = self.room.take(cost) {
            (0..inputs).for_each(|_| self.fail(Cause::Fail, reason.clone()));
            return Ok(());
        }
        let mut counts = vec![0_u32; inputs];
        origin.iter().for_each(|origin| counts[*origin as usize] += 1);
        self.assembler.made_from(origin.iter().map(|origin| about[*origin as usize]));
        // Cannot be full while all rows are counted against a lower bound.
        let mut booked: BTreeMap<usize, (Cause, String)> = BTreeMap::new();
        self.assembler.columns(origin.len(), changes, whole, |row, full| {
            booked.insert(origin[row] as usize, (Cause::Fail, no_room(full)));
        });
        counts.into_iter().for_each(|count| self.end_input(count));
        booked.extend(failures.into_iter().map(|(input, failure)| (input as usize, told(failure))));
        for (input, (cause, reason)) in booked {
            self.failures.book(done + input, cause, reason);
        }
        Ok(())
    }

    pub(crate) fn finish(mut self, answered: u32) -> ExpandAnswers {
        let made = self.offsets[self.done()];
        self.offsets.resize(self.inputs.len() + 1, made);
        let mut names = Names::with_capacity(made as usize);
        for (input, ends) in self.inputs.iter().zip(self.offsets.windows(2)) {
            let origin = self.batch.name(*input);
            (0..ends[1] - ends[0]).for_each(|place| names.push(origin, place));
        }
        ExpandAnswers {
            answered,
            rows: self.assembler.finish_batch().named(names.finish()),
            offsets: self.offsets,
            failures: self.failures.booked,
        }
    }
}

/// What a row costs, in bytes.
pub(crate) fn cost(row: &Row) -> usize {
    let bytes = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len);
    let headers = row.headers.iter().map(|h| h.name.len() + bytes(&h.value) + HEADER_BYTES);
    ROW_BYTES + bytes(&row.payload) + bytes(&row.key) + headers.sum::<usize>()
}

/// What a row has from its original, in bytes.
fn inherited(batch: &Batch, input: u32, changes: &Changes) -> usize {
    let key = if changes.key.is_none() { batch.key(input).map_or(0, <[u8]>::len) } else { 0 };
    let headers = if changes.headers.is_none() {
        let bytes =
            |(name, value): (&[u8], Option<&[u8]>)| name.len() + value.map_or(0, <[u8]>::len) + HEADER_BYTES;
        batch.headers(input).map(bytes).sum()
    } else {
        0
    };
    key + headers
}

/// Names of rows, by the names of their originals and their places among the rows made from those.
pub(crate) struct Names {
    names: BytesBuilder,
    text: String,
}

impl Names {
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Names { names: BytesBuilder::with_capacity(rows, 2 * rows), text: String::new() }
    }

    pub(crate) fn push(&mut self, origin: &str, place: u32) {
        self.text.clear();
        let dot = if origin.is_empty() { "" } else { "." };
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{origin}{dot}{place}");
        let pushed = self.names.push_or_null(Some(self.text.as_bytes()));
        debug_assert!(pushed.is_ok(), "names are counted with their rows");
    }

    pub(crate) fn finish(mut self) -> BytesColumn {
        self.names.finish()
    }
}

/// A column answer that keeps the contract; origins ascend, and none of them failed.
#[derive(Debug)]
struct Made {
    origin: Vec<u32>,
    changes: Changes,
    failures: Vec<(u32, Failure)>,
}

fn check(inputs: usize, answer: columns::Rows) -> Result<Made, String> {
    let columns::Rows { mut origin, payload, key, headers, mut failures } = answer;
    if let Some((row, origin)) = origin.iter().enumerate().find(|(_, origin)| **origin as usize >= inputs) {
        return Err(format!("its row {row} is made from row {origin}, and there are {inputs} rows"));
    }
    checked_failures(inputs, &mut failures)?;
    let columns = columns::Changes { payload: Some(payload), key, headers, failures: Vec::new() };
    let mut changes = checked(origin.len(), columns)?;
    let failed = |origin: u32| failures.binary_search_by_key(&origin, |(row, _)| *row).is_ok();
    let ignored = !failures.is_empty() && origin.iter().any(|origin| failed(*origin));
    if ignored || !origin.is_sorted() {
        let mut order: Vec<u32> = (0..origin.len() as u32).collect();
        order.retain(|row| !failed(origin[*row as usize]));
        order.sort_by_key(|row| origin[*row as usize]);
        changes = taken(&changes, &order);
        origin = order.iter().map(|row| origin[*row as usize]).collect();
    }
    Ok(Made { origin, changes, failures })
}

/// These rows of columns, in this order.
fn taken(changes: &Changes, order: &[u32]) -> Changes {
    let bytes = |column: &BytesColumn| {
        let mut builder = BytesBuilder::with_capacity(order.len(), column.values().len());
        for row in order {
            let pushed = builder.push_or_null(column.get(*row as usize));
            debug_assert!(pushed.is_ok(), "a part has room where the whole had");
        }
        builder.finish()
    };
    let headers = |column: &HeaderColumn| {
        let mut builder = HeaderBuilder::new();
        for row in order {
            let pushed = builder.push_row(column.get(*row as usize));
            debug_assert!(pushed.is_ok(), "a part has room where the whole had");
        }
        builder.finish()
    };
    Changes {
        payload: changes.payload.as_ref().map(bytes),
        key: changes.key.as_ref().map(bytes),
        headers: changes.headers.as_ref().map(headers),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loom_types::{Batch, BatchBuilder, RecordOffset, RecordRef};

    use super::RowsOut;
    use crate::bindings::loom::plugin::columns::{ByteColumnResult, NullableColumnResult, Rows};
    use crate::bindings::loom::plugin::types::{Failure, HeaderResult, Row};

    /// Records with keys k0, k1 and so on, and rows with these names.
    fn batch(names: &[&str]) -> Batch {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        for (i, row) in names.iter().enumerate() {
            builder.header(b"h", Some(&[b'0' + i as u8]));
            builder
                .push(RecordRef {
                    topic: 0,
                    partition: 0,
                    offset: RecordOffset(i as i64),
                    timestamp_ms: Some(7),
                    key: Some(format!("k{i}").as_bytes()),
                    payload: Some(b"in"),
                    row,
                })
                .unwrap();
        }
        builder.finish()
    }

    fn column(values: &[&str]) -> NullableColumnResult {
        let mut offsets = vec![0];
        values.iter().for_each(|value| offsets.push(offsets[offsets.len() - 1] + value.len() as i32));
        let values = ByteColumnResult { data: values.concat().into_bytes(), offsets };
        NullableColumnResult { values, validity: Vec::new() }
    }

    fn columns(origin: &[u32], payload: &[&str]) -> Rows {
        let (origin, payload) = (origin.to_vec(), column(payload));
        Rows { origin, payload, key: None, headers: None, failures: Vec::new() }
    }

    /// Payload, key, first header, offset and name of every row.
    fn told(batch: &Batch) -> Vec<String> {
        let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or(b"-")).into_owned();
        (0..batch.len() as u32)
            .map(|row| {
                let header = text(batch.headers(row).next().and_then(|(_, value)| value));
                let (payload, key) = (text(batch.payload(row)), text(batch.key(row)));
                format!("{payload} {key} {header} {} {}", batch.source(row).offset.0, batch.name(row))
            })
            .collect()
    }

    #[test]
    fn rows_have_what_they_leave_out_from_their_records_and_names_of_their_own() {
        let batch = batch(&["", "2", ""]);
        let mut out = RowsOut::new(&batch, &[2, 1]);
        out.columns(2, columns(&[0, 1, 1], &["a", "b", "c"])).unwrap();
        let made = out.finish(2);
        assert_eq!(told(&made.rows), ["a k2 2 2 0", "b k1 1 1 2.0", "c k1 1 1 2.1"]);
        assert_eq!((made.made_from(0), made.made_from(1)), (0..1, 1..3));
    }

    #[test]
    fn parts_with_and_without_columns_of_their_own_make_one_batch() {
        let batch = batch(&["", "", ""]);
        let mut out = RowsOut::new(&batch, &[0, 1, 2]);
        out.columns(1, columns(&[0, 0], &["a", "b"])).unwrap();
        out.columns(1, Rows { key: Some(column(&["own"])), ..columns(&[0], &["c"]) }).unwrap();
        let header = HeaderResult { name: "n".to_owned(), value: Some(b"v".to_vec()) };
        let row = |payload: Option<&[u8]>| Row {
            payload: payload.map(<[u8]>::to_vec),
            key: None,
            headers: vec![header.clone()],
        };
        assert!(out.answer(Ok(vec![row(Some(b"d")), row(None)])));
        let made = out.finish(3);
        assert_eq!(told(&made.rows), ["a k0 0 0 0", "b k0 0 0 1", "c own 1 1 0", "d - v 2 0", "- - v 2 1"]);
    }

    #[test]
    fn rows_come_in_the_order_of_their_records_and_those_of_failed_ones_not_at_all() {
        let batch = batch(&["", "", "", ""]);
        let mut out = RowsOut::new(&batch, &[0, 1, 2, 3]);
        let failures = vec![(1, Failure::Reject("bad".to_owned()))];
        let answer = columns(&[3, 0, 1, 3, 0], &["a", "b", "c", "d", "e"]);
        let key = Some(column(&["ka", "kb", "kc", "kd", "ke"]));
        out.columns(4, Rows { failures, key, ..answer }).unwrap();
        let made = out.finish(4);
        assert_eq!(told(&made.rows), ["b kb 0 0 0", "e ke 0 0 1", "a ka 3 3 0", "d kd 3 3 1"]);
        let ranges: Vec<_> = (0..4).map(|position| made.made_from(position)).collect();
        assert_eq!(ranges, [0..2, 2..2, 2..2, 2..4]);
        assert_eq!((made.failures[0].position, &*made.failures[0].reason), (1, "bad"));
    }

    #[test]
    fn an_answer_that_breaks_the_contract_leaves_nothing_behind() {
        let batch = batch(&["", ""]);
        let mut out = RowsOut::new(&batch, &[0, 1]);
        let told = |answer| RowsOut::new(&batch, &[0, 1]).columns(2, answer).unwrap_err();
        let error = told(columns(&[0, 2], &["a", "b"]));
        assert_eq!(error, "its row 1 is made from row 2, and there are 2 rows");
        assert!(told(columns(&[0], &["a", "b"])).contains("payload column is invalid"));
        assert!(
            told(Rows { key: Some(column(&["k"])), ..columns(&[0, 0], &["a", "b"]) }).contains("key column")
        );
        let failures = vec![(2, Failure::Fail(String::new()))];
        assert!(told(Rows { failures, ..columns(&[0], &["a"]) }).contains("names a failure of row 2"));
        assert!(out.columns(2, columns(&[0, 2], &["a", "b"])).is_err());
        assert!(out.answer(Ok(Vec::new())));
        let made = out.finish(1);
        assert_eq!((made.rows.len(), made.failures.len(), made.made_from(1)), (0, 0, 0..0));
    }

    #[test]
    fn answers_together_have_a_bound_that_counts_what_is_inherited() {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        let key = vec![b'k'; 1 << 20];
        for offset in 0..2 {
            builder
                .push(RecordRef {
                    topic: 0,
                    partition: 0,
                    offset: RecordOffset(offset),
                    timestamp_ms: None,
                    key: Some(&key),
                    payload: None,
                    row: "",
                })
                .unwrap();
        }
        let batch = builder.finish();
        let many = || columns(&[0; 1100], &["x"; 1100]);
        // Alone, the rows share their record's key.
        let mut out = RowsOut::new(&batch, &[0]);
        out.columns(1, many()).unwrap();
        assert_eq!(out.finish(1).rows.len(), 1100);
        let mut out = RowsOut::new(&batch, &[0, 1]);
        out.columns(1, many()).unwrap();
        out.columns(1, columns(&[0], &["y"])).unwrap();
        let made = out.finish(2);
        assert_eq!((made.rows.len(), made.failures.len()), (1, 1));
        assert!(made.failures[0].reason.contains("more than 1 GiB"), "{}", made.failures[0].reason);
    }
}
