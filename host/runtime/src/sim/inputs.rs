//! What the input topics hold, record by record, and which records nobody has to process any more.
//!
//! A record is *done* when a watermark passed it in a run that met all its needs. At the end every record is done, *gone*
//! (retention, compaction, an election, a transaction that was aborted, or the end of its topic took it before it was
//! given out) or *waived* (the group's offset was moved past it from outside, or the reset chose a later start).

use loom_types::TopicPartition;

use super::flow::Input;
use super::needs::Needs;

/// A record of an input.
#[derive(Debug)]
pub(super) struct Known {
    pub input: Input,
    pub partition: usize,
    pub needs: Needs,
    /// The source gives it out: it is no tombstone that is skipped.
    pub visible: bool,
    pub done: bool,
    pub gone: bool,
    pub waived: bool,
}

impl Known {
    /// Whether somebody still has to process it.
    fn is_owed(&self) -> bool {
        self.visible && !self.done && !self.gone && !self.waived
    }
}

/// An input partition's log.
#[derive(Debug)]
pub(super) struct Log {
    pub name: TopicPartition,
    /// Numbers of its records, by offset.
    order: Vec<usize>,
    pub end: i64,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    pub logs: Vec<Log>,
    /// By number.
    pub records: Vec<Known>,
}

impl Inputs {
    pub(super) fn add(&mut self, name: TopicPartition) {
        self.logs.push(Log { name, order: Vec::new(), end: 0 });
    }

    /// Records of a partition with offsets from `from`, below `to`: their numbers.
    pub(super) fn between(&self, partition: usize, from: i64, to: i64) -> &[usize] {
        let log = &self.logs[partition];
        let at =
            |offset: i64| log.order.partition_point(|number| self.records[*number].input.offset < offset);
        let (first, last) = (at(from), at(to));
        &log.order[first..last.max(first)]
    }

    /// The record at an offset.
    pub(super) fn at(&self, partition: usize, offset: i64) -> Option<usize> {
        self.between(partition, offset, offset + 1).first().copied()
    }

    pub(super) fn produced(&mut self, known: Known) {
        let log = &mut self.logs[known.partition];
        log.end = known.input.offset + 1;
        log.order.push(self.records.len());
        self.records.push(known);
    }

    /// Records in this range need no start that gives them out.
    pub(super) fn waive(&mut self, partition: usize, from: i64, to: i64) {
        for number in self.between(partition, from, to).to_vec() {
            self.records[number].waived = true;
        }
    }

    /// Records in this range are gone.
    pub(super) fn lose(&mut self, partition: usize, from: i64, to: i64) {
        for number in self.between(partition, from, to).to_vec() {
            self.records[number].gone = true;
        }
    }

    /// An election cuts a log.
    pub(super) fn cut(&mut self, partition: usize, keep: i64) {
        self.lose(partition, keep, i64::MAX);
        let kept = self.between(partition, i64::MIN, keep).len();
        let log = &mut self.logs[partition];
        log.order.truncate(kept);
        log.end = log.end.min(keep);
    }

    /// A topic is made again: its partition begins anew.
    pub(super) fn remade(&mut self, partition: usize) {
        self.lose(partition, i64::MIN, i64::MAX);
        let log = &mut self.logs[partition];
        log.order.clear();
        log.end = 0;
    }

    /// The first record in this range that somebody still has to process.
    pub(super) fn owed(&self, partition: usize, from: i64, to: i64) -> Option<&Known> {
        let numbers = self.between(partition, from, to).iter();
        numbers.map(|number| &self.records[*number]).find(|known| known.is_owed())
    }
}
