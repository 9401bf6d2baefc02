//! Queues against a client that answers as the test says, at times that the test says.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use loom_delivery::{Accounts, Token};
use loom_flow::plan::{OutputId, OutputPlan, Security};
use loom_kafka::{Ack, KafkaError, Kind, OutputIndex, OutputInfo, Refusal, Stamp, TopicSink};
use loom_types::{
    Batch, BatchBuilder, CommitOffset, Ending, ErrorKind, Moment, Moves, PartitionId, RecordOffset, RecordRef,
};

use super::facts::TopicFacts;
use super::{News, OutputTable, Outputs, Refused};
use crate::nodes::NodeId;
use crate::rows::RowSet;

/// What the clock on the wall says all the time.
const WALL_MS: i64 = 1_700_000_000_000;

type Verdict = Box<dyn FnMut(&str) -> Option<KafkaError>>;

#[derive(Default)]
struct Client {
    /// Payloads in the order they were sent.
    sent: Vec<String>,
    under_way: VecDeque<(OutputIndex, Token, Arc<Batch>, u32)>,
    verdict: Option<Verdict>,
    /// What is under way together is refused together, where one of these is among it; with how often there was any.
    whole: Option<(Vec<String>, Rc<RefCell<u32>>)>,
    questions: Vec<OutputId>,
    answers: Vec<(OutputId, Result<OutputInfo, KafkaError>)>,
}

#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Client>>);

impl TopicSink for Shared {
    fn send(
        &mut self,
        output: OutputIndex,
        batch: &Arc<Batch>,
        rows: &[u32],
        _: Stamp,
        tokens: &mut VecDeque<Token>,
    ) -> usize {
        let mut client = self.0.borrow_mut();
        for row in rows {
            client.sent.push(text(batch, *row));
            client.under_way.push_back((output, tokens.pop_front().unwrap(), batch.clone(), *row));
        }
        rows.len()
    }

    fn acks(&mut self, out: &mut Vec<(OutputIndex, Token, Ack)>) {
        let mut client = self.0.borrow_mut();
        let Client { under_way, verdict, whole, .. } = &mut *client;
        let mut refused = false;
        if let Some((culprits, batches)) = whole
            && !under_way.is_empty()
        {
            *batches.borrow_mut() += 1;
            refused = under_way.iter().any(|(_, _, batch, row)| culprits.contains(&text(batch, *row)));
        }
        for (output, token, batch, row) in under_way.drain(..) {
            let error = verdict.as_mut().and_then(|verdict| verdict(&text(&batch, row)));
            let error = error.or_else(|| refused.then(|| error_of(Kind::Refused, "INVALID_RECORD")));
            let ack = error.map_or(Ack::Written, |error| Ack::Refused(Refusal { error, batch, row }));
            out.push((output, token, ack));
        }
    }

    fn flush(&mut self) {}

    fn in_flight(&self) -> usize {
        self.0.borrow().under_way.len()
    }

    fn each_in_flight(&self, each: &mut dyn FnMut(OutputIndex, &Token)) {
        self.0.borrow().under_way.iter().for_each(|(output, token, ..)| each(*output, token));
    }

    fn each_held(&self, each: &mut dyn FnMut(PartitionId, &Arc<Batch>, u32)) {
        let client = self.0.borrow();
        client.under_way.iter().for_each(|(_, token, batch, row)| each(token.partition(), batch, *row));
    }

    fn move_rows(&mut self, moves: &Moves) {
        let mut client = self.0.borrow_mut();
        client.under_way.iter_mut().for_each(|(.., batch, row)| moves.row(batch, row));
    }

    fn client_errors(&mut self, _: &mut Vec<KafkaError>) {}

    fn close(&mut self, _: Duration) {
        self.0.borrow_mut().under_way.drain(..).for_each(|(_, token, ..)| token.give_up());
    }
}

impl TopicFacts for Shared {
    fn ask(&mut self, output: OutputId) {
        self.0.borrow_mut().questions.push(output);
    }

    fn answers(&mut self, out: &mut Vec<(OutputId, Result<OutputInfo, KafkaError>)>) {
        out.append(&mut self.0.borrow_mut().answers);
    }
}

fn text(batch: &Batch, row: u32) -> String {
    String::from_utf8(batch.payload(row).unwrap_or_default().to_vec()).unwrap()
}

fn info(max_message_bytes: usize) -> OutputInfo {
    OutputInfo {
        partitions: 1,
        id: None,
        max_message_bytes,
        compacted: false,
        keeps: None,
        described: Ok(()),
        may_write: None,
    }
}

fn error_of(kind: Kind, code: &'static str) -> KafkaError {
    KafkaError { kind, code, message: "scripted".to_owned() }
}

/// One topic that several nodes write to.
struct Bench {
    outputs: Outputs,
    client: Shared,
    accounts: Accounts,
    partition: PartitionId,
    next: i64,
    refused: Vec<Refused>,
}

impl Bench {
    fn new(nodes: usize, limit: usize, largest_batch: usize) -> Bench {
        Bench::stamped(nodes, info(limit), largest_batch, Stamp::Source)
    }

    fn stamped(nodes: usize, info: OutputInfo, largest_batch: usize, stamp: Stamp) -> Bench {
        let mut table = OutputTable::default();
        for node in 0..nodes {
            table.add(OutputId(0), NodeId(node), Ending::Topic, stamp);
        }
        let plan = OutputPlan {
            name: "out".to_owned(),
            topic: "out".into(),
            producer: "producer".to_owned(),
            brokers: Vec::new(),
            security: Security::default(),
            compression: None,
            idempotence: true,
            extra: Default::default(),
        };
        let client = Shared::default();
        let infos = [(info, largest_batch)];
        let (writer, facts) = (Box::new(client.clone()), Box::new(client.clone()));
        let outputs = Outputs::new(table, writer, facts, &[plan], &infos);
        let mut accounts = Accounts::tracked();
        let partition = accounts.add_partition(CommitOffset(0), None);
        Bench { outputs, client, accounts, partition, next: 0, refused: Vec::new() }
    }

    /// Reads records with these payloads, as one batch.
    fn read(&mut self, payloads: &[&str]) -> (Arc<Batch>, Vec<Token>) {
        self.read_all(payloads.iter().map(|payload| (*payload, None)))
    }

    /// Reads records with these times, as one batch.
    fn read_at(&mut self, times: &[Option<i64>]) -> (Arc<Batch>, Vec<Token>) {
        self.read_all(times.iter().map(|time| ("timed", *time)))
    }

    fn read_all<'a>(
        &mut self,
        records: impl Iterator<Item = (&'a str, Option<i64>)>,
    ) -> (Arc<Batch>, Vec<Token>) {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        let mut tokens = Vec::new();
        for (payload, timestamp_ms) in records {
            let offset = RecordOffset(self.next);
            self.next += 1;
            builder
                .push(RecordRef {
                    topic: 0,
                    partition: 0,
                    offset,
                    timestamp_ms,
                    key: None,
                    payload: Some(payload.as_bytes()),
                    row: "",
                })
                .unwrap();
            tokens.push(self.accounts.register(self.partition, offset, 0));
        }
        (Arc::new(builder.finish()), tokens)
    }

    fn push(&mut self, node: usize, batch: &Arc<Batch>, ids: Vec<u32>, tokens: Vec<Token>) {
        let rows = RowSet { batch: batch.clone(), ids, tokens, route: None };
        self.outputs.push(OutputId(0), NodeId(node), Ending::Topic, rows);
    }

    fn write(&mut self, payloads: &[&str]) {
        let (batch, tokens) = self.read(payloads);
        self.push(0, &batch, (0..tokens.len() as u32).collect(), tokens);
    }

    fn send(&mut self, seconds: f64) {
        let now = Moment(Duration::from_secs_f64(seconds));
        self.outputs.send((now, WALL_MS), 1.0, &self.accounts, &mut self.refused);
    }

    /// One step of a worker: what came is booked, then what can be sent is sent.
    fn step(&mut self, seconds: f64) {
        let now = Moment(Duration::from_secs_f64(seconds));
        let mut news = News::default();
        self.outputs.acks(now, 1.0, &mut self.accounts, &mut news);
        assert!(news.unknown.is_empty());
        self.refused.append(&mut news.refused);
        self.send(seconds);
    }

    fn verdict(&self, verdict: impl FnMut(&str) -> Option<KafkaError> + 'static) {
        self.client.0.borrow_mut().verdict = Some(Box::new(verdict));
    }

    /// Has a broker refuse whatever is sent together with one of these; `batches` counts what was sent together.
    fn whole(&self, culprits: &[&str], batches: &Rc<RefCell<u32>>) {
        let culprits = culprits.iter().map(|&culprit| culprit.to_owned()).collect();
        self.client.0.borrow_mut().whole = Some((culprits, batches.clone()));
    }

    fn sent(&self) -> Vec<String> {
        std::mem::take(&mut self.client.0.borrow_mut().sent)
    }

    fn questions(&self) -> usize {
        self.client.0.borrow().questions.len()
    }

    fn answer(&self, answer: Result<OutputInfo, KafkaError>) {
        self.client.0.borrow_mut().answers.push((OutputId(0), answer));
    }

    /// The reasons of refused rows; they end.
    fn reasons(&mut self) -> Vec<String> {
        let rows = std::mem::take(&mut self.refused);
        rows.into_iter()
            .map(|row| {
                self.accounts.redeem(row.token, Ending::Dropped(ErrorKind::Delivery));
                row.reason
            })
            .collect()
    }

    fn all_done(&self) {
        assert!(self.outputs.is_quiet());
        let ledger = self.accounts.ledger();
        assert!(ledger.balances() && ledger.outstanding == 0, "{ledger:?}");
    }
}

#[test]
fn an_unknown_topic_is_waited_for_a_minute_in_order_and_visibly() {
    let mut bench = Bench::new(1, 1000, 1000);
    let known = Rc::new(RefCell::new(false));
    let seen = known.clone();
    bench.verdict(move |_| {
        (!*seen.borrow()).then(|| error_of(Kind::UnknownTopic, "UNKNOWN_TOPIC_OR_PARTITION"))
    });
    bench.write(&["a", "b"]);
    bench.send(0.0);
    let mut tries = 0;
    let mut at = 0.0;
    while at < 45.0 {
        at += 0.5;
        bench.step(at);
        tries += bench.sent().len();
    }
    assert!(tries > 20 && tries < 100, "with waits between: {tries}");
    let waiting: Vec<_> = bench.outputs.waiting().collect();
    assert!(
        bench.client.in_flight() > 0 || waiting[0].0.contains("brokers that know the topic"),
        "{waiting:?}"
    );
    // What comes meanwhile waits behind.
    bench.write(&["c"]);
    *known.borrow_mut() = true;
    for step in 0..20 {
        bench.step(at + f64::from(step) * 0.5);
    }
    let sent = bench.sent();
    assert_eq!(sent[sent.len() - 3..], ["a", "b", "c"]);
    assert_eq!(bench.reasons(), [""; 0]);
    let counts = bench.outputs.counts().next().unwrap().1;
    assert_eq!(
        (counts.acknowledged, counts.refused),
        (3, 0),
        "what was delivered in the end was not refused"
    );
    assert!(counts.resent > 10, "{counts:?}");
    bench.all_done();
}

#[test]
fn a_topic_that_stays_unknown_refuses_after_a_minute() {
    let mut bench = Bench::new(1, 1000, 1000);
    bench.verdict(|_| Some(error_of(Kind::UnknownTopic, "UNKNOWN_TOPIC_OR_PARTITION")));
    bench.write(&["a"]);
    bench.send(0.0);
    let mut at = 0.0;
    while bench.refused.is_empty() {
        at += 0.5;
        bench.step(at);
        assert!(at < 100.0, "it waits for ever");
    }
    assert!(at >= 60.0, "{at}");
    assert!(bench.reasons()[0].contains("topic out "));
    bench.all_done();
}

#[test]
fn a_topic_that_is_unknown_again_hours_after_it_came_back_is_waited_for_anew() {
    let mut bench = Bench::new(1, 1000, 1000);
    let known = Rc::new(RefCell::new(false));
    let seen = known.clone();
    bench.verdict(move |_| {
        (!*seen.borrow()).then(|| error_of(Kind::UnknownTopic, "UNKNOWN_TOPIC_OR_PARTITION"))
    });
    for hour in 0..3_u32 {
        let start = f64::from(hour) * 3600.0;
        *known.borrow_mut() = false;
        bench.write(&["a"]);
        bench.send(start);
        for half in 1..80 {
            bench.step(start + f64::from(half) * 0.5);
        }
        assert_eq!(bench.reasons(), [""; 0], "hour {hour}: it was away for less than a minute");
        *known.borrow_mut() = true;
        for half in 80..100 {
            bench.step(start + f64::from(half) * 0.5);
        }
        let counts = bench.outputs.counts().next().unwrap().1;
        assert_eq!((counts.acknowledged, counts.refused), (u64::from(hour) + 1, 0));
    }
    bench.all_done();
}

#[test]
fn a_limit_that_was_read_long_ago_is_read_again_before_a_row_is_refused() {
    let large = "x".repeat(500);
    let mut bench = Bench::new(1, 300, 300);
    bench.write(&["a", &large, "b"]);
    bench.send(100.0);
    assert_eq!((bench.sent(), bench.questions()), (vec!["a".to_owned()], 1));
    bench.step(101.0);
    assert_eq!((bench.sent().len(), bench.questions()), (0, 1), "asked once, and order is kept");
    // It has grown meanwhile.
    bench.answer(Ok(info(1000)));
    bench.step(102.0);
    assert_eq!(bench.sent(), [large.clone(), "b".to_owned()]);
    bench.step(102.1);
    // And it shrinks: a broker refuses, and is asked.
    bench.verdict(|payload| (payload.len() > 300).then(|| error_of(Kind::Refused, "MSG_SIZE_TOO_LARGE")));
    bench.write(&["c", &large, "d"]);
    for at in 103..108 {
        bench.step(f64::from(at));
    }
    assert_eq!(bench.questions(), 2);
    bench.answer(Ok(info(300)));
    bench.step(109.0);
    let reasons = bench.reasons();
    assert!(reasons.len() == 1 && reasons[0].contains("MSG_SIZE_TOO_LARGE"), "{reasons:?}");
    // What was read just now counts at once.
    bench.write(&["e", &large]);
    bench.step(110.0);
    assert_eq!(bench.questions(), 2);
    bench.step(111.0);
    let reasons = bench.reasons();
    assert!(reasons.len() == 1 && reasons[0].contains("max.message.bytes is 300"), "{reasons:?}");
    bench.all_done();
}

#[test]
fn a_question_without_answer_is_asked_again_and_its_row_waits() {
    let large = "x".repeat(500);
    let mut bench = Bench::new(1, 300, 300);
    bench.write(&[&large]);
    bench.send(100.0);
    for at in 101..111 {
        bench.answer(Err(error_of(Kind::Transient, "_TRANSPORT")));
        bench.step(f64::from(at));
        assert!(bench.outputs.next_due().is_some_and(|due| due > Moment(Duration::from_secs(at as u64))));
        bench.step(f64::from(at) + 0.99);
    }
    assert!(bench.questions() > 3 && bench.refused.is_empty());
    bench.answer(Ok(info(300)));
    bench.step(120.0);
    assert_eq!(bench.reasons().len(), 1);
    bench.all_done();
}

#[test]
fn a_question_that_failed_changes_nothing_of_what_is_known() {
    let untold = |kind, code| {
        let described = Err(error_of(kind, code));
        Ok(OutputInfo { described, ..info(1000) })
    };
    let (large, valid) = ("x".repeat(5000), "y".repeat(2000));
    let mut bench = Bench::new(1, 3000, 1000);
    bench.write(&[&large]);
    bench.send(100.0);
    // What may pass is asked for again, and the row waits.
    for at in 101..106 {
        bench.answer(untold(Kind::Transient, "_TIMED_OUT"));
        bench.step(f64::from(at));
        bench.step(f64::from(at) + 0.99);
    }
    assert!(bench.questions() > 1 && bench.refused.is_empty());
    // What will not be told leaves what is known to judge: for want of a right, or of a broker that can tell it.
    bench.answer(untold(Kind::Authorization, "TOPIC_AUTHORIZATION_FAILED"));
    bench.step(106.0);
    let reasons = bench.reasons();
    assert!(reasons.len() == 1 && reasons[0].contains("max.message.bytes is 3000"), "{reasons:?}");
    bench.write(&[&valid]);
    bench.step(107.0);
    assert_eq!(bench.sent(), [valid], "it is valid by what was read");
    bench.step(108.0);
    bench.all_done();
}

#[test]
fn records_before_all_that_the_topic_keeps_are_counted_where_their_time_counts() {
    let day = 24 * 3600 * 1000;
    let keeps = |days: u64| Some(Duration::from_secs(days * 24 * 3600));
    let ages = [Some(30 * day), None, Some(7 * day + 1), Some(7 * day - 1), Some(0), Some(-day)];
    for (kept, stamp, past) in [
        (keeps(7), Stamp::Source, 2),
        (keeps(31), Stamp::Source, 0),
        (None, Stamp::Source, 0),
        (keeps(7), Stamp::Now, 0),
    ] {
        let mut bench = Bench::stamped(1, OutputInfo { keeps: kept, ..info(1000) }, 1000, stamp);
        let (batch, tokens) = bench.read_at(&ages.map(|age| age.map(|age| WALL_MS - age)));
        bench.push(0, &batch, (0..tokens.len() as u32).collect(), tokens);
        bench.send(0.0);
        bench.step(1.0);
        let counts = bench.outputs.counts().next().unwrap().1;
        assert_eq!((counts.past_retention, counts.acknowledged), (past, 6), "{kept:?} {stamp:?}");
        bench.all_done();
    }
}

#[test]
fn where_the_limit_fell_below_the_clients_batches_no_more_than_a_batch_is_under_way() {
    let mut bench = Bench::new(1, 1000, 10_000);
    let rows: Vec<String> = (0..40).map(|n| format!("{n:0100}")).collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    bench.write(&rows);
    bench.send(0.0);
    let mut sent = 0;
    for _ in 0..100 {
        let now = bench.sent().len();
        // Each is 173 bytes as a batch of its own.
        assert!(now <= 5, "{now} at once");
        sent += now;
        if bench.outputs.is_quiet() {
            break;
        }
        bench.step(1.0);
    }
    assert_eq!(sent, 40);
    bench.all_done();
}

#[test]
fn the_culprit_of_a_refused_batch_is_found_by_halves_and_nothing_passes_it() {
    let mut bench = Bench::new(1, 1_000_000, 1_000_000);
    let batches = Rc::new(RefCell::new(0));
    bench.whole(&["bad"], &batches);
    let names: Vec<String> =
        (0..128).map(|n| if n == 77 { "bad".to_owned() } else { n.to_string() }).collect();
    let rows: Vec<&str> = names.iter().map(String::as_str).collect();
    bench.write(&rows);
    bench.send(0.0);
    bench.write(&["later"]);
    let mut written = Vec::new();
    while !bench.outputs.is_quiet() {
        let waiting: Vec<_> = bench.outputs.waiting().collect();
        bench.step(1.0);
        written.extend(bench.sent());
        assert!(*batches.borrow() < 40, "{waiting:?}");
    }
    // Two for each halving, the last one for the culprit alone; the first time, and what waited behind.
    assert!(*batches.borrow() <= 2 + 2 * 7, "{}", batches.borrow());
    assert_eq!(written.last().map(String::as_str), Some("later"));
    let refused = std::mem::take(&mut bench.refused);
    assert_eq!(refused.iter().map(|row| text(&row.batch, row.row)).collect::<Vec<_>>(), ["bad"]);
    assert_eq!(refused[0].attempts, 1, "in company it was not its own attempt");
    bench.refused = refused;
    assert_eq!(bench.reasons().len(), 1);
    let counts = bench.outputs.counts().next().unwrap().1;
    assert_eq!(
        (counts.acknowledged, counts.refused, counts.resent),
        (128, 1, 128 + 64 + 32 + 16 + 8 + 4 + 2),
        "all came back with their batch, and then ever smaller halves"
    );
    bench.all_done();
}

#[test]
fn every_culprit_is_found_however_many_there_are() {
    let mut bench = Bench::new(1, 1_000_000, 1_000_000);
    let batches = Rc::new(RefCell::new(0));
    bench.whole(&["x", "y"], &batches);
    bench.write(&["x", "y", "x", "a", "y"]);
    bench.send(0.0);
    for _ in 0..20 {
        bench.step(1.0);
    }
    assert_eq!(bench.reasons().len(), 4);
    bench.all_done();
}

#[test]
fn what_is_told_unasked_counts_at_once() {
    let mut bench = Bench::new(1, 1000, 1000);
    bench.write(&["a"]);
    bench.send(100.0);
    bench.answer(Ok(OutputInfo { compacted: true, ..info(1000) }));
    bench.write(&["without key"]);
    bench.step(101.0);
    assert_eq!((bench.sent(), bench.questions()), (vec!["a".to_owned()], 0));
    let reasons = bench.reasons();
    assert!(reasons.len() == 1 && reasons[0].contains("compacted"), "{reasons:?}");
    bench.all_done();
}

#[test]
fn what_several_nodes_wrote_in_one_cycle_is_put_into_the_order_of_its_source() {
    let mut bench = Bench::new(2, 1000, 1000);
    let (batch, tokens) = bench.read(&["0", "1", "2", "3"]);
    let (mut even, mut odd) = (Vec::new(), Vec::new());
    for (at, token) in tokens.into_iter().enumerate() {
        if at % 2 == 0 { even.push(token) } else { odd.push(token) }
    }
    bench.push(1, &batch, vec![1, 3], odd);
    bench.push(0, &batch, vec![0, 2], even);
    bench.send(0.0);
    assert_eq!(bench.sent(), ["0", "1", "2", "3"]);
    bench.step(0.0);
    bench.all_done();
}

#[test]
fn a_closed_client_gets_nothing_more_and_no_token_is_lost() {
    let mut bench = Bench::new(1, 1000, 1000);
    bench.write(&["a"]);
    bench.send(0.0);
    bench.write(&["b"]);
    bench.outputs.close(Duration::ZERO);
    bench.write(&["c"]);
    bench.step(1.0);
    assert_eq!((bench.sent(), bench.outputs.next_due()), (vec!["a".to_owned()], None));
    assert!(bench.outputs.is_quiet());
}
