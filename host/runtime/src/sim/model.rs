//! What must hold of the world, kept from what the broker and the plugins saw, record by record.
//!
//! Checked at every step:
//! - a watermark, and a commit that is asked for, pass only records that are met, in this very run;
//! - commits never fall within a run, never go below its floor, never beyond the partition's end;
//! - records are taken in order, none left out; a start leaves out only what was met in some run, or what nobody has to
//!   process any more (see `inputs.rs`);
//! - what is written belongs to a record that its run took, and is written once in a run;
//! - a sink is given no new row past one of its source partition that it asked to be given again;
//! - from one source partition, through one terminal, into one output partition, rows come in source order; through all
//!   terminals of an output where no node may hold rows back.
//!
//! The first thing that does not hold stays in `broken`.

use std::time::Duration;

use loom_delivery::lease::Holder;
use loom_kafka::memory::Record;
use loom_types::{Batch, ErrorKind, Moment, TopicPartition};

use super::excuse::Excuse;
use super::fates::Fates;
use super::flow::{Flow, Input, Payload};
use super::inputs::{Inputs, Known};
use super::needs::{Needs, Place};
use super::run::{Assignment, Held, Run};

/// After so long a host is no newcomer any more.
const SETTLED: Duration = Duration::from_secs(20);

/// How long a newcomer may work beside a live owner.
const FOUND_OUT_WITHIN: Duration = Duration::from_secs(60);

/// See the module's description.
pub(super) struct Model {
    flow: Flow,
    fates: Fates,
    forward: bool,
    /// At most once: what was taken is nobody's any more, and may be committed.
    pub once: bool,
    inputs: Inputs,
    runs: Vec<Run>,
    /// The run of each writer that was made.
    writers: Vec<usize>,
    prompt: bool,
    pub broken: Option<String>,
}

/// A row as it is written somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub number: usize,
    pub label: String,
}

impl Row {
    pub(super) fn of_batch(batch: &Batch, row: u32) -> Row {
        Row::of(batch.headers(row), batch.payload(row))
    }

    pub(super) fn of_record(record: &Record) -> Row {
        let headers = record.headers.iter().map(|(name, value)| (&**name, value.as_deref()));
        Row::of(headers, record.payload.as_deref())
    }

    fn of<'a>(headers: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>, payload: Option<&[u8]>) -> Row {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (mut number, mut error) = (usize::MAX, None);
        for (name, value) in headers {
            match name {
                b"n" => number = value.and_then(|value| text(value).parse().ok()).unwrap_or(usize::MAX),
                b"loom-error-kind" => error = value.map(|kind| format!("error {}", text(kind))),
                _ => {}
            }
        }
        let label =
            error.or_else(|| payload.map(text)).unwrap_or_else(|| Payload::Tombstone.label(number as u64));
        Row { number, label }
    }
}

impl Model {
    pub(super) fn new(flow: Flow, fates: Fates, forward: bool, partitions: &[TopicPartition]) -> Model {
        let prompt = fates.are_prompt() && !flow.waits;
        let mut inputs = Inputs::default();
        partitions.iter().for_each(|name| inputs.add(name.clone()));
        let (runs, writers) = (Vec::new(), Vec::new());
        Model { flow, fates, forward, once: false, inputs, runs, writers, prompt, broken: None }
    }

    pub(super) fn fates(&self) -> &Fates {
        &self.fates
    }

    pub(super) fn partition(&self, name: &TopicPartition) -> usize {
        self.inputs.logs.iter().position(|log| log.name == *name).expect("an input partition")
    }

    pub(super) fn name(&self, partition: usize) -> &TopicPartition {
        &self.inputs.logs[partition].name
    }

    pub(super) fn partitions(&self) -> usize {
        self.inputs.logs.len()
    }

    pub(super) fn records(&self) -> usize {
        self.inputs.records.len()
    }

    /// The number that the next record gets.
    pub(super) fn next_number(&self) -> u64 {
        self.inputs.records.len() as u64
    }

    pub(super) fn breaks(&mut self, what: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(what());
        }
    }

    fn holds(&mut self, held: Held) {
        if let Err(why) = held {
            self.breaks(|| why);
        }
    }

    /// A record was produced.
    pub(super) fn produced(&mut self, partition: usize, input: Input) {
        let visible = self.forward || input.payload != Payload::Tombstone;
        let needs = if visible { self.flow.needs(&self.fates, &input) } else { Needs::default() };
        let known = Known { input, partition, needs, visible, done: false, gone: false, waived: false };
        self.inputs.produced(known);
    }

    /// The partition's end moved without a record.
    pub(super) fn ends_at(&mut self, partition: usize, end: i64) {
        self.inputs.logs[partition].end = end;
    }

    /// Whether a run may stand at this position of a partition.
    pub(super) fn is_inside(&self, run: usize, partition: usize, position: i64) -> bool {
        position <= self.end(partition) || self.runs[run].is_outside(partition)
    }

    /// Where a partition ends.
    pub(super) fn end(&self, partition: usize) -> i64 {
        self.inputs.logs[partition].end
    }

    /// Everything below an offset is gone.
    pub(super) fn retained(&mut self, partition: usize, low: i64) {
        self.inputs.lose(partition, i64::MIN, low);
    }

    /// One record is gone.
    pub(super) fn compacted(&mut self, partition: usize, offset: i64) {
        self.inputs.lose(partition, offset, offset + 1);
    }

    /// An election cut a partition's log.
    pub(super) fn cut(&mut self, partition: usize, keep: i64) {
        self.inputs.cut(partition, keep);
        // What those that are gone have committed is of the log as it was, too.
        self.runs.iter_mut().for_each(|run| run.cut(partition, keep));
    }

    /// A partition's topic was made again.
    pub(super) fn remade(&mut self, partition: usize) {
        self.inputs.remade(partition);
        self.live().for_each(|run| run.torn(partition));
    }

    /// A topic got a partition.
    pub(super) fn grown(&mut self, name: TopicPartition) {
        self.inputs.add(name);
    }

    /// All partitions of a topic.
    pub(super) fn of_topic(&self, topic: &str) -> Vec<usize> {
        (0..self.partitions()).filter(|partition| *self.name(*partition).topic == *topic).collect()
    }

    /// A process starts: its run.
    pub(super) fn begins(&mut self, now: Moment, take_over: bool) -> usize {
        self.runs.push(Run::starts(now, take_over, self.once));
        self.runs.len() - 1
    }

    pub(super) fn run(&mut self, run: usize) -> &mut Run {
        &mut self.runs[run]
    }

    /// The processes that live.
    pub(super) fn live(&mut self) -> impl Iterator<Item = &mut Run> {
        self.runs.iter_mut().filter(|run| !run.over)
    }

    /// A run starts beside others: the one of them that owns the partitions, if any does.
    pub(super) fn beside(&mut self, run: usize, owner: Option<usize>, take_over: bool) {
        let others: Vec<usize> =
            (0..self.runs.len()).filter(|other| *other != run && !self.runs[*other].over).collect();
        if others.is_empty() {
            return;
        }
        self.runs[run].excuse(Excuse::Rival);
        if !take_over {
            self.runs[run].elder = owner.filter(|owner| others.contains(owner));
        }
        for other in others {
            // What this one commits at its start, or at its end, the others find there.
            self.runs[other].excuse(Excuse::SetFromOutside);
            self.runs[run].excuse(Excuse::SetFromOutside);
            if take_over || self.runs[run].elder != Some(other) {
                self.runs[other].excuse(Excuse::Rival);
            }
        }
    }

    /// A run that works has read the lease.
    pub(super) fn reads_lease(&mut self, run: usize, seen: &Holder, now: Moment) {
        let (one, holder) = (&mut self.runs[run], seen.process as usize);
        if seen.released {
            // Nobody owns the group any more: it need not watch on.
            (one.held_until, one.elder) = (None, None);
        }
        // Of newcomers it is not known who stays; an owner that is deposed commits nothing more.
        let owner = one.watches_since.is_none() && !one.take_over && now.since(one.since) > SETTLED;
        if holder != run && seen.take_over && !seen.released && owner {
            one.shut = true;
        }
    }

    /// A newcomer finds out in time that the owner lives.
    pub(super) fn looks_at_lease(&mut self, run: usize, now: Moment) {
        let one = &self.runs[run];
        let (Some(elder), Some(since)) = (one.elder, one.watches_since) else { return };
        let away = one.excuses.contains(&Excuse::Away);
        if now.since(since) > FOUND_OUT_WITHIN && one.is_sound() && self.runs[elder].is_sound() && !away {
            self.breaks(|| format!("run {run} still works beside run {elder}, which owns the partitions"));
        }
    }

    /// These may end in a failure.
    pub(super) fn excuse_all(&mut self, why: Excuse) {
        self.live().for_each(|run| run.excuse(why));
    }

    /// A run has made a writer.
    pub(super) fn writes(&mut self, run: usize) {
        self.writers.push(run);
    }

    pub(super) fn assigned(&mut self, run: usize, partition: usize, how: Assignment) {
        let by = |id| self.runs.iter().find(|run| run.id == Some(id));
        let writer = how.found.and_then(|found| found.run).and_then(by);
        let cut = writer.and_then(|writer| writer.lowest_cut(partition));
        let held = self.runs[run].assigned(&mut self.inputs, partition, how, cut);
        self.holds(held);
    }

    pub(super) fn taken(&mut self, run: usize, partition: usize, offset: i64) {
        let held = self.runs[run].taken(&self.inputs, partition, offset);
        self.holds(held);
        if self.once
            && let Some(number) = self.inputs.at(partition, offset)
        {
            self.inputs.records[number].done = true;
        }
    }

    pub(super) fn sought(&mut self, run: usize, partition: usize, to: i64) {
        let held = self.runs[run].sought(&mut self.inputs, partition, to);
        self.holds(held);
    }

    pub(super) fn passed(&mut self, run: usize, partition: usize, watermark: i64, who: &str) {
        let held = self.runs[run].passed(&mut self.inputs, partition, watermark, who);
        self.holds(held);
    }

    /// A run asks for a commit.
    pub(super) fn commit(&mut self, run: usize, partition: usize, offset: i64, now: Moment) {
        let one = &self.runs[run];
        // A start that was chosen may be committed at any time, and nothing else while another's lease is watched, not even
        // at a stop.
        if !one.is_chosen(partition, offset) {
            let name = self.inputs.logs[partition].name.clone();
            if one.held_until.is_some_and(|until| now < until) {
                self.breaks(|| format!("run {run} commits {name} while it watches another's lease"));
            } else if let Some(elder) = one.elder
                && self.runs[elder].is_sound()
            {
                self.breaks(|| format!("run {run} commits {name} beside run {elder}, which owns it"));
            }
        }
        let held = self.runs[run].commit(&mut self.inputs, partition, offset);
        self.holds(held);
    }

    /// A step answered `retry` to a record.
    pub(super) fn tried(&mut self, run: usize, step: usize, number: usize) {
        let Some((_, retries)) = self.flow.counted.iter().find(|(counted, _)| *counted == step) else {
            return;
        };
        if self.runs[run].tried(step, number, *retries)
            && self.inputs.records[number].needs.stops_at_step(step)
        {
            self.runs[run].excuse(Excuse::Spent);
        }
    }

    /// A row was written to an output, by one of our writers.
    pub(super) fn written(&mut self, writer: Option<usize>, output: usize, to: i32, row: &Row) {
        let Some(run) = writer.and_then(|writer| self.writers.get(writer).copied()) else {
            return self.breaks(|| format!("output {output} got {row:?} from nobody"));
        };
        let held = self.runs[run].written(&self.inputs, output, to, row, self.prompt);
        self.holds(held);
    }

    /// An output refuses a row; where it says so of the row alone, for good.
    pub(super) fn refused(&mut self, output: usize, row: &Row) {
        // Whose it is does not show: whoever took it.
        for run in self.runs.iter_mut().filter(|run| run.has_taken(row.number)) {
            run.disordered.insert(output);
            let held = run.fails(&self.inputs, Place::Topic(output), row, ErrorKind::Delivery);
            debug_assert!(held.is_ok(), "{held:?}");
            if self.inputs.records[row.number].needs.stops(row, Place::Topic(output), ErrorKind::Delivery) {
                run.excuse(Excuse::Refused);
            }
        }
    }

    pub(super) fn sink_given(&mut self, run: usize, sink: usize, row: &Row) {
        let held = self.runs[run].sink_given(&self.inputs, sink, row);
        self.holds(held);
    }

    pub(super) fn sink_waits(&mut self, run: usize, sink: usize, row: &Row) {
        let held = self.runs[run].sink_waits(&self.inputs, sink, row);
        self.holds(held);
    }

    pub(super) fn sunk(&mut self, run: usize, sink: usize, row: &Row) {
        let held = self.runs[run].sunk(&self.inputs, sink, row);
        self.holds(held);
    }

    /// A sink failed on this row alone, or said so of it.
    pub(super) fn sink_failed(&mut self, run: usize, sink: usize, row: &Row, kind: ErrorKind) {
        let held = self.runs[run].fails(&self.inputs, Place::Sink(sink), row, kind);
        self.holds(held);
    }

    /// Whether a failure for good of this row at a sink stops the flow.
    pub(super) fn is_final(&self, sink: usize, row: &Row, kind: ErrorKind) -> bool {
        let Some(known) = self.inputs.records.get(row.number) else { return false };
        known.needs.stops(row, Place::Sink(sink), kind)
    }

    /// An offset that a record stands at which no process that lives was given.
    pub(super) fn untaken(&self, partition: usize) -> Option<i64> {
        let all = self.inputs.between(partition, i64::MIN, i64::MAX).iter().rev();
        let free = |number: &&usize| {
            !self.inputs.records[**number].gone
                && !self.runs.iter().any(|run| !run.over && run.has_taken(**number))
        };
        all.into_iter().find(free).map(|number| self.inputs.records[*number].input.offset)
    }

    /// Whether this run took a record that stops every process that takes it.
    pub(super) fn is_blocked(&self, run: usize) -> bool {
        let stops = |number: usize| self.inputs.records[number].needs.surely_stop();
        self.flow.stops && self.runs[run].all_taken().any(stops)
    }

    /// Whether a partition is there that no process reads.
    pub(super) fn has_unread(&self) -> bool {
        let is_read = |partition| self.runs.iter().any(|run| !run.over && run.reads(partition));
        !(0..self.partitions()).all(is_read)
    }

    /// What is not done yet; empty when every record is done or nobody has to process it.
    pub(super) fn left(&self) -> Vec<String> {
        let owed = |partition: usize| {
            let known = self.inputs.owed(partition, i64::MIN, i64::MAX)?;
            Some(format!("{} {}: {:?}", self.name(partition), known.input.offset, known.needs.told(None)))
        };
        (0..self.partitions()).filter_map(owed).collect()
    }
}
