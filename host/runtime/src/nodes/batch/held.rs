//! A batch at its node while not all of its rows have their verdict.

use std::sync::Arc;

use loom_delivery::{Accounts, Token};
use loom_plugin::{BatchExpandAnswers, Cause, RowFailure};
use loom_types::{Batch, Moment, Moves, PartitionId, Place};

use super::calls::BatchAnswer;
use super::derive::{count, derive};
use crate::holdings::Seen;
use crate::late::{Judged, Stand, judge};
use crate::nodes::router::gather;
use crate::rows::{FailedRow, MADE_BYTES, Parts, Row, RowSet};

/// See the module's description.
pub(crate) struct Held {
    since: Moment,
    rows: Vec<Slot>,
    /// Those that its rows come from, each once.
    partitions: Vec<PartitionId>,
    /// What calls made of rows, where rows are made.
    made: Vec<BatchExpandAnswers>,
    /// Bytes that several calls may make of it together, since its rows go on as one batch; and what they made so far.
    room: usize,
    used: usize,
    /// A row was to be tried again: nothing of its partitions is called before the batch is through.
    is_late: bool,
    /// Its next call is not before this.
    due: Moment,
}

/// A row and where it stands.
enum Slot {
    /// To be called: `alone`, where a call with others did not come back.
    Waits { row: Row, alone: bool },
    /// Being called, until this moment at the latest.
    Called { row: Row, until: Moment },
    /// It goes on, as it is here.
    Passed(Row),
    /// What it became is in `made`, at this index and position.
    Made { row: Row, call: usize, position: u32 },
    /// It could not get through.
    Failed(FailedRow),
    /// Only while it changes.
    Gone,
}

impl Slot {
    fn row(&self) -> Option<&Row> {
        match self {
            Slot::Waits { row, .. }
            | Slot::Called { row, .. }
            | Slot::Passed(row)
            | Slot::Made { row, .. }
            | Slot::Failed(FailedRow { row, .. }) => Some(row),
            Slot::Gone => None,
        }
    }
}

/// How failures are judged.
#[derive(Clone, Copy)]
pub(super) struct Judgement {
    /// Calls after the first that a row gets which is to be tried again; none = without limit.
    pub retries: Option<u32>,
    pub now: Moment,
    /// For jitter, in 0..1.
    pub random: f64,
}

/// A batch that is through its node.
pub(crate) struct Through {
    /// In order; rows that go on as one batch are one set.
    pub on: Vec<RowSet>,
    pub failed: Vec<FailedRow>,
}

impl Held {
    pub(super) fn new(rows: RowSet, now: Moment) -> Held {
        let mut partitions: Vec<PartitionId> = Vec::new();
        for token in &rows.tokens {
            if partitions.last() != Some(&token.partition()) {
                partitions.push(token.partition());
            }
        }
        partitions.sort_unstable();
        partitions.dedup();
        let rows = rows.into_rows(0).map(|row| Slot::Waits { row, alone: false });
        Held {
            since: now,
            rows: rows.collect(),
            partitions,
            made: Vec::new(),
            room: MADE_BYTES,
            used: 0,
            is_late: false,
            due: Moment::START,
        }
    }

    /// Shows every row that is here, to whoever counts what they keep.
    pub(super) fn show(&self, seen: &mut Seen) {
        for slot in &self.rows {
            if let Some(row) = slot.row() {
                seen.waits(row, matches!(slot, Slot::Called { .. }));
            }
        }
        self.made.iter().for_each(|made| seen.batch(&made.rows));
    }

    /// Rows that were copied go on as their copies. Those of one batch do so together, so that a call finds them in one.
    pub(super) fn follow(&mut self, moves: &Moves) {
        for slot in &mut self.rows {
            match slot {
                Slot::Waits { row, .. }
                | Slot::Called { row, .. }
                | Slot::Passed(row)
                | Slot::Made { row, .. }
                | Slot::Failed(FailedRow { row, .. }) => row.follow(moves),
                Slot::Gone => {}
            }
        }
    }

    pub(super) fn partitions(&self) -> &[PartitionId] {
        &self.partitions
    }

    /// Whether a row of it was to be tried again.
    pub(super) fn is_late(&self) -> bool {
        self.is_late
    }

    /// Whether a row waits here that the rest of its partition waits for. What a row of several records stands for is not
    /// looked up: it may be the one.
    pub(super) fn may_hold_oldest(&self, accounts: &Accounts) -> bool {
        self.rows.iter().filter_map(Slot::row).any(|row| {
            accounts.stands_for_several(&row.token)
                || accounts.offset(&row.token) == accounts.tracker(row.partition()).oldest()
        })
    }

    /// Whether every row has its verdict.
    pub(super) fn is_through(&self) -> bool {
        !self.rows.iter().any(|slot| matches!(slot, Slot::Waits { .. } | Slot::Called { .. }))
    }

    /// When it may be called, where there is something to call.
    pub(super) fn next_call(&self) -> Option<Moment> {
        self.rows.iter().any(|slot| matches!(slot, Slot::Waits { .. })).then_some(self.due)
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Calls what is next: a row that is to be alone, or all rows that wait, at most so many. Their positions.
    pub(super) fn call(&mut self, most: usize, until: impl Fn(usize) -> Moment) -> Vec<u32> {
        let alone = self.rows.iter().position(|slot| matches!(slot, Slot::Waits { alone: true, .. }));
        let positions: Vec<u32> = match alone {
            Some(position) => vec![position as u32],
            None => {
                let waits = self.rows.iter().enumerate();
                let waits = waits.filter(|(_, slot)| matches!(slot, Slot::Waits { .. })).take(most);
                waits.map(|(position, _)| position as u32).collect()
            }
        };
        let until = until(positions.len());
        for position in &positions {
            self.change(*position, |row| Slot::Called {
                row: Row { attempts: row.attempts + 1, ..row },
                until,
            });
        }
        positions
    }

    /// The batch that these rows are of, and their ids in it. No row of it has passed yet.
    pub(super) fn of(&self, positions: &[u32]) -> Option<(Arc<Batch>, Vec<u32>)> {
        let rows = positions.iter().filter_map(|position| self.rows[*position as usize].row());
        let mut rows = rows.peekable();
        let batch = rows.peek()?.batch.clone();
        Some((batch, rows.map(|row| row.id).collect()))
    }

    /// Puts a row that waits or is called into another state.
    fn change(&mut self, position: u32, to: impl FnOnce(Row) -> Slot) {
        let slot = &mut self.rows[position as usize];
        *slot = match std::mem::replace(slot, Slot::Gone) {
            Slot::Waits { row, .. } | Slot::Called { row, .. } => to(row),
            settled => settled,
        };
    }

    /// These rows were not tried after all.
    pub(super) fn put_back(&mut self, positions: &[u32], alone: bool) {
        for position in positions {
            self.change(*position, |row| Slot::Waits {
                row: Row { attempts: row.attempts.saturating_sub(1), ..row },
                alone,
            });
        }
    }

    /// Takes a call's answer for the rows at these positions. Those that are to be tried again, as they are logged.
    pub(super) fn answer(
        &mut self,
        positions: &[u32],
        mut answer: BatchAnswer,
        judgement: Judgement,
    ) -> Option<Again> {
        let answered = answer.answered().min(positions.len());
        let mut failures = answer.take_failures().into_iter().peekable();
        let changed = match &mut answer {
            BatchAnswer::Changed(answers) => {
                let changes = std::mem::take(&mut answers.changes);
                let of = self.of(positions).filter(|_| !changes.is_empty());
                of.map(|(batch, ids)| Arc::new(batch.select(&ids).with(changes)))
            }
            BatchAnswer::Made(_) => None,
        };
        if let BatchAnswer::Made(answers) = &answer
            && !self.takes(positions, (0..answers.rows.len() as u32).map(|row| answers.rows.row_bytes(row)))
        {
            return self.fail(positions, Cause::Fail, TOO_MUCH, false, judgement);
        }
        let is_made = matches!(answer, BatchAnswer::Made(_));
        let call = self.made.len();
        let mut again: Option<Again> = None;
        for (at, position) in positions[..answered].iter().enumerate() {
            let at = at as u32;
            match failures.next_if(|failure| failure.position == at) {
                Some(RowFailure { cause, reason, .. }) => {
                    let retry = cause == Cause::Retry;
                    self.judge(*position, cause, reason, retry, judgement, &mut again);
                }
                None if changed
                    .as_ref()
                    .is_some_and(|changed| !self.takes(positions, [changed.row_bytes(at)])) =>
                {
                    let reason = TOO_MUCH.to_owned();
                    self.judge(*position, Cause::Fail, reason, false, judgement, &mut again);
                }
                None => self.change(*position, |row| match &changed {
                    _ if is_made => Slot::Made { row, call, position: at },
                    Some(changed) => Slot::Passed(Row { batch: changed.clone(), id: at, ..row }),
                    None => Slot::Passed(row),
                }),
            }
        }
        self.put_back(&positions[answered..], false);
        if let BatchAnswer::Made(answers) = answer {
            self.made.push(answers);
        }
        again
    }

    /// Whether what a call made of rows at these positions has room beside what other calls made; if so, it is taken.
    fn takes(&mut self, positions: &[u32], made: impl IntoIterator<Item = usize>) -> bool {
        let used = made.into_iter().fold(self.used, usize::saturating_add);
        // What one call made of all rows has its bound already.
        let fits = used <= self.room || positions.len() == self.rows.len();
        if fits {
            self.used = used;
        }
        fits
    }

    /// The rows at these positions have no answer, for one reason: `again` where it may pass.
    pub(super) fn fail(
        &mut self,
        positions: &[u32],
        cause: Cause,
        reason: &str,
        retry: bool,
        judgement: Judgement,
    ) -> Option<Again> {
        let mut again = None;
        for position in positions {
            self.judge(*position, cause, reason.to_owned(), retry, judgement, &mut again);
        }
        again
    }

    fn judge(
        &mut self,
        position: u32,
        cause: Cause,
        reason: String,
        retry: bool,
        judgement: Judgement,
        again: &mut Option<Again>,
    ) {
        let Judgement { retries, now, random } = judgement;
        let slot = &mut self.rows[position as usize];
        let Slot::Called { row, .. } = std::mem::replace(slot, Slot::Gone) else { return };
        *slot = match judge(row, cause, reason, retry, retries, random) {
            Judged::Leaves(failed) => Slot::Failed(failed),
            Judged::Again(row, wait) => {
                let first = !self.is_late;
                let told = again.get_or_insert(Again { position, rows: 0, wait, first });
                told.rows += 1;
                told.wait = told.wait.max(wait);
                self.due = now + told.wait;
                Slot::Waits { row, alone: false }
            }
        };
        self.is_late |= again.is_some();
    }

    /// A row that is here.
    pub(super) fn row(&self, position: u32) -> Option<&Row> {
        self.rows.get(position as usize)?.row()
    }

    /// Every row, with since when it is here, and how it stands. `behind`: something of its partitions has to be through
    /// first.
    pub(super) fn rows(&self, behind: bool) -> impl Iterator<Item = (&Row, Moment, Stand)> {
        self.rows.iter().filter_map(move |slot| {
            let stand = match slot {
                Slot::Waits { .. } if self.is_late => Stand::Waits { due: Some(self.due) },
                Slot::Waits { .. } if behind => Stand::Waits { due: None },
                Slot::Waits { .. } => Stand::Fresh,
                Slot::Called { until, .. } => Stand::Called { until: *until },
                Slot::Passed(_) | Slot::Made { .. } | Slot::Failed(_) | Slot::Gone => Stand::Answered,
            };
            Some((slot.row()?, self.since, stand))
        })
    }

    /// Its rows with their verdicts, on their way.
    pub(super) fn through(self, accounts: &mut Accounts) -> Through {
        let (mut passed, mut failed) = (Vec::new(), Vec::new());
        // By call: positions in it with tokens, and which row of this batch each position is.
        let mut parents: Vec<Vec<(u32, Token)>> = self.made.iter().map(|_| Vec::new()).collect();
        let mut places: Vec<Vec<(u32, u32)>> = parents.iter().map(|_| Vec::new()).collect();
        let mut route = None;
        for (place, slot) in self.rows.into_iter().enumerate() {
            match slot {
                Slot::Failed(row) => failed.push(row),
                Slot::Passed(row) => passed.push(row),
                Slot::Made { row, call, position } => {
                    route = row.route;
                    parents[call].push((position, row.token));
                    places[call].push((position, place as u32));
                }
                Slot::Waits { .. } | Slot::Called { .. } | Slot::Gone => {
                    unreachable!("a batch leaves when each of its rows has its verdict")
                }
            }
        }
        let mut made: Vec<(u32, Row)> = Vec::new();
        let calls = self.made.len();
        let mut on = one_batch(passed);
        for ((answers, parents), places) in self.made.into_iter().zip(parents).zip(places) {
            let rows = answers.rows.len() as u32;
            let tokens = derive(accounts, parents, &answers.origins, rows);
            count(accounts, places.len(), &answers.rows, &tokens);
            let set = RowSet::all(answers.rows, tokens, route);
            if calls == 1 {
                on.push(set);
                continue;
            }
            let place = |row: u32| {
                let first = answers.origins.of(row)[0];
                places.binary_search_by_key(&first, |(position, _)| *position).map_or(0, |at| places[at].1)
            };
            made.extend(set.into_rows(0).enumerate().map(|(row, made)| (place(row as u32), made)));
        }
        // What several calls made is in the order of the batch again.
        made.sort_by_key(|(place, _)| *place);
        on.extend(one_batch(made.into_iter().map(|(_, row)| row).collect()));
        on.retain(|set| !set.is_empty());
        Through { on, failed }
    }

    /// Gives every row up, at a stop.
    pub(super) fn give_up(self) {
        for slot in self.rows {
            match slot {
                Slot::Waits { row, .. }
                | Slot::Called { row, .. }
                | Slot::Passed(row)
                | Slot::Made { row, .. }
                | Slot::Failed(FailedRow { row, .. }) => row.token.give_up(),
                Slot::Gone => {}
            }
        }
    }
}

/// Rows of a batch are to be tried again.
pub(super) struct Again {
    /// The first of them.
    pub position: u32,
    pub rows: u64,
    pub wait: std::time::Duration,
    /// For the first time in this batch.
    pub first: bool,
}

/// Why rows fail that were answered one by one, and are too much for one batch together.
const TOO_MUCH: &str = "what several calls made of this batch is more than 1 GiB together";

/// Rows that several calls answered, or made, go on as one batch; as several only where a column has no room for one.
fn one_batch(rows: Vec<Row>) -> Vec<RowSet> {
    let Some(route) = rows.first().map(|row| row.route) else { return Vec::new() };
    let mut parts = Parts::default();
    let (places, tokens): (Vec<Place>, Vec<Token>) =
        rows.into_iter().map(|row| ((parts.number(&row.batch), row.id), row.token)).unzip();
    if let Some(batch) = parts.only() {
        let ids = places.into_iter().map(|(_, id)| id).collect();
        return vec![RowSet { batch: batch.clone(), ids, tokens, route }];
    }
    match parts.gather(&places) {
        Ok(batch) => vec![RowSet::all(batch, tokens, route)],
        Err(_) => {
            let mut sets = Vec::new();
            gather(&parts, places, tokens, |batch, tokens| sets.push(RowSet::all(batch, tokens, route)));
            sets
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loom_delivery::Accounts;
    use loom_plugin::StepAnswers;
    use loom_types::{
        BatchBuilder, BytesBuilder, Changes, CommitOffset, Ending, Moment, RecordOffset, RecordRef,
    };

    use super::{Held, Judgement, Through};
    use crate::nodes::batch::calls::BatchAnswer;
    use crate::rows::RowSet;

    /// What a call answers that sets these rows to so many bytes.
    fn answer(sizes: &[usize]) -> BatchAnswer {
        let mut payload = BytesBuilder::new();
        sizes.iter().for_each(|size| payload.push(Some(&vec![b'y'; *size])).unwrap());
        let changes = Changes { payload: Some(payload.finish()), ..Changes::default() };
        BatchAnswer::Changed(StepAnswers { answered: sizes.len() as u32, changes, failures: Vec::new() })
    }

    #[test]
    fn what_several_calls_made_of_a_batch_has_a_bound_and_passing_it_is_the_rows_error() {
        let mut accounts = Accounts::tracked();
        let partition = accounts.add_partition(CommitOffset(0), None);
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        let mut tokens = Vec::new();
        for offset in (0..4).map(RecordOffset) {
            let (key, payload) = (None, Some(&b"x"[..]));
            let record =
                RecordRef { topic: 0, partition: 0, offset, timestamp_ms: None, key, payload, row: "" };
            builder.push(record).unwrap();
            tokens.push(accounts.register(partition, offset, 1));
        }
        let now = Moment::START;
        let mut held = Held::new(RowSet::all(builder.finish(), tokens, None), now);
        held.room = 100;
        let judgement = Judgement { retries: None, now, random: 0.5 };
        let all = held.call(usize::MAX, |_| now);
        held.put_back(&all, true);
        for size in [60, 60, 30, 10] {
            let one = held.call(usize::MAX, |_| now);
            assert_eq!(one.len(), 1);
            held.answer(&one, answer(&[size]), judgement);
        }
        assert!(held.is_through());
        let Through { on, failed } = held.through(&mut accounts);
        assert_eq!(failed.len(), 1);
        for failed in failed {
            assert_eq!((failed.row.id, &*failed.reason), (1, super::TOO_MUCH));
            assert_eq!(failed.row.batch.payload(1), Some(&b"x"[..]), "it is as it came");
            accounts.redeem(failed.row.token, Ending::Drained);
        }
        let [rows] = &on[..] else { panic!("they go on as one batch") };
        let sizes: Vec<usize> = rows.ids.iter().map(|id| rows.batch.row_bytes(*id)).collect();
        assert_eq!(sizes, [60, 30, 10]);
        let tokens = on.into_iter().flat_map(|rows| rows.tokens);
        tokens.for_each(|token| accounts.redeem(token, Ending::Drained));
    }
}
