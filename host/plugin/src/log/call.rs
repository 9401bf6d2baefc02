//! The call under way, as the log sees it: which record it is for, and the last lines that it wrote.

use std::collections::VecDeque;

use loom_types::Batch;

use super::cut;

/// Lines of a call that are kept, at most.
const LINES: usize = 16;

/// Bytes of a line that are kept, at most.
const LINE: usize = 1 << 10;

/// Bytes of all of them, at most.
const BYTES: usize = 2 << 10;

/// Where a record comes from; of a call for several, the first of them.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    /// Which of the rows that were made of the record; empty where it is the record itself.
    pub row: String,
    /// How many records the call is for.
    pub records: usize,
}

/// See the module's description. Room is used again from call to call: there are as many calls as records.
#[derive(Debug, Default)]
pub(super) struct Call {
    place: Place,
    lines: VecDeque<String>,
    bytes: usize,
}

impl Call {
    pub(super) fn begin(&mut self, about: Option<(&Batch, &[u32])>) {
        self.lines.clear();
        self.bytes = 0;
        let Place { topic, partition, offset, row, records } = &mut self.place;
        topic.clear();
        row.clear();
        *records = 0;
        if let Some((batch, rows)) = about
            && let Some(first) = rows.first()
        {
            let source = batch.source(*first);
            topic.push_str(source.topic);
            row.push_str(source.row);
            (*partition, *offset, *records) = (source.partition, source.offset.0, rows.len());
        }
    }

    /// The record that the call is for; none where it is for none in particular.
    pub(super) fn place(&self) -> Option<&Place> {
        (self.place.records > 0).then_some(&self.place)
    }

    /// It wrote a line.
    pub(super) fn wrote(&mut self, line: &str) {
        let mut kept = if self.lines.len() == LINES { self.let_go() } else { String::new() };
        kept.clear();
        kept.push_str(cut(line.trim(), LINE));
        self.bytes += kept.len();
        self.lines.push_back(kept);
        while self.bytes > BYTES {
            self.let_go();
        }
    }

    fn let_go(&mut self) -> String {
        let oldest = self.lines.pop_front().unwrap_or_default();
        self.bytes -= oldest.len();
        oldest
    }

    /// The last lines as one.
    pub(super) fn last_lines(&self) -> Option<String> {
        // What Rust adds to every panic is no use here: the variable is not the guest's to set.
        let lines = self.lines.iter().filter(|line| !line.starts_with("note: run with `RUST_BACKTRACE=1`"));
        let lines: Vec<&str> = lines.map(String::as_str).collect();
        (!lines.is_empty()).then(|| lines.join(" | "))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loom_types::{BatchBuilder, RecordOffset, RecordRef};

    use super::{BYTES, Call, LINES};

    #[test]
    fn the_newest_lines_are_kept_within_bounds() {
        let mut call = Call::default();
        (0..100).for_each(|n| call.wrote(&format!("line {n}")));
        let kept = call.last_lines().unwrap();
        assert!(kept.starts_with("line 84 | line 85") && kept.ends_with("line 99"), "{kept}");
        assert_eq!(kept.split(" | ").count(), LINES);
        (0..3).for_each(|_| call.wrote(&"é".repeat(5000)));
        call.wrote("the end");
        let kept = call.last_lines().unwrap();
        assert!(kept.len() <= BYTES + 4 * LINES && kept.ends_with(" | the end"), "{}", kept.len());
        call.begin(None);
        assert_eq!(call.last_lines(), None);
    }

    #[test]
    fn a_call_is_for_the_first_of_its_rows() {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("orders")]));
        for offset in 7..10 {
            builder
                .push(RecordRef {
                    topic: 0,
                    partition: 2,
                    offset: RecordOffset(offset),
                    timestamp_ms: None,
                    key: None,
                    payload: None,
                    row: "",
                })
                .unwrap();
        }
        let batch = builder.finish();
        let mut call = Call::default();
        assert!(call.place().is_none());
        call.begin(Some((&batch, &[1, 2])));
        let place = call.place().unwrap();
        assert_eq!((&*place.topic, place.partition, place.offset, place.records), ("orders", 2, 8, 2));
        call.begin(Some((&batch, &[])));
        assert!(call.place().is_none());
    }
}
