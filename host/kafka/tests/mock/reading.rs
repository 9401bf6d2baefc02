//! Reading: budgets against records of very different sizes, and what a partition's queue says beside records.

use loom_kafka::{Broker, Budget, Kind, Notice};
use loom_types::CommitOffset;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::support::{broker, fill, mock, read};

#[test]
fn what_was_read_and_does_not_fit_comes_first_at_the_next_take() {
    let cluster = mock("in");
    // Small ones first, so that many are read at a time when the large ones come.
    let sizes: Vec<usize> = (0..90).map(|n| if n < 60 || n % 10 == 9 { 10 } else { 20_000 }).collect();
    fill(&cluster, &sizes);
    let broker = broker(&cluster);
    let mut reading = read(&broker, "in", 0);
    let budget = Budget { rows: 70, bytes: 50_000 };
    let (mut offsets, mut end, mut takes) = (Vec::new(), None, 0);
    let signal = reading.signal.clone();
    signal.until("all records", || {
        loop {
            let taken = reading.take(budget);
            let batch = reading.builder.finish();
            assert_eq!(batch.len(), taken.rows);
            let bytes: usize = (0..batch.len() as u32).map(|row| batch.row_bytes(row)).sum();
            assert!(
                batch.len() <= budget.rows && bytes <= budget.bytes,
                "{} rows, {bytes} bytes",
                batch.len()
            );
            for row in 0..batch.len() as u32 {
                let offset = batch.source(row).offset.0;
                let payload = batch.payload(row).unwrap();
                assert_eq!(payload.len(), sizes[offset as usize]);
                assert!(payload.iter().all(|byte| i64::from(*byte) == offset));
                offsets.push(offset);
            }
            takes += usize::from(taken.rows > 0);
            end = taken.end.or(end);
            if !taken.more {
                break;
            }
        }
        end.map(|_| ())
    });
    assert_eq!(offsets, (0..90).collect::<Vec<_>>(), "in order, each once");
    assert_eq!(end, Some(CommitOffset(90)));
    assert!(takes >= 10, "27 records of 20 kB need more takes than {takes}");
}

#[test]
fn a_record_above_the_budget_goes_alone() {
    let cluster = mock("in");
    fill(&cluster, &[10, 5000, 10]);
    let broker = broker(&cluster);
    let mut reading = read(&broker, "in", 0);
    let budget = Budget { rows: 100, bytes: 1000 };
    let mut batches = Vec::new();
    let signal = reading.signal.clone();
    signal.until("three records", || {
        loop {
            let taken = reading.take(budget);
            let rows = reading.builder.finish().len();
            if rows > 0 {
                batches.push(rows);
            }
            if !taken.more {
                break;
            }
        }
        (batches.iter().sum::<usize>() == 3).then_some(())
    });
    // How many come with a fetch is the broker's affair; the large one shares its batch with none.
    assert_eq!(batches, [1, 1, 1]);
}

#[test]
fn no_room_takes_nothing_and_promises_more() {
    let cluster = mock("in");
    fill(&cluster, &[10]);
    let broker = broker(&cluster);
    let mut reading = read(&broker, "in", 0);
    let taken = reading.take(Budget { rows: 0, bytes: 1000 });
    assert!(taken.more && taken.rows == 0 && taken.position.is_none());
}

#[test]
fn a_partition_that_may_not_be_read_says_so() {
    let cluster = mock("in");
    fill(&cluster, &[10]);
    let denied = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.request_errors(RDKafkaApiKey::Fetch, &[denied; 3]);
    let broker = broker(&cluster);
    let mut reading = read(&broker, "in", 0);
    let notice = reading.until("a notice", |taken| taken.notice.as_ref().map(|notice| format!("{notice:?}")));
    assert!(notice.contains("TOPIC_AUTHORIZATION_FAILED"), "{notice}");
    // It can pass: reading goes on by itself when it does.
    cluster.clear_request_errors(RDKafkaApiKey::Fetch);
    let rows = reading.until("the record", |taken| (taken.rows > 0).then_some(taken.rows));
    assert_eq!(rows, 1);
}

#[test]
fn a_start_outside_of_the_partition_waits_for_a_seek() {
    let cluster = mock("in");
    fill(&cluster, &[10, 10, 10]);
    let broker = broker(&cluster);
    let mut reading = read(&broker, "in", 1000);
    let out = reading.until("a notice", |taken| match &taken.notice {
        Some(Notice::OutOfRange) => Some(true),
        Some(Notice::Cut { .. } | Notice::Broken { .. } | Notice::Failed(_)) => Some(false),
        None => None,
    });
    assert!(out);
    assert_eq!(reading.take(crate::support::WIDE).rows, 0);
    reading.reader.source.seek(loom_types::PartitionId(0), CommitOffset(1), None).unwrap();
    let mut rows = 0;
    let end = reading.until("the end", |taken| {
        rows += taken.rows;
        taken.end
    });
    assert_eq!((rows, end), (2, CommitOffset(3)));
}

#[test]
fn brokers_that_go_away_are_errors_of_the_client_and_reading_goes_on_when_they_return() {
    let cluster = mock("in");
    fill(&cluster, &[10]);
    let broker = broker(&cluster);
    let mut reading = read(&broker, "in", 0);
    reading.until("the record", |taken| (taken.rows > 0).then_some(()));
    cluster.broker_down(1).unwrap();
    let signal = reading.signal.clone();
    let mut errors = Vec::new();
    signal.until("an error of the client", || {
        reading.reader.source.client_errors(&mut errors);
        (!errors.is_empty()).then_some(())
    });
    assert!(errors.iter().all(|error| error.kind == Kind::Transient), "{errors:?}");
    cluster.broker_up(1).unwrap();
    fill(&cluster, &[10]);
    reading.until("the next record", |taken| (taken.rows > 0).then_some(()));
    drop(broker.topic_names(crate::support::PATIENCE).unwrap());
}

#[test]
fn the_end_of_a_partition_says_where_its_log_ends() {
    let cluster = mock("in");
    fill(&cluster, &[10, 10, 10]);
    let broker = broker(&cluster);
    let mut reading = read(&broker, "in", 0);
    let ends = reading.until("the end", |taken| taken.end.map(|end| (end, taken.log_end)));
    assert_eq!(ends, (CommitOffset(3), Some(CommitOffset(3))));
    let partition = loom_types::TopicPartition::new("in", 0);
    assert_eq!(broker.log_end(&partition, crate::support::PATIENCE).unwrap(), CommitOffset(3));
}
