//! Scripted plugins in place of components: steps and predicates that do with each record what its fate says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use loom_flow::Plan;
use loom_flow::plan::{OnTrap, PluginId};
use loom_plugin::{Cause, Interrupt, NodeContext, RowFailure, StartError};
use loom_types::{Batch, BytesBuilder, Changes};

use super::fates::Verdict;
use super::flow::{mark, place_mark};
use super::model::Row;
use super::sinks::ScriptedSink;
use super::waits::ScriptedCalls;
use super::world::{Sim, State};
use crate::nodes::{
    BatchCalls, BatchRole, Label, Made, Plugins, Role, RowAnswers, RowCalls, Said, SinkCalls, SinkStart,
    WaitingCalls,
};

/// How long a call takes that times out.
const TIMEOUT: Duration = Duration::from_millis(250);

/// The plan's plugins; their names say what they are: `s0`, `p0`, `k0`.
pub(super) struct Scripted {
    pub sim: Arc<Sim>,
    pub plan: Arc<Plan>,
    /// The run that they belong to.
    pub run: usize,
}

impl Scripted {
    fn number(&self, plugin: PluginId) -> usize {
        self.plan.plugins[plugin.0].name[1..].parse().expect("a letter and a number")
    }
}

impl Plugins for Scripted {
    fn label(&self, plugin: PluginId) -> Label {
        Label { name: self.plan.plugins[plugin.0].name.clone(), digest: "scripted".into() }
    }

    fn rows(
        &self,
        plugin: PluginId,
        _: NodeContext,
        role: Role,
        _: OnTrap,
        interrupt: &Interrupt,
    ) -> Result<Box<dyn RowCalls>, StartError> {
        let (sim, interrupt) = (self.sim.clone(), interrupt.clone());
        let plugin = self.number(plugin);
        Ok(Box::new(ScriptedRows { sim, run: self.run, role, plugin, interrupt }))
    }

    fn waiting(
        &self,
        plugin: PluginId,
        _: NodeContext,
        role: Role,
        calls: usize,
    ) -> Result<Box<dyn WaitingCalls>, StartError> {
        Ok(Box::new(ScriptedCalls {
            sim: self.sim.clone(),
            run: self.run,
            role,
            plugin: self.number(plugin),
            most: calls,
            bell: None,
            open: BTreeMap::new(),
        }))
    }

    fn batch(
        &self,
        _: PluginId,
        _: NodeContext,
        _: BatchRole,
        _: OnTrap,
        _: Option<usize>,
        _: &Interrupt,
    ) -> Result<Box<dyn BatchCalls>, StartError> {
        unreachable!("no flow is drawn with a node of batches")
    }

    fn sink(&self, plugin: PluginId, _: NodeContext, _: &Interrupt) -> Result<SinkStart, StartError> {
        let (sim, number, run) = (self.sim.clone(), self.number(plugin), self.run);
        let first = Box::new(ScriptedSink::new(sim.clone(), run, number));
        let make = move || -> Result<Box<dyn SinkCalls>, String> {
            let mut state = sim.lock();
            let chance = state.sinks[number].start_fails;
            if state.strikes(chance) {
                return Err("scripted".to_owned());
            }
            drop(state);
            Ok(Box::new(ScriptedSink::new(sim.clone(), run, number)))
        };
        Ok(SinkStart { first, make: Box::new(make), write_bytes: 200, tracked: true })
    }
}

/// A step, expander or predicate at a node.
struct ScriptedRows {
    sim: Arc<Sim>,
    run: usize,
    role: Role,
    plugin: usize,
    interrupt: Interrupt,
}

/// What a call on this record comes to now, in a run.
pub(super) fn verdict(
    sim: &Sim,
    state: &mut State,
    run: usize,
    predicate: bool,
    plugin: usize,
    number: usize,
) -> Verdict {
    let verdict = attempt(sim.now().0, state, predicate, plugin, number as u64);
    if verdict == Verdict::Failure(Cause::Retry) && !predicate {
        state.model.tried(run, plugin, number);
    }
    verdict
}

fn attempt(now: Duration, state: &mut State, predicate: bool, plugin: usize, number: u64) -> Verdict {
    let fates = state.model.fates();
    if let Some((from, to)) = fates.manner(predicate, plugin).away
        && now >= from
        && now < to
    {
        return Verdict::Failure(Cause::Retry);
    }
    if fates.is_stuck(number, now) {
        return Verdict::Failure(Cause::Retry);
    }
    let retries = fates.retries(predicate, plugin, number);
    let verdict =
        if predicate { fates.predicate_verdict(plugin, number) } else { fates.step_verdict(plugin, number) };
    if retries > 0 {
        let tried = state.attempts.entry((predicate, plugin, number)).or_default();
        if *tried < retries {
            *tried += 1;
            return Verdict::Failure(Cause::Retry);
        }
    }
    verdict
}

/// What a step makes of a payload; none where it leaves it as it is.
pub(super) fn changed(payload: Option<&[u8]>, step: usize) -> Option<Vec<u8>> {
    marked(payload, mark(step))
}

fn marked(payload: Option<&[u8]>, mark: char) -> Option<Vec<u8>> {
    let old = payload.filter(|old| old.starts_with(b"{\"n\""))?;
    let mut text = old[..old.len() - 2].to_vec();
    text.push(mark as u8);
    text.extend_from_slice(b"\"}");
    Some(text)
}

/// The rows that an expander makes of some of these rows: so many of each.
pub(super) fn made(batch: &Batch, rows: &[u32], counts: &[usize]) -> Made {
    let (mut of, mut ends) = (Vec::new(), Vec::new());
    let (mut payload, mut names) = (BytesBuilder::new(), BytesBuilder::new());
    for (row, count) in rows.iter().zip(counts) {
        let (old, name) = (batch.payload(*row), batch.name(*row));
        for place in 0..*count {
            of.push(*row);
            let text = marked(old, place_mark(place));
            payload.push(text.as_deref().or(old)).expect("rows of a simulation are small");
            let dot = if name.is_empty() { "" } else { "." };
            names
                .push(Some(format!("{name}{dot}{place}").as_bytes()))
                .expect("rows of a simulation are small");
        }
        ends.push(of.len() as u32);
    }
    let changes = Changes { payload: Some(payload.finish()), ..Changes::default() };
    Made { batch: Arc::new(batch.select(&of).with(changes).named(names.finish())), ends }
}

impl RowCalls for ScriptedRows {
    fn call(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> RowAnswers {
        let mut answered = 0;
        let (mut payload, mut column_changes) = (BytesBuilder::new(), false);
        let predicate = self.role == Role::Predicate;
        let (mut yes, mut counts) = (Vec::new(), Vec::new());
        let mut failures = Vec::new();
        let mut traps = 0;
        for (position, id) in rows.iter().enumerate() {
            if answered > 0 && (traps >= allowance.max(1) || self.interrupt.is_set()) {
                break;
            }
            let mut state = self.sim.lock();
            let row = Row::of_batch(batch, *id);
            let verdict = verdict(&self.sim, &mut state, self.run, predicate, self.plugin, row.number);
            let plugin = self.plugin;
            let letter = if predicate { 'p' } else { 's' };
            state.tell(self.sim.now(), || {
                format!("  {letter}{plugin} {} {}: {verdict:?}", row.number, row.label)
            });
            answered += 1;
            traps = match verdict {
                Verdict::Failure(cause) if cause.is_trap() => traps + 1,
                _ => 0,
            };
            yes.push(verdict == Verdict::Marked);
            let rows = state.model.fates().rows(plugin, row.number as u64);
            counts.push(if matches!(verdict, Verdict::Failure(_)) { 0 } else { rows });
            if let Verdict::Failure(cause) = verdict {
                failures.push(RowFailure { position: position as u32, cause, reason: "scripted".to_owned() });
                if cause == Cause::Timeout {
                    self.sim.clock.advance(TIMEOUT);
                }
            }
            let old = batch.payload(*id);
            match changed(old, self.plugin).filter(|_| verdict == Verdict::Marked) {
                Some(text) => {
                    payload.push(Some(&text)).expect("rows of a simulation are small");
                    column_changes = true;
                }
                None => payload.push(old).expect("rows of a simulation are small"),
            }
        }
        if self.role == Role::Expand {
            counts.resize(rows.len(), 0);
            return RowAnswers { answered, said: Said::Made(made(batch, rows, &counts)), failures };
        }
        if predicate {
            yes.resize(rows.len(), false);
            return RowAnswers { answered, said: Said::Is(yes), failures };
        }
        for _ in answered..rows.len() {
            payload.push(None).expect("rows of a simulation are small");
        }
        let payload = column_changes.then(|| payload.finish());
        let said = Said::Changed(Changes { payload, ..Changes::default() });
        RowAnswers { answered, said, failures }
    }
}
