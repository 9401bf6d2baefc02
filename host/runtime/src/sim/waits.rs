//! Scripted plugins that wait: each call answers in its own time, in whatever order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use loom_kafka::Waker;
use loom_plugin::Cause;
use loom_types::{Batch, BytesBuilder, Changes, Moment};

use super::fates::Verdict;
use super::model::Row;
use super::plugins::{changed, made, verdict};
use super::world::Sim;
use crate::nodes::{Answered, CallFault, Role, RowAnswer, WaitingCalls};

/// The instances of one node.
pub(super) struct ScriptedCalls {
    pub sim: Arc<Sim>,
    pub run: usize,
    pub role: Role,
    pub plugin: usize,
    /// Calls at a time, at most.
    pub most: usize,
    pub bell: Option<Waker>,
    /// When each call answers, and what.
    pub open: BTreeMap<u64, (Moment, Result<RowAnswer, CallFault>)>,
}

impl WaitingCalls for ScriptedCalls {
    fn ring(&mut self, bell: Waker) {
        self.bell = Some(bell);
    }

    fn start(&mut self, call: u64, batch: &Arc<Batch>, row: u32) {
        let mut state = self.sim.lock();
        let now = self.sim.now();
        let told = Row::of_batch(batch, row);
        let predicate = self.role == Role::Predicate;
        let said = verdict(&self.sim, &mut state, self.run, predicate, self.plugin, told.number);
        let takes = [0, 0, 3, 200][state.dice.usize(..4)];
        let due = now + Duration::from_millis(state.dice.u64(..=takes));
        let plugin = self.plugin;
        state.tell(now, || format!("  w{plugin} {} {}: {said:?} at {:?}", told.number, told.label, due.0));
        let answer = match said {
            Verdict::Failure(cause) => Err(CallFault {
                cause,
                reason: "scripted".to_owned(),
                waited: cause == Cause::Timeout && state.dice.bool(),
            }),
            _ if self.role == Role::Expand => {
                let rows = state.model.fates().rows(plugin, told.number as u64);
                Ok(RowAnswer::Made(made(batch, &[row], &[rows]).batch))
            }
            said if predicate => Ok(RowAnswer::Is(said == Verdict::Marked)),
            Verdict::Marked => {
                let payload = changed(batch.payload(row), self.plugin).map(|text| {
                    let mut column = BytesBuilder::new();
                    column.push(Some(&text)).expect("rows of a simulation are small");
                    column.finish()
                });
                Ok(RowAnswer::Changed(Box::new(Changes { payload, ..Changes::default() })))
            }
            Verdict::Plain => Ok(RowAnswer::Changed(Box::default())),
        };
        if let Some(bell) = &self.bell {
            state.wakes.push((due, bell.clone()));
        }
        self.open.insert(call, (due, answer));
        if self.open.len() > self.most {
            let open = self.open.len();
            state.model.breaks(|| format!("step {plugin} has {open} calls at a time"));
        }
    }

    fn answers(&mut self, out: &mut Vec<Answered>) {
        let now = self.sim.now();
        let mut due: Vec<(Moment, u64)> =
            self.open.iter().filter(|(_, (at, _))| *at <= now).map(|(call, (at, _))| (*at, *call)).collect();
        due.sort();
        for (_, call) in due {
            let Some((_, verdict)) = self.open.remove(&call) else { continue };
            out.push(Answered { call, verdict });
        }
    }

    fn abandon(&mut self, call: u64) {
        self.open.remove(&call);
    }
}
