//! Looks at a running flow every few seconds, off its workers: asks them for numbers, asks the brokers where partitions
//! end, and books what the [`Watch`] makes of it. Stalls are logged when they begin and when they are over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loom_kafka::{Broker, Kind};
use loom_types::{Moment, TopicPartition};

use super::board::{Board, Detail, Findings, Part};
use super::document::{Intake, PartitionStatus};
use super::watch::{LOOK, Look, OutputLook, Watch};

/// How long a worker may take to answer a look.
const ANSWER: Duration = Duration::from_millis(500);

/// How long a broker may take to say where a partition ends.
const QUESTION: Duration = Duration::from_secs(1);

/// Questions of one look take no longer: partitions that seem to stall come first, the others in turn.
const QUESTIONS: Duration = Duration::from_secs(1);

/// The input's brokers count as unreachable when no question was answered for so long.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(10);

/// See the module's description.
pub(crate) struct Watcher {
    board: Board,
    broker: Arc<dyn Broker>,
    begun: Instant,
    watch: Watch,
    /// Whose turn it is to be asked for.
    turn: usize,
    /// What brokers say of partitions that they do not know, or do not show.
    refused: BTreeMap<(String, i32), String>,
    /// Since when questions have failed, and how.
    failing: Option<(Instant, String)>,
}

impl Watcher {
    pub(crate) fn new(board: Board, broker: Arc<dyn Broker>) -> Self {
        Watcher {
            board,
            broker,
            begun: Instant::now(),
            watch: Watch::default(),
            turn: 0,
            refused: BTreeMap::new(),
            failing: None,
        }
    }

    /// Looks until the run is over.
    pub(crate) fn run(mut self) {
        while !self.board.wait_for_end(LOOK) {
            self.look();
        }
    }

    fn look(&mut self) {
        self.board.ask(Detail::Numbers, ANSWER);
        let asked_at = Instant::now();
        let (parts, mut findings) = {
            let state = self.board.lock();
            let live = state.slots.iter().filter(|slot| !slot.ended);
            // A worker that did not answer is in a call: of its partitions nothing new is known.
            let fresh = live.map(|slot| &slot.part).filter(|part| asked_at - part.at < LOOK).cloned();
            (fresh.collect::<Vec<Part>>(), state.findings.clone())
        };
        self.ask_ends(&parts, &mut findings);
        self.decide(&parts, asked_at, &mut findings);
        self.board.lock().findings = findings;
        self.board.note_counts();
    }

    /// Asks where partitions end. The first question without an answer ends it: the others would wait as long.
    fn ask_ends(&mut self, parts: &[Part], findings: &mut Findings) {
        let begun = Instant::now();
        let (mut suspicious, mut others) = (Vec::new(), Vec::new());
        for partition in parts.iter().flat_map(|part| &part.partitions) {
            let name = (partition.topic.clone(), partition.partition);
            let known = findings.ends.get(&name).map(|(end, _)| *end);
            let behind =
                known.is_some_and(|end| end > partition.position) || self.refused.contains_key(&name);
            if behind { suspicious.push(name) } else { others.push(name) }
        }
        let count = others.len().max(1);
        others.rotate_left(self.turn % count);
        let first = suspicious.len();
        for (index, name) in suspicious.into_iter().chain(others).enumerate() {
            if begun.elapsed() >= QUESTIONS {
                self.turn = (self.turn + index.saturating_sub(first)) % count;
                break;
            }
            let partition = TopicPartition::new(name.0.as_str(), name.1);
            match self.broker.bounds(&partition, QUESTION) {
                Ok(bounds) => {
                    self.refused.remove(&name);
                    findings.ends.insert(name, (bounds.high.0, Instant::now()));
                    self.failing = None;
                }
                // It is of this partition: its topic is gone, or the right to see it.
                Err(error) if !matches!(error.kind, Kind::Transient | Kind::Coordinator) => {
                    self.refused.insert(name, error.to_string());
                    self.failing = None;
                }
                Err(error) => {
                    let text = error.to_string();
                    match &mut self.failing {
                        Some((_, last)) => *last = text,
                        failing => *failing = Some((begun, text)),
                    }
                    break;
                }
            }
        }
        let failing = self.failing.clone();
        findings.unreachable = failing.filter(|(since, _)| since.elapsed() >= UNREACHABLE_AFTER);
    }

    fn decide(&mut self, parts: &[Part], asked_at: Instant, findings: &mut Findings) {
        let now = Moment(self.begun.elapsed());
        let at = |moment: Moment| self.begun + moment.0;
        for part in parts {
            for (partition, trouble) in part.partitions.iter().zip(&part.troubles) {
                let name = (partition.topic.clone(), partition.partition);
                // While brokers do not answer, an end that was learnt before accuses nobody.
                let asked = findings.ends.get(&name).filter(|(_, learnt)| *learnt >= asked_at);
                let end = partition.end.max(asked.map(|(end, _)| *end));
                let trouble = trouble.as_deref().or(self.refused.get(&name).map(String::as_str));
                let look = Look {
                    position: partition.position,
                    end,
                    excused: part.draining || !matches!(partition.intake, Intake::Open | Intake::AtEnd),
                    trouble,
                };
                match self.watch.partition(&name, look, now) {
                    Some(since) => {
                        let cause = cause(partition, end, trouble);
                        let stalled = (at(since), partition.position, cause);
                        let told = findings.stalled.insert(name, stalled.clone());
                        if told.is_none_or(|(.., told)| told != stalled.2) {
                            tracing::error!(
                                topic = partition.topic,
                                partition = partition.partition,
                                offset = partition.position,
                                reason = stalled.2,
                                "the partition is stalled: it has data and makes no progress; the others go on"
                            );
                        }
                    }
                    None => {
                        if findings.stalled.remove(&name).is_some() {
                            tracing::info!(
                                topic = partition.topic,
                                partition = partition.partition,
                                offset = partition.position,
                                "the partition goes on"
                            );
                        }
                    }
                }
            }
        }
        let mut outputs: BTreeMap<&str, OutputLook> = BTreeMap::new();
        for output in parts.iter().flat_map(|part| &part.outputs) {
            let look = outputs.entry(&output.topic).or_insert(OutputLook { rows: 0, answered: 0 });
            look.rows += output.pending + output.in_flight;
            look.answered += output.acknowledged + output.refused;
        }
        for (topic, look) in outputs {
            match self.watch.output(topic, look, now) {
                Some(since) => findings.waiting.insert(topic.to_owned(), at(since)),
                None => findings.waiting.remove(topic),
            };
        }
    }
}

fn cause(partition: &PartitionStatus, end: Option<i64>, trouble: Option<&str>) -> String {
    match (trouble, end) {
        (Some(trouble), _) => trouble.to_owned(),
        (None, Some(end)) => format!(
            "its records reach to offset {end}, and the client gives none from {} on",
            partition.position
        ),
        (None, None) => "the client gives no record".to_owned(),
    }
}
