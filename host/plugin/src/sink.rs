//! A sink's instance: raw calls. Tokens, the rows behind them, and the protocol of flushing and writing again are the
//! runtime's; this is one instance that it calls, and replaces when it is not usable any more.

use loom_types::Batch;
use wasmtime::component::Resource;

use crate::answers::{CallFailure, told};
use crate::bindings::exports::loom::plugin::sink::{self, TrackedMessage};
use crate::bindings::loom::plugin::types::Failure;
use crate::calls::batch_rows;
use crate::delivery::{Tracker, Verdict};
use crate::facts::BIND_TRACKER;
use crate::fault::Fault;
use crate::instance::{CallTime, Instance, role_missing};
use crate::node::{Interrupt, NodeContext};
use crate::plain::{headers, messages, names};
use crate::plugin::{Plugin, StartError};

/// One instance of a sink plugin.
pub struct SinkInstance {
    plugin: Plugin,
    node: NodeContext,
    instance: Instance,
    guest: sink::Guest,
    write_time: CallTime,
    lifecycle: CallTime,
}

impl SinkInstance {
    /// Instantiates the plugin, configures it, and gives it the commit tracker if it takes one.
    pub fn new(plugin: &Plugin, context: NodeContext) -> Result<SinkInstance, StartError> {
        Self::start(plugin, context, None)
    }

    /// The same; once this is set a call under way is ended with [`Cause::Stopped`](crate::Cause::Stopped), and the
    /// instance with it.
    pub fn interrupted_by(
        plugin: &Plugin,
        context: NodeContext,
        interrupt: &Interrupt,
    ) -> Result<SinkInstance, StartError> {
        Self::start(plugin, context, Some(interrupt))
    }

    fn start(
        plugin: &Plugin,
        context: NodeContext,
        interrupt: Option<&Interrupt>,
    ) -> Result<SinkInstance, StartError> {
        let limits = plugin.limits();
        let write_time = CallTime::new(context.timeout.unwrap_or(limits.timeout));
        let lifecycle = CallTime::new(limits.lifecycle);
        let mut instance = Instance::start(plugin, &context, interrupt)?;
        let loaded = plugin.loaded();
        let Some(indices) = &loaded.exports.sink else { return Err(role_missing(plugin, "sink")) };
        let _in_flight = loaded.beat.enter();
        let guest = instance.find(plugin, "sink", |store, guest| indices.load(store, guest))?;
        if let Some(bind) = &loaded.exports.bind_tracker {
            let bind = instance.find(plugin, BIND_TRACKER, |store, guest| {
                guest.get_typed_func::<(Resource<Tracker>,), ()>(store, *bind)
            })?;
            instance.starting(plugin, BIND_TRACKER, |store| {
                let tracker = store.data_mut().table.push(Tracker)?;
                bind.call(store, (tracker,))
            })?;
        }
        instance.started();
        Ok(SinkInstance { plugin: plugin.clone(), node: context, instance, guest, write_time, lifecycle })
    }

    /// How many of these rows may go in one write: as many as the bounds of a plugin batch allow, and at least one.
    #[must_use]
    pub fn next_write(&self, batch: &Batch, rows: &[u32]) -> usize {
        batch_rows(batch, rows, self.plugin.limits().batch_bytes())
    }

    /// Writes these rows, in one call. `handles[i]` is what the sink will call row i's token; its verdicts come with
    /// [`SinkInstance::verdicts`]. Panics when there are not as many handles as rows.
    pub fn write(&mut self, batch: &Batch, rows: &[u32], handles: &[u32]) -> Result<(), CallFailure> {
        assert_eq!(rows.len(), handles.len(), "each row has a handle");
        if let Some(fault) = self.plugin.scripted(&self.node, batch, rows) {
            return self.ended(CallFailure { cause: fault.cause, reason: fault.reason });
        }
        let names = names(batch, rows);
        let headers = headers(batch, rows, &names);
        let messages: Vec<_> = messages(batch, rows, &headers)
            .zip(handles)
            .map(|(message, token)| TrackedMessage { message, token: *token })
            .collect();
        let _in_flight = self.plugin.loaded().beat.enter();
        let guest = &self.guest;
        let time = self.write_time.of_batch(rows.len());
        self.instance.state().called_for(Some((batch, rows)));
        answer(self.instance.call(time, |store| guest.call_write(store, &messages)))
    }

    /// Has everything written so far made durable.
    pub fn flush(&mut self) -> Result<(), CallFailure> {
        if let Some(failure) = self.plugin.script().and_then(|script| script.flush(&self.node)) {
            return self.ended(failure);
        }
        let _in_flight = self.plugin.loaded().beat.enter();
        let guest = &self.guest;
        self.instance.state().called_for(None);
        answer(self.instance.call(self.lifecycle, |store| guest.call_flush(store)))
    }

    /// A script ended a call.
    fn ended(&mut self, failure: CallFailure) -> Result<(), CallFailure> {
        if failure.cause.is_trap() {
            self.instance.spoil();
        }
        Err(failure)
    }

    /// The last call.
    pub fn close(&mut self) -> Result<(), CallFailure> {
        let _in_flight = self.plugin.loaded().beat.enter();
        let guest = &self.guest;
        self.instance.state().called_for(None);
        answer(
            self.instance
                .call(self.lifecycle, |store| guest.call_close(store))
                .map(|closed| closed.map_err(Failure::Fail)),
        )
    }

    /// Appends the verdicts that the sink gave since this was last called, in its order; duplicates and foreign handles
    /// are among them. To be called after every call, failed ones too.
    pub fn verdicts(&mut self, out: &mut Vec<(u32, Verdict)>) {
        self.instance.state_mut().verdicts.take(out);
    }

    /// Whether the sink let go of its tracker: it can give no further verdict, and what is open has failed.
    #[must_use]
    pub fn tracker_dropped(&self) -> bool {
        self.instance.state().verdicts.tracker_dropped()
    }

    /// Whether the sink takes the commit tracker.
    #[must_use]
    pub fn is_tracked(&self) -> bool {
        self.plugin.facts().roles.tracked
    }

    /// Whether it may be called; false after a trap or time-out.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.instance.is_usable()
    }

    /// Whether the instance holds so much that it should be replaced after its next flush.
    #[must_use]
    pub fn wants_recycling(&self) -> bool {
        self.instance.is_worn()
    }
}

impl std::fmt::Debug for SinkInstance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SinkInstance").field("plugin", &self.plugin).finish_non_exhaustive()
    }
}

fn answer(outcome: Result<Result<(), Failure>, Fault>) -> Result<(), CallFailure> {
    match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err(failure)) => {
            let (cause, reason) = told(failure);
            Err(CallFailure { cause, reason })
        }
        Err(Fault { cause, reason, .. }) => Err(CallFailure { cause, reason }),
    }
}
