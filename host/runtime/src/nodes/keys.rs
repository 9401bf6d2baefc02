//! Partitioners: components that make keys, and which records they are asked for.
//!
//! What they answer becomes the new keys. A record keeps its own where there is no answer, and where none is asked for: it
//! then goes on in its turn, so that it does not overtake those that the plugin has.

use std::sync::Arc;

use loom_kafka::Waker;
use loom_plugin::{CallPool, Cause, ChoiceAnswers, PartitionerNode, RowFailure};
use loom_types::{Batch, BytesBuilder};

use super::plugins::{RowAnswers, RowCalls, Said};
use super::waiting::{Answered, Fault, RowAnswer, WaitingCalls};
use crate::rows::{MADE_BYTES, no_room};

/// Which records a partitioner is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// All.
    All,
    /// Those that have no key.
    Missing,
}

impl Keys {
    fn asks_for(self, batch: &Batch, row: u32) -> bool {
        self == Keys::All || batch.key(row).is_none()
    }
}

/// A partitioner that is called on the worker's thread.
pub(super) struct KeyCalls<C> {
    calls: C,
    keys: Keys,
    /// Bytes of the keys of one call, at most.
    room: usize,
}

/// What a partitioner is asked; the seam for tests.
pub(super) trait Choices: Send {
    fn choose(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> ChoiceAnswers;
}

impl Choices for PartitionerNode {
    fn choose(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> ChoiceAnswers {
        self.call_until(batch, rows, allowance)
    }
}

impl<C> KeyCalls<C> {
    pub(super) fn new(calls: C, keys: Keys) -> Self {
        KeyCalls { calls, keys, room: MADE_BYTES }
    }
}

impl<C: Choices> RowCalls for KeyCalls<C> {
    fn call(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> RowAnswers {
        let positions = (0..rows.len()).filter(|at| self.keys.asks_for(batch, rows[*at]));
        let positions: Vec<usize> = positions.collect();
        if positions.is_empty() {
            return RowAnswers { answered: rows.len(), said: Said::Keyed(None), failures: Vec::new() };
        }
        let asked: Vec<u32> = positions.iter().map(|at| rows[*at]).collect();
        let ChoiceAnswers { answered, chosen, failures } = self.calls.choose(batch, &asked, allowance);
        let answered = positions.get(answered as usize).copied().unwrap_or(rows.len());
        let at = |position: u32| positions[position as usize] as u32;
        let failures = failures.into_iter();
        let mut failures: Vec<RowFailure> =
            failures.map(|failure| RowFailure { position: at(failure.position), ..failure }).collect();
        let mut keys = BytesBuilder::with_capacity(rows.len(), chosen.values().len()).within(self.room);
        let mut answers = positions.iter().enumerate().peekable();
        for (position, row) in rows.iter().enumerate() {
            let own = batch.key(*row);
            let key = match answers.next_if(|(_, asked)| **asked == position) {
                Some((answer, _)) => chosen.get(answer).or(own),
                None => own,
            };
            let Err(full) = keys.push_or_null(key) else { continue };
            let failure = RowFailure { position: position as u32, cause: Cause::Fail, reason: no_room(full) };
            let place = failures.binary_search_by_key(&failure.position, |failure| failure.position);
            if let Err(place) = place
                && position < answered
            {
                failures.insert(place, failure);
            }
        }
        RowAnswers { answered, said: Said::Keyed(Some(keys.finish())), failures }
    }
}

/// A partitioner that is called beside the worker.
pub(super) struct WaitingKeys {
    calls: CallPool<ChoiceAnswers>,
    keys: Keys,
    bell: Option<Waker>,
    /// Calls for records that it is not asked for.
    unasked: Vec<u64>,
}

impl WaitingKeys {
    pub(super) fn new(calls: CallPool<ChoiceAnswers>, keys: Keys) -> Self {
        WaitingKeys { calls, keys, bell: None, unasked: Vec::new() }
    }
}

impl WaitingCalls for WaitingKeys {
    fn ring(&mut self, bell: Waker) {
        self.bell = Some(bell.clone());
        self.calls.ring(bell);
    }

    fn start(&mut self, call: u64, batch: &Arc<Batch>, row: u32) {
        if self.keys.asks_for(batch, row) {
            return self.calls.start(call, batch.clone(), row);
        }
        self.unasked.push(call);
        if let Some(bell) = &self.bell {
            bell();
        }
    }

    fn answers(&mut self, out: &mut Vec<Answered>) {
        out.extend(self.unasked.drain(..).map(|call| Answered { call, verdict: Ok(RowAnswer::Keyed(None)) }));
        self.calls.take_answers(|call, answer| {
            let verdict = match answer {
                Ok(ChoiceAnswers { chosen, .. }) => {
                    Ok(RowAnswer::Keyed(Some(chosen).filter(|chosen| chosen.get(0).is_some())))
                }
                Err(fault) => Err(Fault { cause: fault.cause, reason: fault.reason, waited: fault.waited }),
            };
            out.push(Answered { call, verdict });
        });
    }

    fn abandon(&mut self, call: u64) {
        self.unasked.retain(|other| *other != call);
        self.calls.abandon(call);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loom_plugin::{Cause, ChoiceAnswers, RowFailure};
    use loom_types::{Batch, BatchBuilder, BytesBuilder, RecordOffset, RecordRef};

    use super::{Choices, KeyCalls, Keys};
    use crate::nodes::plugins::{RowAnswers, RowCalls, Said};

    /// Answers with a record's payload, and none for `-`; fails on `!`; answers for so many rows at most.
    struct Payloads(usize);

    impl Choices for Payloads {
        fn choose(&mut self, batch: &Batch, rows: &[u32], _: u32) -> ChoiceAnswers {
            let (mut chosen, mut failures) = (BytesBuilder::new(), Vec::new());
            for (position, row) in rows.iter().enumerate() {
                let payload = batch.payload(*row).filter(|_| position < self.0);
                if payload == Some(b"!") {
                    let (position, reason) = (position as u32, "no".to_owned());
                    failures.push(RowFailure { position, cause: Cause::Fail, reason });
                }
                chosen.push(payload.filter(|payload| !matches!(*payload, b"-" | b"!"))).unwrap();
            }
            let answered = self.0.min(rows.len()) as u32;
            ChoiceAnswers { answered, chosen: chosen.finish(), failures }
        }
    }

    /// Each record a payload and a key.
    fn call(keys: Keys, most: usize, records: &[(&str, Option<&str>)]) -> (RowAnswers, Vec<Option<String>>) {
        call_within(KeyCalls::new(Payloads(most), keys), records)
    }

    fn call_within(
        mut calls: KeyCalls<Payloads>,
        records: &[(&str, Option<&str>)],
    ) -> (RowAnswers, Vec<Option<String>>) {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        for (offset, (payload, key)) in records.iter().enumerate() {
            builder
                .push(RecordRef {
                    topic: 0,
                    partition: 0,
                    offset: RecordOffset(offset as i64),
                    timestamp_ms: None,
                    key: key.map(str::as_bytes),
                    payload: Some(payload.as_bytes()),
                    row: "",
                })
                .unwrap();
        }
        let batch = builder.finish();
        let rows: Vec<u32> = (0..records.len() as u32).collect();
        let answers = calls.call(&batch, &rows, u32::MAX);
        let text = |key: Option<&[u8]>| key.map(|key| String::from_utf8(key.to_vec()).unwrap());
        let keys = match &answers.said {
            Said::Keyed(Some(keys)) => rows.iter().map(|row| text(keys.get(*row as usize))).collect(),
            Said::Keyed(None) => rows.iter().map(|row| text(batch.key(*row))).collect(),
            other => panic!("{other:?}"),
        };
        (answers, keys)
    }

    fn keys(keys: &[&str]) -> Vec<Option<String>> {
        keys.iter().map(|key| (!key.is_empty()).then(|| (*key).to_owned())).collect()
    }

    #[test]
    fn a_key_that_has_no_room_is_its_records_error() {
        let calls = |most| KeyCalls { calls: Payloads(most), keys: Keys::Missing, room: 7 };
        let records = [
            ("!", None),
            ("a", Some("own")),
            ("long", None),
            ("too long", None),
            ("x", Some("none")),
            ("", None),
        ];
        let (answers, keyed) = call_within(calls(9), &records);
        assert_eq!(
            keyed,
            [None, Some("own"), Some("long"), None, None, Some("")].map(|key| key.map(str::to_owned))
        );
        let failed: Vec<u32> = answers.failures.iter().map(|failure| failure.position).collect();
        assert_eq!((failed, answers.answered), (vec![0, 3, 4], 6));
        assert!(answers.failures[1].reason.contains("no room"), "{:?}", answers.failures);
        // Of those that were not asked for any more nothing is said.
        let (answers, _) = call_within(calls(2), &records);
        let failed: Vec<u32> = answers.failures.iter().map(|failure| failure.position).collect();
        assert_eq!((failed, answers.answered), (vec![0], 3));
    }

    #[test]
    fn who_is_asked_and_what_no_answer_means() {
        let records = [("new", Some("old")), ("-", Some("old")), ("new", None), ("-", None)];
        for (which, expected) in
            [(Keys::All, ["new", "old", "new", ""]), (Keys::Missing, ["old", "old", "new", ""])]
        {
            let (answers, found) = call(which, 9, &records);
            assert_eq!((found, answers.answered), (keys(&expected), 4), "{which:?}");
        }
        let (answers, _) = call(Keys::Missing, 9, &records[..2]);
        assert!(matches!(answers.said, Said::Keyed(None)));
    }

    #[test]
    fn failures_and_an_early_end_are_those_of_the_rows_that_were_asked_for() {
        let records = [("a", Some("old")), ("!", None), ("b", Some("old")), ("c", None), ("d", None)];
        let (answers, _) = call(Keys::Missing, 2, &records);
        assert_eq!((answers.answered, answers.failures.len()), (4, 1));
        assert_eq!((answers.failures[0].position, &*answers.failures[0].reason), (1, "no"));
        let (answers, _) = call(Keys::Missing, 0, &records);
        assert_eq!(answers.answered, 1);
    }
}
