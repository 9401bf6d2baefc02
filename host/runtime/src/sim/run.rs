//! What one process has done with what it was given, and what it may therefore say of it.
//!
//! A record is *met* when all that its flow makes of it is durable, in the run that took it. A row belongs to the run
//! whose client sent it: one that lands when its process is gone says nothing about a later run.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use loom_delivery::RunId;
use loom_types::Moment;

use super::excuse::Excuse;
use super::inputs::Inputs;
use super::needs::Progress;

/// What the group had for a partition when a run started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub offset: i64,
    /// A host of ours wrote it.
    pub ours: bool,
    /// Which one.
    pub run: Option<RunId>,
    /// It is of the topic that the process looked up.
    pub same_topic: bool,
    /// How far a replay had come.
    pub replay: Option<i64>,
}

/// How a partition starts in a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Assignment {
    pub start: i64,
    /// Where the partition ended when the process looked, as far as it is given out.
    pub high: i64,
    /// Its log was cut here, below the start, and the epoch that was committed with that tells it.
    pub back: Option<i64>,
    pub found: Option<Found>,
    /// The group has nothing for its whole topic, and the reset goes to the end.
    pub to_the_end: bool,
    /// The start was asked for.
    pub asked: bool,
    /// What is read is another topic than the one that the process looked up.
    pub torn: bool,
}

/// A partition as one run reads it.
#[derive(Debug)]
struct Reading {
    floor: Option<i64>,
    /// A floor above a later cut of the log. While a replay is below the cut nothing tells it, and the floor is committed
    /// again.
    old_floor: Option<i64>,
    /// The next offset to be given out.
    next: i64,
    /// Where the last watermark stood.
    met: i64,
    /// The highest offset that a commit asked for.
    asked: i64,
    /// The log was cut here, below what was read, and reading did not go on yet.
    cut: Option<i64>,
    /// It was cut here before this run was given the partition, below its start: its client goes back once.
    back: Option<i64>,
    /// The lowest place of all where it was cut: offsets came again from there.
    lowest_cut: Option<i64>,
    /// The topic was made again under it: whatever it does there, the next start does not build on it.
    torn: bool,
    /// The start that was chosen for it, where the group had nothing.
    chosen: Option<i64>,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// How it names itself in what it commits.
    pub id: Option<RunId>,
    readings: BTreeMap<usize, Reading>,
    /// Of the records that it took, by number.
    pub(super) progress: HashMap<usize, Progress>,
    /// How often a step answered `retry` to a record.
    tries: HashMap<(usize, usize), u32>,
    /// The last source offset, and the row among those of that record, by terminal, source partition and output partition.
    pub(super) terminals: HashMap<(usize, usize, i32), (i64, usize)>,
    /// The same by output, where nothing may be overtaken.
    pub(super) outputs: HashMap<(usize, usize, i32), i64>,
    /// Outputs that refused rows: what came back is sent again, in no order that is promised.
    pub disordered: BTreeSet<usize>,
    /// Rows that a sink asked to be given again, by terminal and source partition: their offsets.
    pub(super) waiting: HashMap<(usize, usize), BTreeSet<i64>>,
    /// The process stops: what waits is given up.
    pub stopping: bool,
    /// It has found that somebody else set the group's offsets: it may not overwrite them.
    pub shut: bool,
    /// It watches another's lease: until then it may commit no more than a start that the reset chose.
    pub held_until: Option<Moment>,
    /// Since when it watches, or takes over.
    pub watches_since: Option<Moment>,
    /// When it began to read.
    pub since: Moment,
    pub take_over: bool,
    /// What it takes is met with that.
    pub once: bool,
    /// The run that owned the partitions when it started, and lived.
    pub elder: Option<usize>,
    /// The process is gone.
    pub over: bool,
    pub excuses: Vec<Excuse>,
}

pub(super) type Held = Result<(), String>;

impl Reading {
    /// The log is cut: it keeps what is below this.
    fn is_cut(&mut self, keep: i64) {
        let lower = |other: Option<i64>| Some(other.map_or(keep, |other| other.min(keep)));
        (self.cut, self.lowest_cut) = (lower(self.cut), lower(self.lowest_cut));
        self.old_floor = self.floor.take_if(|floor| *floor > keep).or(self.old_floor);
    }
}

impl Run {
    pub(super) fn starts(now: Moment, take_over: bool, once: bool) -> Run {
        Run { since: now, take_over, once, ..Run::default() }
    }

    pub(super) fn excuse(&mut self, why: Excuse) {
        if !self.excuses.contains(&why) {
            self.excuses.push(why);
        }
    }

    pub(super) fn reads(&self, partition: usize) -> bool {
        self.readings.contains_key(&partition)
    }

    /// Whether this offset is the start that was chosen for it, since the group had nothing.
    pub(super) fn is_chosen(&self, partition: usize, offset: i64) -> bool {
        self.readings.get(&partition).is_none_or(|reading| reading.chosen == Some(offset))
    }

    /// Whether it works as ever: it does not stop, and nothing was found that will stop it.
    pub(super) fn is_sound(&self) -> bool {
        !self.over && !self.stopping && !self.shut
    }

    /// The records that it took.
    pub(super) fn all_taken(&self) -> impl Iterator<Item = usize> {
        self.progress.keys().copied()
    }

    pub(super) fn has_taken(&self, number: usize) -> bool {
        self.progress.contains_key(&number)
    }

    /// A partition is read from a start. `cut`: where its log was cut since the run that committed this start began to
    /// read it.
    pub(super) fn assigned(
        &mut self,
        inputs: &mut Inputs,
        partition: usize,
        how: Assignment,
        cut: Option<i64>,
    ) -> Held {
        let Assignment { start, high, back, found, to_the_end, asked, torn } = how;
        let name = inputs.logs[partition].name.clone();
        let known = found.filter(|found| found.same_topic);
        let floor = known.map(|found| found.offset.min(high));
        let mut reading = Reading {
            floor,
            old_floor: None,
            next: start,
            met: start,
            asked: i64::MIN,
            cut: None,
            back,
            lowest_cut: None,
            torn,
            chosen: found.is_none().then_some(start),
        };
        let end = inputs.logs[partition].end;
        if !torn && start > end {
            // Since the process looked.
            reading.is_cut(end);
        }
        self.readings.insert(partition, reading);
        if torn {
            return Ok(());
        }
        if to_the_end && found.is_none() || found.is_some_and(|found| !found.ours) {
            inputs.waive(partition, i64::MIN, start);
        } else if let (Some(cut), None) = (cut.filter(|_| known.is_some()), back) {
            // Nothing tells the process that other records stand there.
            inputs.waive(partition, cut, start);
        }
        if let Some(left) = inputs.owed(partition, i64::MIN, back.unwrap_or(start)) {
            let left = left.input.offset;
            return Err(format!("{name} starts at {start}, behind record {left}, which was never met"));
        }
        if let Some(found) = known
            && start < found.offset
            && found.offset <= high
            && found.replay.is_none()
            && !asked
        {
            return Err(format!("{name} starts at {start}, before its committed offset {}", found.offset));
        }
        Ok(())
    }

    /// A record was given out.
    pub(super) fn taken(&mut self, inputs: &Inputs, partition: usize, offset: i64) -> Held {
        let name = &inputs.logs[partition].name;
        let Some(reading) = self.readings.get_mut(&partition) else {
            return Err(format!("{name} gave a record out, and is not read"));
        };
        let at = inputs.at(partition, offset).filter(|number| inputs.records[*number].visible);
        if reading.torn {
            if let Some(number) = at {
                self.works_on(inputs, number);
            }
            return Ok(());
        }
        if let Some(back) = reading.back.take()
            && let Some(left) = inputs.owed(partition, back, reading.next)
        {
            let left = left.input.offset;
            return Err(format!(
                "{name} gave {offset} out, was cut at {back}, and record {left} is left out"
            ));
        }
        // It was not read beyond the cut, if it gives records out there without being sought.
        let next = reading.next;
        reading.cut.take_if(|cut| next <= *cut && offset >= *cut);
        let between = inputs.between(partition, reading.next, offset).iter();
        let mut left =
            between.map(|number| &inputs.records[*number]).filter(|known| known.visible && !known.gone);
        if let Some(left) = left.next() {
            return Err(format!("{name}: record {} was left out before {offset}", left.input.offset));
        }
        match at.filter(|_| offset >= reading.next) {
            Some(number) => {
                reading.next = offset + 1;
                self.works_on(inputs, number);
                Ok(())
            }
            None => Err(format!("{name}: record {offset} came twice, or is none")),
        }
    }

    fn works_on(&mut self, inputs: &Inputs, number: usize) {
        let needs = &inputs.records[number].needs;
        self.progress.insert(number, Progress::new(needs));
        if needs.may_stop() {
            self.excuse(Excuse::Unrouted);
        }
    }

    /// The step whose retries are counted answered `retry`: whether they are used up.
    pub(super) fn tried(&mut self, step: usize, number: usize, retries: u32) -> bool {
        let tries = self.tries.entry((step, number)).or_default();
        *tries += 1;
        let spent = *tries > retries;
        if let Some(progress) = self.progress.get_mut(&number).filter(|_| spent) {
            progress.spent.push(step);
        }
        spent
    }

    /// Reading goes on somewhere else.
    pub(super) fn sought(&mut self, inputs: &mut Inputs, partition: usize, to: i64) -> Held {
        let name = inputs.logs[partition].name.clone();
        let Some(reading) = self.readings.get_mut(&partition) else { return Ok(()) };
        if reading.torn {
            return Ok(());
        }
        let back = reading.back.take();
        if let Some(cut) = reading.cut.take() {
            // What was written there since the log was cut is left out, with a warning.
            inputs.waive(partition, cut, to);
            // A second cut, below where it goes on after the first.
            reading.cut = Some(cut).filter(|_| to > inputs.logs[partition].end);
        } else if to >= reading.next {
            return Ok(());
        } else if back.is_none_or(|back| back > to) {
            let next = reading.next;
            return Err(format!("{name} is sought back from {next} to {to}, and its log was not cut"));
        }
        reading.next = to;
        reading.lowest_cut = Some(reading.lowest_cut.map_or(to, |cut| cut.min(to)));
        (reading.met, reading.asked) = (reading.met.min(to), i64::MIN);
        reading.floor = reading.floor.or(reading.old_floor.take()).map(|floor| floor.min(to));
        Ok(())
    }

    /// The log was cut.
    pub(super) fn cut(&mut self, partition: usize, keep: i64) {
        if let Some(reading) = self.readings.get_mut(&partition) {
            reading.is_cut(keep);
        }
    }

    /// The lowest place where a partition's log was cut since it is read.
    pub(super) fn lowest_cut(&self, partition: usize) -> Option<i64> {
        self.readings.get(&partition)?.lowest_cut
    }

    /// Whether what it reads of a partition is no more.
    pub(super) fn is_outside(&self, partition: usize) -> bool {
        self.readings.get(&partition).is_some_and(|reading| reading.torn || reading.cut.is_some())
    }

    /// The topic of a partition was made again.
    pub(super) fn torn(&mut self, partition: usize) {
        if let Some(reading) = self.readings.get_mut(&partition) {
            reading.torn = true;
        }
    }

    /// The watermark stands here: what is below is met.
    pub(super) fn passed(
        &mut self,
        inputs: &mut Inputs,
        partition: usize,
        watermark: i64,
        who: &str,
    ) -> Held {
        let Some(reading) = self.readings.get_mut(&partition).filter(|reading| !reading.torn) else {
            return Ok(());
        };
        // Behind a cut it is the old log's still, whose records there are gone.
        let watermark = reading.cut.map_or(watermark, |cut| watermark.min(cut));
        if watermark <= reading.met {
            return Ok(());
        }
        for number in inputs.between(partition, reading.met, watermark).to_vec() {
            let known = &mut inputs.records[number];
            let progress = self.progress.get(&number);
            if progress.is_some_and(|progress| self.once || known.needs.are_met(progress)) {
                known.done = true;
                continue;
            }
            if progress.is_none() && (!known.visible || known.gone || known.waived) {
                continue;
            }
            let (name, offset) = (&inputs.logs[partition].name, known.input.offset);
            let was = if progress.is_some() { "is not met" } else { "was never taken" };
            let missing = known.needs.told(progress);
            return Err(format!(
                "{who} of {name} passed to {watermark}, and record {offset} {was}: {missing:?}"
            ));
        }
        reading.met = watermark;
        Ok(())
    }

    /// A commit was asked for.
    pub(super) fn commit(&mut self, inputs: &mut Inputs, partition: usize, offset: i64) -> Held {
        let (name, end) = (inputs.logs[partition].name.clone(), inputs.logs[partition].end);
        let Some(reading) = self.readings.get_mut(&partition) else {
            return Err(format!("a commit of {name}, which is not read"));
        };
        if self.shut {
            return Err(format!("a commit of {name}, over what was set from outside"));
        }
        if reading.torn {
            return Ok(());
        }
        let before = std::mem::replace(&mut reading.asked, offset);
        // Below it, the run has found out that it is of a log that was cut.
        let fallen = reading.old_floor.take_if(|floor| offset < *floor);
        if offset < before && fallen != Some(before) {
            return Err(format!("the commit of {name} fell from {before} to {offset}"));
        }
        if reading.old_floor == Some(offset) {
            return Ok(());
        }
        let floor = reading.floor;
        if floor.is_some_and(|floor| offset < floor) {
            return Err(format!("{name}: commit of {offset} below the floor {floor:?}"));
        }
        if offset > end && reading.cut.is_none() {
            return Err(format!("{name}: commit of {offset} beyond the end {end}"));
        }
        // The floor may be committed again while a replay is below it.
        if floor == Some(offset) { Ok(()) } else { self.passed(inputs, partition, offset, "the commit") }
    }

    /// Whether offsets of a partition came again, for other records.
    pub(super) fn is_cut(&self, partition: usize) -> bool {
        self.readings.get(&partition).is_none_or(|reading| reading.torn || reading.lowest_cut.is_some())
    }
}
