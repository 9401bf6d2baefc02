//! Envelopes that go round, and their raw form.

use std::sync::Arc;

use loom_delivery::{Accounts, Token};
use loom_types::{Batch, BatchBuilder, CommitOffset, Ending, ErrorKind, RecordOffset, RecordRef};

use super::json::{Bytes, Envelope};
use super::{Site, dead_letter, envelopes_within, raw_form, reason_of};
use crate::rows::{FailedRow, Row};

const SITE: Site<'static> =
    Site { flow: "flow", node: "process[0]", name: Some("first"), plugin: None, failed_at_ms: 99 };

const PAYLOAD: &[u8] = b"\x00\xffpayload";

fn batch(payload: Option<&[u8]>, headers: &[(&str, &str)]) -> Batch {
    let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
    for (name, value) in headers {
        builder.header(name.as_bytes(), Some(value.as_bytes()));
    }
    builder
        .push(RecordRef {
            topic: 0,
            partition: 3,
            offset: RecordOffset(7),
            timestamp_ms: Some(1234),
            key: Some(b"\xfekey"),
            payload,
            row: "",
        })
        .unwrap();
    builder.finish()
}

/// The row's headers, as texts.
fn headers(batch: &Batch) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    batch.headers(0).map(|(name, value)| (text(name), text(value.unwrap_or_default()))).collect()
}

fn header(batch: &Batch, name: &str) -> Option<String> {
    let mut found = headers(batch).into_iter().filter(|(other, _)| other == name).map(|(_, value)| value);
    let first = found.next();
    assert_eq!(found.next(), None, "{name} is there once");
    first
}

/// The envelope of the batch's only row, after a failure of its first attempt.
fn fail(batch: Batch, reason: &str) -> Batch {
    let mut accounts = Accounts::tracked();
    let partition = accounts.add_partition(CommitOffset(0), None);
    let token: Token = accounts.register(partition, RecordOffset(7), 0);
    let row = Row::new(Arc::new(batch), 0, token, None, 1);
    let failed = vec![FailedRow { row, kind: ErrorKind::Task, reason: reason.to_owned() }];
    let batch = super::envelopes(&SITE, &failed);
    failed.into_iter().for_each(|failed| accounts.redeem(failed.row.token, Ending::Drained));
    batch
}

#[test]
fn an_envelope_that_fails_again_keeps_its_record_and_counts_on() {
    let first = fail(batch(Some(PAYLOAD), &[("h", "v")]), "first");
    let size = |batch: &Batch| batch.row_bytes(0);
    let mut round = first.clone();
    for attempt in 2..=300_u32 {
        round = fail(round, "again");
        let envelope = Envelope::read(round.payload(0).unwrap()).unwrap();
        assert_eq!((envelope.attempt, &*envelope.reason), (attempt, "again"));
        assert_eq!(envelope.record.payload, Bytes(Some(PAYLOAD.into())));
        assert_eq!(header(&round, "loom-error-attempt"), Some(attempt.to_string()));
    }
    // The attempt has two more digits, in the payload and in its header; all else is as long as it was.
    assert_eq!(size(&round), size(&first) + 4);
    let envelope = Envelope::read(round.payload(0).unwrap()).unwrap();
    assert_eq!((envelope.record.offset, envelope.record.timestamp_ms), (7, Some(1234)));
    assert_eq!(envelope.record.key, Bytes(Some(b"\xfekey"[..].into())));
    assert_eq!(envelope.record.headers, [(Bytes(Some(b"h"[..].into())), Bytes(Some(b"v"[..].into())))]);
}

#[test]
fn a_record_that_was_taken_out_of_its_envelope_is_counted_by_its_header() {
    let first = fail(batch(Some(PAYLOAD), &[("h", "v")]), "first");
    let carried: Vec<(String, String)> = headers(&first);
    let carried: Vec<(&str, &str)> = carried.iter().map(|(name, value)| (&**name, &**value)).collect();
    let again = fail(batch(Some(PAYLOAD), &carried), "second");
    let envelope = Envelope::read(again.payload(0).unwrap()).unwrap();
    assert_eq!(envelope.attempt, 2);
    assert_eq!(envelope.record.headers.len(), 1, "failures are no part of the record");
}

#[test]
fn what_only_looks_like_an_envelope_is_a_record() {
    for payload in [
        &b"{\"loom_error\":1}"[..],
        b"{\"loom_error\":2,\"kind\":\"task\"}",
        b"[\"loom_error\"]",
        b"{\"text\":\"\\\"loom_error\\\"\"}",
        b"{\"loom_error\":1",
    ] {
        assert!(Envelope::read(payload).is_none());
        let failed = fail(batch(Some(payload), &[]), "r");
        let envelope = Envelope::read(failed.payload(0).unwrap()).unwrap();
        assert_eq!(envelope.record.payload, Bytes(Some(payload.into())));
    }
}

#[test]
fn the_raw_form_has_the_records_bytes_and_every_fact() {
    let failed = fail(batch(Some(PAYLOAD), &[("h", "v")]), "broken");
    let raw = raw_form(&failed, 0).unwrap();
    assert_eq!((raw.payload(0), raw.key(0)), (Some(PAYLOAD), Some(&b"\xfekey"[..])));
    let expected = [
        ("h", "v"),
        ("loom-error-kind", "task"),
        ("loom-error-reason", "broken"),
        ("loom-error-attempt", "1"),
        ("loom-error-timestamp", "99"),
        ("loom-error-flow", "flow"),
        ("loom-error-node", "process[0]"),
        ("loom-error-node-name", "first"),
        ("loom-error-topic", "in"),
        ("loom-error-partition", "3"),
        ("loom-error-offset", "7"),
        ("loom-error-record-timestamp", "1234"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(headers(&raw), expected);
    assert!(raw_form(&raw, 0).is_none(), "it has no smaller form");
    // Who reads it and fails wraps the record, not its failure.
    let again = fail(raw, "again");
    let envelope = Envelope::read(again.payload(0).unwrap()).unwrap();
    assert_eq!((envelope.attempt, envelope.record.headers.len()), (2, 1));
    assert_eq!(headers(&again).len(), 5);
}

#[test]
fn a_tombstone_is_no_text() {
    let failed = fail(batch(None, &[]), "r");
    assert_eq!(Envelope::read(failed.payload(0).unwrap()).unwrap().record.payload, Bytes(None));
    assert_eq!(raw_form(&failed, 0).unwrap().payload(0), None);
}

#[test]
fn a_dead_letter_is_the_record_with_its_time_in_a_header() {
    let mut letter =
        dead_letter(&batch(Some(PAYLOAD), &[("h", "v"), ("loom-error-kind", "old")]), 0, "too large", 1);
    assert_eq!((letter.payload(0), letter.key(0)), (Some(PAYLOAD), Some(&b"\xfekey"[..])));
    let size = headers(&letter).len();
    assert_eq!(header(&letter, "loom-error-kind").as_deref(), Some("delivery"));
    assert_eq!(header(&letter, "loom-error-timestamp").as_deref(), Some("1234"));
    assert_eq!(reason_of(&letter, 0).as_deref(), Some("too large"));
    for attempt in 2..=300 {
        letter = dead_letter(&letter, 0, "too large", 1);
        assert_eq!(header(&letter, "loom-error-attempt"), Some(attempt.to_string()));
    }
    assert_eq!(headers(&letter).len(), size);
}

/// Failures of rows of these sizes, one batch.
fn failures(accounts: &mut Accounts, sizes: &[usize]) -> Vec<FailedRow> {
    let partition = accounts.add_partition(CommitOffset(0), None);
    let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
    for (offset, size) in sizes.iter().enumerate() {
        builder.header(b"h", Some(b"v"));
        let (offset, payload) = (RecordOffset(offset as i64), vec![b'x'; *size]);
        let (key, payload) = (Some(&b"k"[..]), Some(&payload[..]));
        let record = RecordRef { topic: 0, partition: 3, offset, timestamp_ms: None, key, payload, row: "" };
        builder.push(record).unwrap();
    }
    let batch = Arc::new(builder.finish());
    let row = |id: usize| {
        let token = accounts.register(partition, RecordOffset(id as i64), 0);
        Row::new(batch.clone(), id as u32, token, None, 1)
    };
    let rows: Vec<Row> = (0..sizes.len()).map(row).collect();
    rows.into_iter().map(|row| FailedRow { row, kind: ErrorKind::Task, reason: "r".to_owned() }).collect()
}

#[test]
fn error_rows_go_in_batches_of_a_bounded_size_and_each_goes() {
    let mut accounts = Accounts::tracked();
    let failed = failures(&mut accounts, &[10, 10, 5000, 10, 10]);
    let mut left = &failed[..];
    let mut sizes = Vec::new();
    while !left.is_empty() {
        let batch = envelopes_within(&SITE, left, 1500, usize::MAX);
        for row in 0..batch.len() as u32 {
            let envelope = Envelope::read(batch.payload(row).unwrap()).unwrap();
            let id = left[row as usize].row.id;
            assert_eq!(envelope.record.offset, i64::from(id));
            assert_eq!(batch.source(row).offset.0, i64::from(id));
        }
        sizes.push(batch.len());
        left = &left[batch.len()..];
    }
    assert!(sizes.len() > 2 && sizes.iter().sum::<usize>() == 5, "{sizes:?}");
    failed.into_iter().for_each(|failed| accounts.redeem(failed.row.token, Ending::Drained));
}

#[test]
fn a_record_whose_envelope_would_be_too_large_goes_in_its_raw_form() {
    let mut accounts = Accounts::tracked();
    let failed = failures(&mut accounts, &[10, 5000]);
    let batch = envelopes_within(&SITE, &failed, usize::MAX, 1000);
    assert!(Envelope::read(batch.payload(0).unwrap()).is_some());
    assert_eq!(batch.payload(1), Some(&vec![b'x'; 5000][..]));
    let second = batch.select(&[1]);
    assert_eq!(header(&second, "loom-error-offset").as_deref(), Some("1"));
    assert_eq!(header(&second, "loom-error-kind").as_deref(), Some("task"));
    assert_eq!(header(&second, "h").as_deref(), Some("v"));
    failed.into_iter().for_each(|failed| accounts.redeem(failed.row.token, Ending::Drained));
}
