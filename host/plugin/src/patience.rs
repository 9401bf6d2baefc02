//! How long a call beside the worker may take: as long as its limit for what it waits for, and as long again for what it
//! computes.
//!
//! The two are told apart because they blame different parties. Who computed for the whole limit has a record that it
//! cannot deal with; who waited for it has a service that is slow, also when answers trickle in and wake the guest all the
//! time. Neither is charged for the other, nor for the time in which it could run and something else had the processor:
//! - *computing* is the processor time of the thread, while it runs the call;
//! - *waiting* is the ticks from when the call had nothing to do until what it waited for woke it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use wasmtime::Trap;

use crate::ticker::{Beat, CallClock};
use crate::waits::WaitedTooLong;

/// Waits for a guest's call beside the worker, as long as it may take: until it has waited for what the clock allows, or
/// has computed for as long. The guest must yield at every tick.
pub(crate) async fn within<T>(
    clock: CallClock,
    call: impl Future<Output = wasmtime::Result<T>>,
) -> wasmtime::Result<T> {
    let mut call = pin!(call);
    let mut spent = Spent::new(&clock);
    loop {
        // The timer goes by the wall clock, and the ticks decide.
        let left = spent.left_to_wait();
        if let Ok(result) = tokio::time::timeout(left, poll_fn(|cx| spent.poll(cx, call.as_mut()))).await {
            return result;
        }
        if spent.left_to_wait().is_zero() {
            return Err(WaitedTooLong.into());
        }
    }
}

/// What a call has used of its time.
struct Spent {
    beat: Arc<Beat>,
    limit: Duration,
    computed: Duration,
    /// In ticks.
    waited: u64,
    /// Since which tick it has had nothing to do.
    idle_since: Option<u64>,
    alarm: Option<Arc<Alarm>>,
}

impl Spent {
    fn new(clock: &CallClock) -> Self {
        let beat = clock.beat().clone();
        Spent {
            beat,
            limit: clock.left(),
            computed: Duration::ZERO,
            waited: 0,
            idle_since: None,
            alarm: None,
        }
    }

    fn left_to_wait(&self) -> Duration {
        self.limit.saturating_sub(crate::ticker::span_of(self.waited))
    }

    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        call: Pin<&mut impl Future<Output = wasmtime::Result<T>>>,
    ) -> Poll<wasmtime::Result<T>> {
        let alarm = self.alarm(cx.waker());
        if let Some(since) = self.idle_since.take() {
            let until = alarm.rung().unwrap_or_else(|| self.beat.ticks());
            self.waited += until.saturating_sub(since);
        }
        alarm.set();
        let waker = Waker::from(alarm.clone());
        let before = processor_time();
        let polled = call.poll(&mut Context::from_waker(&waker));
        self.computed += processor_time().saturating_sub(before);
        if polled.is_pending() {
            if self.computed >= self.limit {
                return Poll::Ready(Err(Trap::Interrupt.into()));
            }
            // One that yields has woken itself.
            self.idle_since = alarm.rung().is_none().then(|| self.beat.ticks());
        }
        polled
    }

    /// The alarm that wakes this task.
    fn alarm(&mut self, task: &Waker) -> Arc<Alarm> {
        match &self.alarm {
            Some(alarm) if alarm.task.will_wake(task) => alarm.clone(),
            _ => {
                let alarm =
                    Alarm { task: task.clone(), beat: self.beat.clone(), rung: AtomicU64::new(UNSET) };
                self.alarm.insert(Arc::new(alarm)).clone()
            }
        }
    }
}

/// Wakes a task, and notes when.
struct Alarm {
    task: Waker,
    beat: Arc<Beat>,
    /// The tick in which it first rang since it was set.
    rung: AtomicU64,
}

/// The alarm has not rung.
const UNSET: u64 = u64::MAX;

impl Alarm {
    fn set(&self) {
        self.rung.store(UNSET, Ordering::Release);
    }

    fn rung(&self) -> Option<u64> {
        Some(self.rung.load(Ordering::Acquire)).filter(|rung| *rung != UNSET)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.fetch_min(self.beat.ticks(), Ordering::AcqRel);
        self.task.wake_by_ref();
    }
}

/// The processor time of this thread.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
