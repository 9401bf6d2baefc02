//! Writing: refusals, a client that breaks, a stop while nothing is acknowledged.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use loom_kafka::{Ack, Broker, KafkaError, Kind, OutputIndex, Stamp};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::support::{PATIENCE, broker, mock, output, read, write};

fn refusal(ack: &Ack) -> &KafkaError {
    match ack {
        Ack::Refused(refusal) => &refusal.error,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_record_that_the_client_refuses_is_answered_alone() {
    let cluster = mock("out");
    let broker = broker(&cluster);
    let mut writing = write(&broker, &[output(&cluster, "out", &[("message.max.bytes", "2000")])]);
    writing.send(&[b"small", &[7; 3000], b"small"]);
    let acks = writing.settle(3);
    assert!(matches!((&acks[&0], &acks[&2]), (Ack::Written, Ack::Written)), "{acks:?}");
    let error = refusal(&acks[&1]);
    assert_eq!((error.kind, error.code), (Kind::Refused, "MSG_SIZE_TOO_LARGE"));
    assert!(error.message.contains("out"), "{error}");
}

#[test]
fn a_refusal_of_the_broker_is_told_with_its_kind() {
    for (code, kind) in [
        (RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, Kind::Authorization),
        (RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_RECORD, Kind::Refused),
        (RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, Kind::Refused),
    ] {
        let cluster = mock("out");
        let broker = broker(&cluster);
        let mut writing = write(&broker, &[output(&cluster, "out", &[])]);
        cluster.request_errors(RDKafkaApiKey::Produce, &[code]);
        writing.send(&[b"one"]);
        let acks = writing.settle(1);
        assert_eq!(refusal(&acks[&0]).kind, kind, "{acks:?}");
    }
}

#[test]
fn of_two_batches_under_way_each_gets_back_its_own_rows() {
    let cluster = mock("out");
    let broker = broker(&cluster);
    // Each record in a request of its own; the second one is refused.
    let mut writing = write(&broker, &[output(&cluster, "out", &[("batch.num.messages", "1")])]);
    let codes =
        [RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR, RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_RECORD];
    cluster.request_errors(RDKafkaApiKey::Produce, &codes);
    let (first, mut tokens) = writing.batch(&[b"one"]);
    let (second, more) = writing.batch(&[b"two"]);
    tokens.extend(more);
    for batch in [&first, &second] {
        assert_eq!(writing.sink.send(OutputIndex(0), batch, &[0], Stamp::Source, &mut tokens), 1);
    }
    assert_eq!(writing.sink.in_flight(), 2, "neither has its answer");
    let acks = writing.settle(2);
    let Ack::Refused(refusal) = &acks[&1] else { panic!("{acks:?}") };
    assert!(matches!(acks[&0], Ack::Written), "{acks:?}");
    assert_eq!(refusal.batch.payload(refusal.row), Some(&b"two"[..]));
    assert!(std::sync::Arc::ptr_eq(&refusal.batch, &second));
}

#[test]
fn a_broker_that_is_away_for_a_while_refuses_nothing() {
    let cluster = mock("out");
    let broker = broker(&cluster);
    let mut writing = write(&broker, &[output(&cluster, "out", &[])]);
    let codes = [
        RDKafkaRespErr::RD_KAFKA_RESP_ERR__TRANSPORT,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
    ];
    cluster.request_errors(RDKafkaApiKey::Produce, &codes);
    writing.send(&[b"one", b"two"]);
    let acks = writing.settle(2);
    assert!(acks.values().all(|ack| matches!(ack, Ack::Written)), "{acks:?}");
}

#[test]
fn a_full_queue_takes_a_part_and_wakes_when_there_is_room() {
    let cluster = mock("out");
    let broker = broker(&cluster);
    let few = [("queue.buffering.max.messages", "10")];
    let mut writing = write(&broker, &[output(&cluster, "out", &few)]);
    let (batch, mut tokens) = writing.batch(&[b"x".as_slice(); 200]);
    let rows: Vec<u32> = (0..200).collect();
    let (mut sent, mut parts, mut acks) = (0, 0, BTreeMap::new());
    let signal = writing.signal.clone();
    signal.until("room in the queue", || {
        let more = writing.sink.send(OutputIndex(0), &batch, &rows[sent..], Stamp::Now, &mut tokens);
        (sent, parts) = (sent + more, parts + usize::from(more > 0));
        assert_eq!(tokens.len(), 200 - sent);
        writing.acks(&mut acks);
        (acks.len() == 200).then_some(())
    });
    assert!(parts > 1, "ten at most at a time");
    assert!(acks.values().all(|ack| matches!(ack, Ack::Written)));
}

#[test]
fn a_close_that_cannot_wait_gives_every_row_back_unknown() {
    let cluster = mock("out");
    let broker = broker(&cluster);
    let mut writing = write(&broker, &[output(&cluster, "out", &[])]);
    cluster.broker_down(1).unwrap();
    writing.send(&[b"one", b"two", b"three"]);
    let began = Instant::now();
    writing.sink.close(Duration::from_millis(300));
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    let mut acks = BTreeMap::new();
    writing.acks(&mut acks);
    assert_eq!(acks.len(), 3);
    assert!(acks.values().all(|ack| matches!(ack, Ack::Unknown)), "{acks:?}");
    assert_eq!(writing.sink.in_flight(), 0);

    let (batch, mut tokens) = writing.batch(&[b"late"]);
    assert_eq!(writing.sink.send(OutputIndex(0), &batch, &[0], Stamp::Now, &mut tokens), 0);
    tokens.drain(..).for_each(loom_delivery::Token::give_up);
}

#[test]
fn a_close_waits_for_a_batch_that_lingers_and_no_longer() {
    let cluster = mock("out");
    let broker = broker(&cluster);
    let mut writing = write(&broker, &[output(&cluster, "out", &[("linger.ms", "60000")])]);
    writing.send(&[b"one", b"two"]);
    let began = Instant::now();
    writing.sink.close(PATIENCE);
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    let mut acks = BTreeMap::new();
    writing.acks(&mut acks);
    assert!(acks.len() == 2 && acks.values().all(|ack| matches!(ack, Ack::Written)), "{acks:?}");
}

#[test]
fn a_flush_sends_what_lingers_without_waiting_for_it() {
    let cluster = mock("out");
    let broker = broker(&cluster);
    let mut writing = write(&broker, &[output(&cluster, "out", &[("linger.ms", "900000")])]);
    writing.sink.flush();
    writing.send(&[b"one", b"two"]);
    let (mut acks, begun) = (BTreeMap::new(), Instant::now());
    while acks.len() < 2 {
        assert!(begun.elapsed() < PATIENCE, "{} of 2 rows were acknowledged", acks.len());
        let called = Instant::now();
        writing.sink.flush();
        assert!(called.elapsed() < Duration::from_secs(5), "a flush waits for nothing");
        let seen = writing.signal.calls();
        writing.acks(&mut acks);
        if acks.len() < 2 {
            writing.signal.wait(seen, Duration::from_millis(50));
        }
    }
    assert!(acks.values().all(|ack| matches!(ack, Ack::Written)), "{acks:?}");
}

#[test]
fn a_close_sends_what_one_client_holds_back_while_another_reaches_no_broker() {
    let (away, there) = (mock("away"), mock("out"));
    let broker = broker(&there);
    let lingers = [("linger.ms", "900000")];
    let mut writing = write(&broker, &[output(&away, "away", &[]), output(&there, "out", &lingers)]);
    away.broker_down(1).unwrap();
    writing.send_to(OutputIndex(0), &[b"lost"]);
    writing.send_to(OutputIndex(1), &[b"one", b"two"]);
    writing.sink.close(Duration::from_secs(3));
    let mut acks = BTreeMap::new();
    writing.acks(&mut acks);
    assert!(matches!(acks[&0], Ack::Unknown), "{acks:?}");
    assert!(matches!((&acks[&1], &acks[&2]), (Ack::Written, Ack::Written)), "{acks:?}");
}

#[test]
fn a_record_keeps_every_time_that_it_can_carry() {
    let cluster = mock("out");
    let broker = broker(&cluster);
    let mut writing = write(&broker, &[output(&cluster, "out", &[])]);
    let times = [Some(0), Some(1), None, Some(0), Some(1_700_000_000_000), Some(-1)];
    let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64;
    writing.send_at(&times);
    assert!(writing.settle(times.len()).values().all(|ack| matches!(ack, Ack::Written)));
    let mut reading = read(&broker, "out", 0);
    reading.until("all records", |taken| taken.end.map(drop));
    let read = reading.builder.finish();
    let read: Vec<_> = (0..times.len() as u32).map(|row| read.source(row).timestamp_ms).collect();
    let of_the_clock = |time: Option<i64>| time.is_some_and(|time| time >= began - 1000);
    assert_eq!((read[0], read[1], read[3], read[4]), (Some(0), Some(1), Some(0), times[4]));
    assert!(of_the_clock(read[2]) && of_the_clock(read[5]), "{read:?}");
}

#[test]
fn a_producer_that_breaks_says_so_and_knows_nothing_of_its_rows() {
    let cluster = mock("out");
    let broker = broker(&cluster);
    let mut writing = write(&broker, &[output(&cluster, "out", &[])]);
    let lost = RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    cluster.request_errors(RDKafkaApiKey::Produce, &[lost; 5]);
    writing.send(&[b"one"]);
    let mut errors = Vec::new();
    let signal = writing.signal.clone();
    signal.until("a fatal error", || {
        writing.sink.client_errors(&mut errors);
        errors.iter().any(|error| error.kind == Kind::Fatal).then_some(())
    });
    let acks = writing.settle(1);
    assert!(matches!(acks[&0], Ack::Unknown), "{acks:?}");
    writing.send(&[b"two"]);
    let acks = writing.settle(1);
    assert!(matches!(acks[&1], Ack::Unknown), "a broken client accepts no row: {acks:?}");
}

#[test]
fn outputs_with_equal_producers_share_a_client_and_keep_their_tokens_apart() {
    let cluster = mock("a");
    cluster.create_topic("b", 1, 1).unwrap();
    let broker = broker(&cluster);
    let outputs = [output(&cluster, "a", &[]), output(&cluster, "b", &[])];
    assert!(broker.output_topics(&outputs, PATIENCE).unwrap().iter().all(Result::is_ok));
    let mut writing = write(&broker, &outputs);
    let (batch, mut tokens) = writing.batch(&[b"0", b"1", b"2", b"3"]);
    for output in [0, 1] {
        let rows = [output * 2, output * 2 + 1];
        let to = OutputIndex(output as usize);
        assert_eq!(writing.sink.send(to, &batch, &rows, Stamp::Now, &mut tokens), 2);
    }
    let mut seen = Vec::new();
    let signal = writing.signal.clone();
    signal.until("four acknowledgements", || {
        let mut acks = Vec::new();
        writing.sink.acks(&mut acks);
        for (output, token, ack) in acks {
            assert!(matches!(ack, Ack::Written));
            seen.push(output.0);
            token.give_up();
        }
        (seen.len() == 4).then_some(())
    });
    seen.sort_unstable();
    assert_eq!(seen, [0, 0, 1, 1]);
}

#[test]
fn an_output_whose_producer_has_brokers_of_its_own_is_written_there() {
    let (ours, theirs) = (mock("other"), mock("audit.v2"));
    let mut writing = write(&broker(&ours), &[output(&theirs, "audit.v2", &[]), output(&ours, "other", &[])]);
    writing.send_to(OutputIndex(0), &[b"audited"]);
    writing.send_to(OutputIndex(1), &[b"passed on"]);
    let acks = writing.settle(2);
    assert!(acks.values().all(|ack| matches!(ack, Ack::Written)), "{acks:?}");
    for (cluster, topic, payload) in
        [(&theirs, "audit.v2", b"audited".as_slice()), (&ours, "other", b"passed on")]
    {
        let mut reading = read(&broker(cluster), topic, 0);
        reading.until("the record", |taken| (taken.rows > 0).then_some(()));
        assert_eq!(reading.builder.finish().payload(0), Some(payload), "{topic}");
    }
}
