//! A batch at its node while not all of its rows have their verdict.

use std::sync::Arc;

use loom_delivery::{Accounts, Token};
use loom_plugin::{BatchExpandAnswers, Cause, RowFailure};
use loom_types::{Batch, Moment, PartitionId, Place};

use super::calls::BatchAnswer;
use super::derive::{count, derive};
use crate::late::{Judged, Stand, judge};
use crate::rows::{FailedRow, Parts, Row, RowSet};

/// See the module's description.
pub(crate) struct Held {
    since: Moment,
    rows: Vec<Slot>,
    /// Those that its rows come from, each once.
    partitions: Vec<PartitionId>,
    /// What calls made of rows, where rows are made.
    made: Vec<BatchExpandAnswers>,
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
            is_late: false,
            due: Moment::START,
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
        let mut on: Vec<RowSet> = one_batch(passed).into_iter().collect();
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

/// Rows that several calls answered, or made, go on as one batch.
fn one_batch(rows: Vec<Row>) -> Option<RowSet> {
    let route = rows.first()?.route;
    let mut parts = Parts::default();
    let (places, tokens): (Vec<Place>, Vec<Token>) =
        rows.into_iter().map(|row| ((parts.number(&row.batch), row.id), row.token)).unzip();
    Some(match parts.only() {
        Some(batch) => {
            let ids = places.into_iter().map(|(_, id)| id).collect();
            RowSet { batch: batch.clone(), ids, tokens, route }
        }
        None => RowSet::all(parts.gather(&places), tokens, route),
    })
}
