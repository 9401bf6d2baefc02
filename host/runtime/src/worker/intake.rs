//! One poll cycle: records are taken from ready partitions in turn, registered, and walked through the flow.
//!
//! A partition is not polled while rows of it wait anywhere in the worker, while it is at its bound, while what rows keep in
//! memory is, or while its start is not committed. At a bound the sinks are flushed, and the batch is sent on that holds the
//! partition's oldest record, so that no bound above a partition's can deadlock it. So it is wherever a partition waits for its
//! records to be resolved.

use std::sync::Arc;
use std::time::Duration;

use loom_delivery::{Mutation, Token, mutated};
use loom_kafka::{Budget, KafkaError, Kind, Notice};
use loom_types::PartitionId;

use super::{End, Moment, Partition, Trouble, Worker};
use crate::keeper::Commits;
use crate::nodes::{Collect, NodeId, Op};
use crate::rows::RowSet;

/// Bytes of one poll cycle, at most; one record may pass it alone.
const CYCLE_BYTES: usize = 1 << 20;

/// What a client says of a partition is logged again after so long.
const TOLD_AGAIN: Duration = Duration::from_secs(30);

/// What one cycle took, of the batch that is built: rows with their tokens.
#[derive(Default)]
struct TakenRows {
    ids: Vec<u32>,
    tokens: Vec<Token>,
}

impl Worker {
    /// Takes records and walks them; whether there were any, or there may be more.
    pub(super) fn intake(&mut self, now: Moment) -> bool {
        // A wake-up does not say whose it is. Should one be lost, it costs no more than the back-off.
        let stale = now.since(self.last_look) >= self.flow.shared.plan.consumer.poll_backoff;
        if std::mem::take(&mut self.woken) || stale {
            self.partitions.iter_mut().for_each(|partition| partition.ready = true);
            self.last_look = now;
        }
        if self.flow.shared.holdings.wants_look(now) {
            self.flow.look();
        }
        let held = self.held();
        let batch_size = self.flow.shared.plan.consumer.batch_size;
        let mut taken = TakenRows::default();
        let mut more = false;
        // Whether some partition may still bring records by itself.
        let mut open = false;
        let count = self.partitions.len();
        for turn in 0..count {
            let index = (self.cursor + turn) % count;
            let left = Budget {
                rows: batch_size.saturating_sub(self.builder.len()),
                bytes: CYCLE_BYTES.saturating_sub(self.builder.bytes()),
            };
            if left.rows == 0 || left.bytes == 0 {
                more = true;
                self.cursor = index;
                break;
            }
            // What was made of records waits for sinks like the records themselves.
            let id = PartitionId(index as u32);
            let full = !self.flow.shared.room().is_there(id) || self.flow.shared.holdings.stop(id);
            if full || self.waits_to_be_empty(index) {
                self.at_bound(index);
            }
            if held[index] || full || !self.is_inside(index) {
                continue;
            }
            if self.partitions[index].ready && self.may_start(index) {
                let Some(budget) = self.within_bounds(index, left) else { continue };
                more |= self.take(index, budget, &mut taken);
            }
            open |= !self.partitions[index].at_end;
        }
        if taken.tokens.is_empty() {
            if !self.builder.is_empty() {
                drop(self.builder.finish());
            }
            self.input_ended = if more || open { None } else { self.input_ended.or(Some(now)) };
            return more;
        }
        self.input_ended = None;
        self.flow.shared.counters.cycles += 1;
        if !self.flow.shared.accounts.is_tracked() {
            // At most once: before the work, which may take longer than the interval.
            self.commit(now);
        }
        let TakenRows { ids, tokens } = taken;
        self.flow.shared.holdings.add(self.builder.capacity());
        let rows = RowSet { batch: Arc::new(self.builder.finish()), ids, tokens, route: None };
        // A row that fails before its first node has none to name: the walk begins at the entry.
        self.flow.run(self.flow.entry, NodeId(0), rows);
        true
    }

    /// Takes from one partition; whether it has more.
    fn take(&mut self, index: usize, budget: Budget, rows: &mut TakenRows) -> bool {
        let id = PartitionId(index as u32);
        let before = self.builder.len();
        let position = self.flow.shared.accounts.tracker(id).position();
        let taken = self.source.take(id, budget, &mut self.builder);
        let now = self.flow.shared.now;
        let accounts = &mut self.flow.shared.accounts;
        accounts.set_now(id, now);
        let repeated = accounts.tracker(id).ledger().repeated;
        for row in before..self.builder.len() {
            let offset = self.builder.offset(row);
            if !accounts.admit(id, offset) {
                continue;
            }
            let bytes = u32::try_from(self.builder.row_bytes(row)).unwrap_or(u32::MAX);
            rows.ids.push(row as u32);
            rows.tokens.push(accounts.register(id, offset, bytes));
        }
        let again = accounts.tracker(id).ledger().repeated - repeated;
        if again > 0 {
            let name = &self.partitions[index].name;
            tracing::warn!(
                topic = &*name.topic,
                partition = name.partition,
                position = position.0,
                records = again,
                "the Kafka client gave records out a second time; they are ignored"
            );
        }
        if let Some(epoch) = taken.leader_epoch {
            self.partitions[index].epochs.read(position, epoch);
            self.look_below_floor(index, position, epoch);
        }
        let accounts = &mut self.flow.shared.accounts;
        if let Some(position) = taken.position {
            accounts.advance(id, position, taken.skipped);
        }
        if let Some(end) = taken.end {
            let before = accounts.tracker(id).position();
            if end > before {
                self.partitions[index].epochs.passed(before);
            }
            if let Some(floor) = accounts.ended(id, end, taken.log_end) {
                self.tell_floor_fell(index, floor, end);
            }
        }
        let partition = &mut self.partitions[index];
        partition.ready = taken.more;
        if taken.rows > 0 || taken.more {
            partition.at_end = false;
        }
        if taken.end.is_some() {
            partition.at_end = true;
        }
        if taken.rows > 0 || taken.end.is_some() {
            partition.trouble = None;
            partition.broken = None;
        }
        if let Some(notice) = taken.notice {
            self.noticed(index, notice);
        }
        taken.more
    }

    /// The partitions that rows wait in, by index.
    pub(crate) fn held(&self) -> Vec<bool> {
        let mut held = vec![false; self.partitions.len()];
        for partition in self.flow.outputs.pending() {
            held[partition.index()] = true;
        }
        for id in &self.busy {
            match &self.flow.nodes[id.0].op {
                Op::Plugin(node) => node.holding().for_each(|partition| held[partition.index()] = true),
                Op::Waiting(node) => node.holding().for_each(|partition| held[partition.index()] = true),
                Op::Batch(node) => {
                    node.holding().into_iter().for_each(|partition| held[partition.index()] = true);
                }
                Op::Sink(node) => node.sink.holding().for_each(|partition| held[partition.index()] = true),
                _ => {}
            }
        }
        held
    }

    /// A start that was chosen for the group is committed before the first record: else a crash would choose again.
    /// At most once nothing is read while another's lease is watched: what is read is committed soon, and may not be then.
    fn may_start(&mut self, index: usize) -> bool {
        if self.leaves_reading_to_the_owner() {
            return false;
        }
        let partition = &mut self.partitions[index];
        if partition.commit_first
            && (self.commits.acknowledged(PartitionId(index as u32)).is_some()
                || mutated(Mutation::StartIsNotCommitted))
        {
            partition.commit_first = false;
        }
        !partition.commit_first
    }

    /// See [`Worker::may_start`].
    pub(crate) fn leaves_reading_to_the_owner(&self) -> bool {
        !self.flow.shared.accounts.is_tracked() && self.gate.get() == Commits::Held
    }

    /// The budget within the partition's bounds; none at a bound.
    fn within_bounds(&mut self, index: usize, left: Budget) -> Option<Budget> {
        let outstanding = self.flow.shared.accounts.tracker(PartitionId(index as u32)).outstanding();
        let bounds = self.flow.shared.bounds;
        let records = bounds.records.saturating_sub(outstanding.records);
        let bytes = bounds.bytes.saturating_sub(outstanding.bytes);
        if (records == 0 || bytes == 0) && mutated(Mutation::BoundIsNoReason) {
            return None;
        }
        if records == 0 || bytes == 0 {
            self.at_bound(index);
            return None;
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        Some(Budget { rows: left.rows.min(records), bytes: left.bytes.min(bytes) })
    }

    /// A partition waits for its oldest record: it may be in a batch that is not full, or in a sink.
    fn at_bound(&mut self, index: usize) {
        let id = PartitionId(index as u32);
        let accounts = &self.flow.shared.accounts;
        if let Some(oldest) = accounts.tracker(id).oldest() {
            self.ask_for_batches(|node| node.ask_for(id, oldest));
        } else if !accounts.is_tracked() {
            self.ask_for_batches(Collect::ask);
        }
        self.ask_flushes();
    }

    /// Has every sink flush as soon as it can.
    fn ask_flushes(&mut self) {
        for id in self.each_sink() {
            if let Op::Sink(node) = &mut self.flow.nodes[id.0].op {
                node.sink.ask_flush();
            }
        }
    }

    fn noticed(&mut self, index: usize, notice: Notice) {
        match notice {
            Notice::OutOfRange => self.ask_where(index),
            Notice::Cut { end } => self.was_cut(index, end),
            Notice::Broken { first, error } => self.is_broken(index, first, error),
            Notice::Failed(error) => match error.kind {
                // What is broken in the log, or away, holds its partition only, and is never taken for a gap. A topic that
                // is gone is the keeper's to tell.
                Kind::Transient | Kind::Coordinator | Kind::Other | Kind::UnknownTopic => {
                    self.trouble(index, &error, "the partition cannot be read at the moment");
                }
                // An input that is no Kafka topic and is broken somewhere: it ends here, and names its own place. What came
                // before in other partitions is still to be taken.
                Kind::Configuration if matches!(self.end, End::AtEndOfInput { .. }) => {
                    self.partitions[index].at_end = true;
                    self.broken_input.get_or_insert(error.message);
                }
                Kind::Configuration => self.flow.shared.fail(format!("{}; the flow stops", error.message)),
                _ => {
                    let name = &self.partitions[index].name;
                    let error =
                        error.naming_right("Read", &name.topic, &self.flow.shared.plan.consumer.group_id);
                    let message = format!("{name} cannot be read: {error}; the flow stops");
                    self.flow.shared.fail(message);
                }
            },
        }
    }

    /// Remembers why a partition gives no records; logged when it is new, and now and then.
    fn trouble(&mut self, index: usize, error: &KafkaError, what: &str) {
        let now = self.flow.shared.now;
        let partition = &mut self.partitions[index];
        let text = error.to_string();
        if partition.may_tell(error.code, now) {
            let name = &partition.name;
            tracing::warn!(topic = &*name.topic, partition = name.partition, reason = %text, "{what}");
        }
        partition.trouble = Some(Trouble { text, last: now });
    }

    /// Where the run ends with its input: whether all of it was read and resolved, or nothing has moved for too long.
    pub(super) fn input_is_done(&mut self, now: Moment) -> bool {
        let (End::AtEndOfInput { timeout }, Some(since)) = (self.end, self.input_ended) else { return false };
        let read = self.partitions.iter().all(|partition| partition.at_end);
        if read && self.is_quiet() && self.flow.shared.accounts.ledger().outstanding == 0 {
            self.tell_broken_input();
            return true;
        }
        // What still waits for a verdict may come to the same batches.
        if read && self.is_decided() {
            self.ask_for_batches(Collect::ask);
        }
        self.ask_flushes();
        if now.since(since) >= timeout {
            self.unresolved_at_end(read);
            self.tell_broken_input();
            return true;
        }
        false
    }

    fn tell_broken_input(&mut self) {
        if let Some(message) = self.broken_input.take() {
            self.flow.shared.fail(format!("{message}; the flow stops"));
        }
    }

    pub(super) fn end_deadline(&self) -> Option<Moment> {
        match (self.end, self.input_ended) {
            (End::AtEndOfInput { timeout }, Some(since)) => Some(since + timeout),
            _ => None,
        }
    }

    fn unresolved_at_end(&mut self, read: bool) {
        let list: Vec<String> =
            self.flow.waiting().into_iter().map(|(place, rows)| format!("{rows} at {place}")).collect();
        let outstanding = self.flow.shared.accounts.ledger().outstanding;
        let oldest: Vec<String> = self
            .flow
            .shared
            .accounts
            .partitions()
            .filter_map(|(id, tracker)| {
                Some(format!("{} offset {}", self.partitions[id.index()].name, tracker.oldest()?))
            })
            .collect();
        let when = if read { "the input has ended" } else { "no further input can be read" };
        self.flow.shared.fail(format!(
            "{when}, and {} not resolved in time: {}; the oldest: {}",
            if outstanding == 1 { "1 record is".to_owned() } else { format!("{outstanding} records are") },
            list.join(", "),
            oldest.join(", ")
        ));
    }
}

impl Partition {
    /// Whether something of this code may be logged of the partition now; then it counts as told.
    pub(super) fn may_tell(&mut self, code: &'static str, now: Moment) -> bool {
        match self.told.iter_mut().find(|(other, _)| *other == code) {
            Some((_, told)) if now.since(*told) < TOLD_AGAIN => false,
            Some((_, told)) => {
                *told = now;
                true
            }
            None => {
                self.told.push((code, now));
                true
            }
        }
    }
}
