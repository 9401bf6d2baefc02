//! What must hold of the world, kept from what the broker and the plugins saw, record by record.
//!
//! A record is *met* when all that its flow makes of it is durable, in the run that took it. Checked at every step:
//! - a watermark, and a commit that is asked for, pass only records that are met;
//! - commits never fall within a run, never go below its floor, never beyond the partition's end;
//! - records are taken in order, none left out; a start leaves out only what was met in some run;
//! - what is written belongs to a record that was taken, and is written once in a run;
//! - a sink is given no new row past one of its source partition that it asked to be given again;
//! - from one source partition, through one terminal, into one output partition, rows come in source order; through all
//!   terminals of an output where no node may hold rows back.
//!
//! The first thing that does not hold stays in `broken`.

use std::collections::{BTreeSet, HashMap};

use loom_kafka::memory::Record;
use loom_types::{Batch, ErrorKind, TopicPartition};

use super::fates::Fates;
use super::flow::{Flow, Input, Leaf, Need, Needs, Payload, Place};

/// A record of an input.
#[derive(Debug)]
struct Known {
    input: Input,
    needs: Needs,
    /// The source gives it out: it is no tombstone that is skipped.
    visible: bool,
    /// It was met, in some run.
    done: bool,
    /// It was given out in this run.
    taken: bool,
    /// Retention or compaction removed it.
    gone: bool,
    /// Leaves that were refused in this run, with the kind of error that this makes.
    failed: Vec<(usize, ErrorKind)>,
}

/// An input partition.
#[derive(Debug)]
struct Partition {
    name: TopicPartition,
    records: Vec<Known>,
    /// Where the group's very first start was: what lies before it was never asked for.
    base: Option<i64>,
    end: i64,
    /// Of this run.
    floor: Option<i64>,
    /// The first record that was not given out in this run, by index.
    next: usize,
    /// The first record that no watermark has passed in this run, by index.
    met: usize,
    /// The highest offset that a commit of this run asked for.
    asked: i64,
}

/// See the module's description.
pub(super) struct Model {
    flow: Flow,
    fates: Fates,
    forward: bool,
    partitions: Vec<Partition>,
    /// By number.
    numbers: Vec<(usize, usize)>,
    /// The last source offset by terminal, source partition and output partition.
    terminals: HashMap<(usize, usize, i32), i64>,
    /// The same by output, where nothing may be overtaken.
    outputs: HashMap<(usize, usize, i32), i64>,
    prompt: bool,
    /// Outputs that refused rows in this run: what came back is sent again, in no order that is promised.
    disordered: BTreeSet<usize>,
    /// Rows that a sink asked to be given again, by terminal and source partition: their offsets.
    waiting: HashMap<(usize, usize), BTreeSet<i64>>,
    /// The process stops: what waits is given up.
    pub stopping: bool,
    /// A start went back on purpose: starts may lie before committed offsets.
    pub replays: bool,
    pub broken: Option<String>,
}

/// A row as it is written somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub number: u64,
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
        let (mut number, mut error) = (u64::MAX, None);
        for (name, value) in headers {
            match name {
                b"n" => number = value.and_then(|value| text(value).parse().ok()).unwrap_or(u64::MAX),
                b"loom-error-kind" => error = value.map(|kind| format!("error {}", text(kind))),
                _ => {}
            }
        }
        let label = error.or_else(|| payload.map(text)).unwrap_or_else(|| Payload::Tombstone.label(number));
        Row { number, label }
    }
}

impl Known {
    /// Whether all that the flow makes of it is durable. Rows that look alike are counted together.
    fn is_met(&self) -> bool {
        let leaves = &self.needs.leaves;
        let mut written = vec![0; leaves.len()];
        leaves.iter().for_each(|leaf| written[leaf.like] += leaf.done);
        let needs: Vec<&Need> = self.needs.all.iter().collect();
        self.meets(&needs, &mut written)
    }

    /// Whether these needs can all be met by what was `written`, each row counted once.
    fn meets(&self, needs: &[&Need], written: &mut [u32]) -> bool {
        let Some((first, rest)) = needs.split_first() else { return true };
        let (leaf, business, delivery) = match first {
            Need::Written { leaf, refused } => (*leaf, &None, refused),
            Need::Sunk { leaf, business, delivery } => (*leaf, business, delivery),
        };
        let like = self.needs.leaves[leaf].like;
        if written[like] > 0 {
            written[like] -= 1;
            let met = self.meets(rest, written);
            written[like] += 1;
            if met {
                return true;
            }
        }
        [(ErrorKind::Business, business), (ErrorKind::Delivery, delivery)].into_iter().any(|(kind, other)| {
            let Some(other) = other else { return false };
            let instead: Vec<&Need> = other.iter().chain(rest.iter().copied()).collect();
            self.failed.contains(&(like, kind)) && self.meets(&instead, written)
        })
    }
}

impl Model {
    pub(super) fn new(flow: Flow, fates: Fates, forward: bool, partitions: &[TopicPartition]) -> Model {
        let prompt = fates.are_prompt() && !flow.waits;
        let partitions = partitions.iter().map(|name| Partition {
            name: name.clone(),
            records: Vec::new(),
            base: None,
            end: 0,
            floor: None,
            next: 0,
            met: 0,
            asked: i64::MIN,
        });
        Model {
            flow,
            fates,
            forward,
            partitions: partitions.collect(),
            numbers: Vec::new(),
            terminals: HashMap::new(),
            outputs: HashMap::new(),
            prompt,
            disordered: BTreeSet::new(),
            waiting: HashMap::new(),
            stopping: false,
            replays: false,
            broken: None,
        }
    }

    pub(super) fn fates(&self) -> &Fates {
        &self.fates
    }

    pub(super) fn partition(&self, name: &TopicPartition) -> usize {
        self.partitions.iter().position(|partition| partition.name == *name).expect("an input partition")
    }

    pub(super) fn name(&self, partition: usize) -> &TopicPartition {
        &self.partitions[partition].name
    }

    pub(super) fn partitions(&self) -> usize {
        self.partitions.len()
    }

    pub(super) fn records(&self) -> usize {
        self.numbers.len()
    }

    /// The number that the next record gets.
    pub(super) fn next_number(&self) -> u64 {
        self.numbers.len() as u64
    }

    pub(super) fn breaks(&mut self, what: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(what());
        }
    }

    /// A record was produced.
    pub(super) fn produced(&mut self, partition: usize, input: Input) {
        let visible = self.forward || input.payload != Payload::Tombstone;
        let needs = if visible { self.flow.needs(&self.fates, &input) } else { Needs::default() };
        let place = &mut self.partitions[partition];
        place.end = input.offset + 1;
        self.numbers.push((partition, place.records.len()));
        place.records.push(Known {
            input,
            needs,
            visible,
            done: false,
            taken: false,
            gone: false,
            failed: Vec::new(),
        });
    }

    /// The partition's end moved without a record.
    pub(super) fn ends_at(&mut self, partition: usize, end: i64) {
        self.partitions[partition].end = end;
    }

    /// Everything below an offset is gone.
    pub(super) fn retained(&mut self, partition: usize, low: i64) {
        for known in &mut self.partitions[partition].records {
            known.gone |= known.input.offset < low;
        }
    }

    /// One record is gone.
    pub(super) fn compacted(&mut self, partition: usize, offset: i64) {
        for known in &mut self.partitions[partition].records {
            known.gone |= known.input.offset == offset;
        }
    }

    /// A process starts.
    pub(super) fn begins(&mut self) {
        self.terminals.clear();
        self.waiting.clear();
        self.disordered.clear();
        self.stopping = false;
        self.outputs.clear();
    }

    /// A partition is read from `start` in this run; the group had `committed` for it.
    pub(super) fn assigned(&mut self, index: usize, start: i64, committed: Option<i64>) {
        let partition = &mut self.partitions[index];
        // As long as the group has no offset, and nothing was given out, the start is chosen anew.
        let fresh = committed.is_none() && partition.records.iter().all(|known| !known.taken);
        if fresh {
            partition.base = Some(start);
        }
        let base = *partition.base.get_or_insert(start);
        partition.floor = committed.filter(|committed| *committed <= partition.end);
        partition.asked = i64::MIN;
        let first = partition.records.partition_point(|known| known.input.offset < start);
        let left = partition.records[..first]
            .iter()
            .find(|known| known.visible && known.input.offset >= base && !known.done && !known.gone)
            .map(|known| known.input.offset);
        (partition.next, partition.met) = (first, first);
        for known in &mut partition.records[first..] {
            known.taken = false;
            known.failed.clear();
            known.needs.leaves.iter_mut().for_each(|leaf| (leaf.done, leaf.wrote) = (0, false));
        }
        let (name, end) = (partition.name.clone(), partition.end);
        if let Some(left) = left {
            self.breaks(|| format!("{name} starts at {start}, behind record {left}, which was never met"));
        }
        if let Some(committed) = committed
            && start < committed
            && committed <= end
            && !self.replays
        {
            self.breaks(|| format!("{name} starts at {start}, before its committed offset {committed}"));
        }
    }

    /// A record was given out.
    pub(super) fn taken(&mut self, index: usize, offset: i64) {
        let partition = &mut self.partitions[index];
        let name = partition.name.clone();
        while let Some(known) = partition.records.get(partition.next)
            && known.input.offset < offset
        {
            partition.next += 1;
            if known.visible && !known.gone {
                let left = known.input.offset;
                return self.breaks(|| format!("{name}: record {left} was left out before {offset}"));
            }
        }
        match partition.records.get_mut(partition.next) {
            Some(known) if known.input.offset == offset && known.visible => {
                known.taken = true;
                partition.next += 1;
            }
            _ => self.breaks(|| format!("{name}: record {offset} came twice, or is none")),
        }
    }

    /// The watermark stands here: what is below is met.
    pub(super) fn passed(&mut self, index: usize, watermark: i64, who: &str) {
        let partition = &mut self.partitions[index];
        while let Some(known) = partition.records.get_mut(partition.met)
            && known.input.offset < watermark
        {
            partition.met += 1;
            let waived = !known.visible || known.gone && !known.taken;
            if waived || known.taken && known.is_met() {
                known.done = true;
                continue;
            }
            let name = partition.name.clone();
            let (offset, taken) = (known.input.offset, known.taken);
            let missing: Vec<String> = known.needs.leaves.iter().map(Leaf::told).collect();
            return self.breaks(|| {
                let was = if taken { "is not met" } else { "was never taken" };
                format!("{who} of {name} passed to {watermark}, and record {offset} {was}: {missing:?}")
            });
        }
    }

    /// A commit was asked for.
    pub(super) fn commit(&mut self, index: usize, offset: i64) {
        let partition = &mut self.partitions[index];
        let (name, floor, end) = (partition.name.clone(), partition.floor, partition.end);
        let before = std::mem::replace(&mut partition.asked, offset);
        if offset < before {
            self.breaks(|| format!("the commit of {name} fell from {before} to {offset}"));
        }
        if floor.is_some_and(|floor| offset < floor) {
            self.breaks(|| format!("{name}: commit of {offset} below the floor {floor:?}"));
        }
        if offset > end {
            self.breaks(|| format!("{name}: commit of {offset} beyond the end {end}"));
        }
        // The floor may be committed again while a replay is below it.
        if floor != Some(offset) {
            self.passed(index, offset, "the commit");
        }
    }

    /// The record of a row, with its partition, and the leaf that the row is; breaks where there is none.
    fn leaf(&mut self, row: &Row, place: Place) -> Option<(usize, usize, usize, bool)> {
        let Some((partition, index)) = self.numbers.get(row.number as usize).copied() else {
            self.breaks(|| format!("{place:?} got {row:?}, which comes from no record"));
            return None;
        };
        let known = &self.partitions[partition].records[index];
        let is_it = |leaf: &&Leaf| leaf.place == place && leaf.label == row.label;
        let mut fitting = known.needs.leaves.iter().enumerate().filter(|(_, leaf)| is_it(leaf));
        let first = fitting.clone().find(|(_, leaf)| leaf.done == 0).or_else(|| fitting.clone().next());
        let Some((leaf, _)) = first else {
            let all: Vec<String> = known.needs.leaves.iter().map(Leaf::told).collect();
            self.breaks(|| format!("{place:?} got {row:?}; the flow makes {all:?}"));
            return None;
        };
        let alone = fitting.nth(1).is_none();
        if !known.taken {
            let offset = known.input.offset;
            let name = self.partitions[partition].name.clone();
            self.breaks(|| format!("{place:?} got {row:?} of {name} {offset}, which was not taken"));
            return None;
        }
        Some((partition, index, leaf, alone))
    }

    /// A row was written to an output.
    pub(super) fn written(&mut self, output: usize, to: i32, row: &Row) {
        let Some((partition, index, leaf, alone)) = self.leaf(row, Place::Topic(output)) else { return };
        let known = &mut self.partitions[partition].records[index];
        let offset = known.input.offset;
        let leaf = &mut known.needs.leaves[leaf];
        leaf.done += 1;
        if leaf.done > 1 {
            return self.breaks(|| format!("output {output} got {row:?} twice in one run"));
        }
        if leaf.error || self.disordered.contains(&output) {
            return;
        }
        let terminal = leaf.terminal;
        if alone {
            let last = self.terminals.insert((terminal, partition, to), offset).unwrap_or(i64::MIN);
            if last >= offset {
                self.breaks(|| {
                    format!(
                        "output {output}/{to}, terminal {terminal}: {row:?} of {offset} came after {last}"
                    )
                });
            }
        }
        if self.prompt {
            let last = self.outputs.insert((output, partition, to), offset).unwrap_or(i64::MIN);
            if last > offset {
                self.breaks(|| format!("output {output}/{to}: {row:?} of {offset} came after {last}"));
            }
        }
    }

    /// An output refuses a row for good.
    pub(super) fn refused(&mut self, output: usize, row: &Row) {
        self.disordered.insert(output);
        self.fails(Place::Topic(output), row, ErrorKind::Delivery);
    }

    /// A sink was given a row.
    pub(super) fn sink_given(&mut self, sink: usize, row: &Row) {
        let Some((partition, index, leaf, _)) = self.leaf(row, Place::Sink(sink)) else { return };
        let known = &mut self.partitions[partition].records[index];
        let offset = known.input.offset;
        let leaf = &mut known.needs.leaves[leaf];
        let (done, error, terminal) = (leaf.done, leaf.error, leaf.terminal);
        let first = !std::mem::replace(&mut leaf.wrote, true);
        if done > 0 {
            return self.breaks(|| format!("sink {sink} was given {row:?} again, which it had completed"));
        }
        if error {
            return;
        }
        let waiting = self.waiting.entry((terminal, partition)).or_default();
        waiting.remove(&offset);
        if let Some(before) = waiting.first().copied().filter(|before| *before < offset)
            && first
            && !self.stopping
        {
            self.breaks(|| format!("sink {sink} was given {row:?} of {offset} past {before}, which waits"));
        }
        if first {
            let last = self.terminals.insert((terminal, partition, -1), offset).unwrap_or(i64::MIN);
            if last >= offset {
                self.breaks(|| format!("sink {sink} was given {row:?} of {offset} after {last}"));
            }
        }
    }

    /// A sink asks to be given a row again.
    pub(super) fn sink_waits(&mut self, sink: usize, row: &Row) {
        let Some((partition, index, leaf, _)) = self.leaf(row, Place::Sink(sink)) else { return };
        let known = &self.partitions[partition].records[index];
        let leaf = &known.needs.leaves[leaf];
        if !leaf.error {
            self.waiting.entry((leaf.terminal, partition)).or_default().insert(known.input.offset);
        }
    }

    /// A sink completes a row.
    pub(super) fn sunk(&mut self, sink: usize, row: &Row) {
        let Some((partition, index, leaf, _)) = self.leaf(row, Place::Sink(sink)) else { return };
        self.partitions[partition].records[index].needs.leaves[leaf].done += 1;
    }

    /// A sink failed on this row alone, or said so of it.
    pub(super) fn sink_failed(&mut self, sink: usize, row: &Row, kind: ErrorKind) {
        self.fails(Place::Sink(sink), row, kind);
    }

    fn fails(&mut self, place: Place, row: &Row, kind: ErrorKind) {
        let Some((partition, index, leaf, _)) = self.leaf(row, place) else { return };
        let known = &mut self.partitions[partition].records[index];
        known.failed.push((known.needs.leaves[leaf].like, kind));
    }

    /// Whether a failure of this kind of this row stops the flow.
    pub(super) fn is_final(&self, sink: usize, row: &Row) -> bool {
        let Some((partition, index)) = self.numbers.get(row.number as usize) else { return false };
        let known = &self.partitions[*partition].records[*index];
        fn find(needs: &[Need], leaf: usize) -> Option<bool> {
            needs.iter().find_map(|need| match need {
                Need::Written { refused, .. } => refused.as_ref().and_then(|needs| find(needs, leaf)),
                Need::Sunk { leaf: own, delivery, .. } if *own == leaf => Some(delivery.is_none()),
                Need::Sunk { business, delivery, .. } => {
                    let mut both = business.iter().chain(delivery);
                    both.find_map(|needs| find(needs, leaf))
                }
            })
        }
        let leaves = known.needs.leaves.iter();
        let leaf =
            leaves.into_iter().position(|leaf| leaf.place == Place::Sink(sink) && leaf.label == row.label);
        leaf.and_then(|leaf| find(&known.needs.all, leaf)).unwrap_or(false)
    }

    /// Where a partition ends.
    pub(super) fn end(&self, partition: usize) -> i64 {
        self.partitions[partition].end
    }

    /// An offset that a record stands at which was not given out in this run.
    pub(super) fn untaken(&self, partition: usize) -> Option<i64> {
        let records = &self.partitions[partition].records;
        records.iter().rev().find(|known| !known.taken && !known.gone).map(|known| known.input.offset)
    }

    /// What is not done yet; empty when every record is met or gone.
    pub(super) fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for partition in &self.partitions {
            let base = partition.base.unwrap_or(0);
            let open = partition
                .records
                .iter()
                .find(|known| known.input.offset >= base && known.visible && !known.gone && !known.done);
            left.extend(open.map(|known| {
                let leaves: Vec<String> = known.needs.leaves.iter().map(Leaf::told).collect();
                format!("{} {}: {leaves:?}", partition.name, known.input.offset)
            }));
        }
        left
    }
}

impl Leaf {
    fn told(&self) -> String {
        format!("{:?} {} ×{}", self.place, self.label, self.done)
    }
}
