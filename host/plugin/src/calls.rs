//! Calls a guest on many rows, and finds the rows that are to blame when a call does not come back.
//!
//! - Rows go in plugin batches, in the plain form one by one, and to what is about a batch all at once. A call on several
//!   rows without an answer is made again row by row, on a fresh instance after each trap, so that the poison row is found
//!   and its neighbours get their answers.
//! - Where running rows again could repeat what they did outside, a batch that trapped fails as a whole instead.
//! - A trapped instance is never used again; the next call makes a new one. So does a call on an instance that has
//!   come to hold too much.
//! - A row that fails alone because the instance was worn out by calls before it is tried once on a fresh one.
//! - Once the run is interrupted no further call is made, and the one under way is ended: its rows stay unanswered.
//! - When a fresh instance cannot be started, every row left in this run of calls has that failure, and the next run
//!   tries again.

use std::sync::Arc;

use loom_types::Batch;

use crate::answers::Cause;
use crate::fault::Fault;
use crate::instance::{CallTime, Instance};
use crate::limits::BATCH_ROWS;
use crate::node::{Interrupt, NodeContext};
use crate::plugin::{Plugin, StartError};
use crate::role::{Collector, Role, Unit};

/// One node's place for an instance.
pub(crate) struct Slot<R> {
    plugin: Plugin,
    node: NodeContext,
    time: CallTime,
    unit: Unit,
    batch_bytes: usize,
    /// Whether a batch that trapped fails as a whole, and no row of it is run again.
    pub(crate) fails_batches: bool,
    /// What ends a run of calls early.
    pub(crate) interrupt: Option<Interrupt>,
    /// What the first instance said; see [`Role::types`].
    types: Arc<[Arc<str>]>,
    live: Option<(Instance, R)>,
}

impl<R: Role> Slot<R> {
    /// Starts the first instance.
    pub(crate) fn new(plugin: &Plugin, node: NodeContext) -> Result<Self, StartError> {
        let limits = plugin.limits();
        let mut slot: Slot<R> = Slot {
            plugin: plugin.clone(),
            time: CallTime::new(node.timeout.unwrap_or(limits.timeout)),
            unit: R::unit(plugin),
            batch_bytes: limits.batch_bytes(),
            fails_batches: false,
            interrupt: None,
            node,
            types: Arc::default(),
            live: None,
        };
        let first = slot.start()?;
        slot.types = first.1.types().into();
        slot.live = Some(first);
        Ok(slot)
    }

    fn start(&self) -> Result<(Instance, R), StartError> {
        let mut instance = Instance::start(&self.plugin, &self.node, self.interrupt.as_ref())?;
        let _in_flight = self.plugin.loaded().beat.enter();
        let role = R::open(&self.plugin, &mut instance)?;
        instance.started();
        Ok((instance, role))
    }

    /// A fresh instance, which must say of itself what the first one said.
    fn start_again(&self) -> Result<(Instance, R), StartError> {
        let live = self.start()?;
        same_types(&self.plugin, &self.types, live.1.types())?;
        Ok(live)
    }

    /// What the plugin said that the types of its rows may be.
    pub(crate) fn types(&self) -> &Arc<[Arc<str>]> {
        &self.types
    }

    /// Calls the plugin on these rows, as [`Slot::run`] says.
    pub(crate) fn call(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> R::Answers {
        let mut collector = R::collector(batch, rows);
        let answered = self.run(batch, rows, allowance.max(1), &mut collector) as u32;
        R::answers(collector, answered)
    }

    /// Calls the guest on all rows, or until so many rows in a row ended in a trap or time-out, or until it is
    /// interrupted, which a first call that is quick comes before. How many rows have an answer.
    fn run(
        &mut self,
        batch: &Batch,
        rows: &[u32],
        allowance: u32,
        collector: &mut R::Collector<'_>,
    ) -> usize {
        let _in_flight = self.plugin.loaded().beat.enter();
        if let Some((instance, _)) = &mut self.live {
            instance.cut_by(self.interrupt.as_ref());
        }
        let mut run = Run { unstartable: None, streak: 0, allowance };
        let mut done = 0;
        while done < rows.len() {
            if done > 0 && self.is_interrupted() {
                return done;
            }
            let left = &rows[done..];
            let count = match self.unit {
                Unit::Row => 1,
                Unit::Batch => batch_rows(batch, left, self.batch_bytes),
                Unit::Whole => left.len(),
            };
            match self.attempt(&mut run, batch, &left[..count], collector) {
                Ok(()) => {
                    run.streak = 0;
                    done += count;
                }
                Err(fault) if fault.cause == Cause::Stopped => return done,
                Err(fault) if count == 1 || (self.fails_batches && fault.cause.is_trap()) => {
                    done += count;
                    let mut used_up = false;
                    for _ in 0..count {
                        used_up |= run.book(fault.clone(), collector);
                    }
                    if used_up {
                        return done;
                    }
                }
                Err(_) => {
                    for row in &left[..count] {
                        if done > 0 && self.is_interrupted() {
                            return done;
                        }
                        match self.attempt(&mut run, batch, std::slice::from_ref(row), collector) {
                            Ok(()) => {
                                run.streak = 0;
                                done += 1;
                            }
                            Err(fault) if fault.cause == Cause::Stopped => return done,
                            Err(fault) => {
                                done += 1;
                                if run.book(fault, collector) {
                                    return done;
                                }
                            }
                        }
                    }
                }
            }
        }
        done
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(Interrupt::is_set)
    }

    fn attempt(
        &mut self,
        run: &mut Run,
        batch: &Batch,
        rows: &[u32],
        collector: &mut R::Collector<'_>,
    ) -> Result<(), Fault> {
        let outcome = self.once(run, batch, rows, collector);
        match outcome {
            Err(fault) if fault.worn && rows.len() == 1 => self.once(run, batch, rows, collector),
            outcome => outcome,
        }
    }

    fn once(
        &mut self,
        run: &mut Run,
        batch: &Batch,
        rows: &[u32],
        collector: &mut R::Collector<'_>,
    ) -> Result<(), Fault> {
        if let Some(fault) = self.plugin.scripted(&self.node, batch, rows) {
            if fault.cause.is_trap() {
                self.live = None;
            }
            return Err(fault);
        }
        let (instance, role) = match &mut self.live {
            Some(live) => live,
            None => {
                if let Some(fault) = &run.unstartable {
                    return Err(fault.clone());
                }
                match self.start_again() {
                    Ok(live) => self.live.insert(live),
                    Err(error) => return Err(run.unstartable.insert(not_restarted(&error)).clone()),
                }
            }
        };
        instance.state().called_for(Some((batch, rows)));
        let outcome = role.call(instance, self.time, batch, rows, collector);
        if !instance.is_usable() || instance.is_worn() {
            self.live = None;
        }
        outcome
    }
}

impl<R> std::fmt::Debug for Slot<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("plugin", &self.plugin).field("node", &self.node).finish_non_exhaustive()
    }
}

/// The state of one run of calls.
struct Run {
    unstartable: Option<Fault>,
    streak: u32,
    allowance: u32,
}

impl Run {
    /// Books the next row's fault. Whether the allowance is used up.
    fn book(&mut self, fault: Fault, collector: &mut impl Collector) -> bool {
        self.streak = if fault.cause.is_trap() { self.streak + 1 } else { 0 };
        collector.fail(fault.cause, fault.reason);
        self.streak >= self.allowance
    }
}

/// Whether an instance says of itself what the first one said.
pub(crate) fn same_types(plugin: &Plugin, first: &[Arc<str>], fresh: &[Arc<str>]) -> Result<(), StartError> {
    if first == fresh {
        return Ok(());
    }
    let reason = "named other types than its first instance".to_owned();
    Err(StartError::Trap { plugin: plugin.name().to_owned(), during: "types", reason })
}

/// What the row is told that needed a fresh instance.
pub(crate) fn not_restarted(error: &StartError) -> Fault {
    let cause = match error {
        StartError::Timeout { .. } => Cause::Timeout,
        StartError::Stopped { .. } => Cause::Stopped,
        _ => Cause::Trap,
    };
    Fault {
        cause,
        reason: format!("a fresh instance could not be started: {error}"),
        worn: false,
        waited: cause == Cause::Timeout,
    }
}

/// How many of the rows go in the next plugin batch: as many as its bounds allow, and at least one.
pub(crate) fn batch_rows(batch: &Batch, rows: &[u32], bytes: usize) -> usize {
    // Rows that were made from one record share what they have from it: their columns can be smaller than they are.
    if rows.len() <= BATCH_ROWS && batch.is_plain() && all_bytes(batch) <= bytes {
        return rows.len();
    }
    let mut total = 0;
    let fit = rows
        .iter()
        .take(BATCH_ROWS)
        .take_while(|row| {
            total += batch.row_bytes(**row);
            total <= bytes
        })
        .count();
    fit.max(1).min(rows.len())
}

/// The bytes of the columns behind a batch: no fewer than those of its rows, where no two rows share any.
fn all_bytes(batch: &Batch) -> usize {
    let headers = batch
        .header_column()
        .map_or(0, |column| column.data().names().values().len() + column.data().values().values().len());
    let key = batch.key_column().map_or(0, |column| column.data().values().len());
    batch.payload_column().data().values().len() + key + headers
}

/// The failures of a column answer, in order; each names a row of its batch, and no row twice.
pub(crate) fn checked_failures<F>(rows: usize, failures: &mut [(u32, F)]) -> Result<(), String> {
    failures.sort_by_key(|(row, _)| *row);
    if let Some((row, _)) = failures.last()
        && *row as usize >= rows
    {
        return Err(format!("it names a failure of row {row}, and there are {rows} rows"));
    }
    match failures.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(format!("it names two failures of row {}", pair[0].0)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loom_types::{Batch, BatchBuilder, BytesBuilder, RecordOffset, RecordRef};

    use super::{batch_rows, checked_failures};

    fn batch(sizes: &[usize]) -> Batch {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        for size in sizes {
            builder
                .push(RecordRef {
                    topic: 0,
                    partition: 0,
                    offset: RecordOffset(0),
                    timestamp_ms: None,
                    key: None,
                    payload: Some(&vec![b'x'; *size]),
                    row: "",
                })
                .unwrap();
        }
        builder.finish()
    }

    #[test]
    fn a_batch_ends_at_its_bounds_and_a_larger_record_goes_alone() {
        let rows: Vec<u32> = (0..600).collect();
        assert_eq!(batch_rows(&batch(&[1; 600]), &rows, 1000), 512);
        assert_eq!(batch_rows(&batch(&[100; 600]), &rows, 1000), 10);
        assert_eq!(batch_rows(&batch(&[5000, 1]), &[0, 1], 1000), 1);
        assert_eq!(batch_rows(&batch(&[1, 5000, 1]), &[0, 1, 2], 1000), 1);
        assert_eq!(batch_rows(&batch(&[1]), &[], 1000), 0);
    }

    #[test]
    fn rows_that_share_their_bytes_are_counted_one_by_one() {
        let shared = batch(&[100]).select(&[0; 500]);
        let mut names = BytesBuilder::new();
        (0..500).for_each(|row| names.push(Some(row.to_string().as_bytes())).unwrap());
        let shared = shared.named(names.finish());
        assert_eq!(batch_rows(&shared, &(0..500).collect::<Vec<u32>>(), 1000), 10);
    }

    #[test]
    fn failures_are_sorted_and_checked() {
        let mut failures = [(2, "b"), (0, "a")];
        assert_eq!(checked_failures(3, &mut failures), Ok(()));
        assert_eq!(failures, [(0, "a"), (2, "b")]);
        assert!(checked_failures(2, &mut failures).is_err());
        assert!(checked_failures(3, &mut [(1, ""), (1, "")]).is_err());
        assert!(checked_failures::<()>(0, &mut []).is_ok());
    }
}
