//! Waits for what wakes a call, and says how much of that the call is charged for.
//!
//! Charged is the time from when the call had nothing to do until what it waits for woke it, not until it had a processor
//! again. It is counted in short slices, none of which counts for more than its length: while the process is stopped or
//! throttled its timers do not fire either, and one late slice is all that is seen of that.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::waits::{Stopped, WaitedTooLong};

/// The length of a slice, and so how soon a call that waits is ended once the host stops.
const SLICE: Duration = Duration::from_millis(10);

/// The alarm has not rung.
const UNSET: u64 = u64::MAX;

/// Wakes the task of a call, and notes when.
#[derive(Debug)]
pub(crate) struct Alarm {
    task: Notify,
    /// When it first rang since the last poll.
    rung: AtomicU64,
}

impl Alarm {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Alarm { task: Notify::new(), rung: AtomicU64::new(UNSET) })
    }

    /// Polls a future that rings this when it wants to go on.
    pub(crate) fn poll<T>(self: &Arc<Self>, future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        self.rung.store(UNSET, Ordering::Release);
        future.poll(&mut Context::from_waker(&Waker::from(self.clone())))
    }

    /// Waits until it rings, for so long at the most; what is charged for that. `cut` is asked now and then, with what is
    /// charged so far, whether to end the wait before its time.
    pub(crate) async fn rings(
        &self,
        left: Duration,
        cut: impl Fn(Duration) -> bool,
    ) -> wasmtime::Result<Duration> {
        let mut charged = Duration::ZERO;
        if self.rung().is_some() {
            // What yields has woken itself: the others come first.
            tokio::task::yield_now().await;
            return Ok(charged);
        }
        loop {
            if charged >= left {
                return Err(WaitedTooLong.into());
            }
            if cut(charged) {
                return Err(Stopped.into());
            }
            let (slice, since) = (SLICE.min(left - charged), now());
            let _ = tokio::time::timeout(slice, self.task.notified()).await;
            let rung = self.rung();
            charged += rung.unwrap_or_else(now).saturating_sub(since).min(slice);
            if rung.is_some() {
                return Ok(charged);
            }
        }
    }

    fn rung(&self) -> Option<Duration> {
        let rung = self.rung.load(Ordering::Acquire);
        (rung != UNSET).then(|| Duration::from_nanos(rung))
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let nanos = u64::try_from(now().as_nanos()).unwrap_or(UNSET - 1);
        self.rung.fetch_min(nanos, Ordering::AcqRel);
        self.task.notify_one();
    }
}

/// The time since this was first asked.
fn now() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;
    use std::time::{Duration, Instant};

    use tokio::runtime::{Builder, Runtime};

    use super::{Alarm, SLICE};
    use crate::waits::{Stopped, WaitedTooLong};

    /// One thread for timers and tasks, as when all others are throttled.
    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    fn a_wait_ends_when_it_has_lasted_long_enough() {
        let limit = Duration::from_millis(30);
        let start = Instant::now();
        let ended = runtime().block_on(async {
            let alarm = Alarm::new();
            assert!(alarm.poll(pin!(pending::<()>())).is_pending());
            alarm.rings(limit, |_| false).await
        });
        assert!(ended.unwrap_err().is::<WaitedTooLong>());
        assert!(start.elapsed() >= limit);
    }

    #[test]
    fn a_wait_is_not_charged_for_the_time_in_which_nothing_ran() {
        let charged = runtime().block_on(async {
            let alarm = Alarm::new();
            let (ring, rung) = tokio::sync::oneshot::channel::<()>();
            let mut rung = pin!(rung);
            assert!(alarm.poll(rung.as_mut()).is_pending());
            tokio::spawn(async move {
                // The pause itself: no timer fires, no task runs.
                std::thread::sleep(Duration::from_millis(300));
                ring.send(()).unwrap();
            });
            alarm.rings(Duration::from_millis(100), |_| false).await
        });
        assert!(charged.unwrap() <= SLICE);
    }

    #[test]
    fn what_has_woken_itself_waits_for_nothing_and_lets_others_run() {
        runtime().block_on(async {
            let alarm = Alarm::new();
            let mut yielded = pin!(async {
                let mut first = true;
                std::future::poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    if std::mem::take(&mut first) {
                        std::task::Poll::Pending
                    } else {
                        std::task::Poll::Ready(())
                    }
                })
                .await;
            });
            let other = tokio::spawn(async {});
            assert!(alarm.poll(yielded.as_mut()).is_pending());
            assert_eq!(alarm.rings(Duration::ZERO, |_| false).await.unwrap(), Duration::ZERO);
            assert!(other.is_finished());
            assert!(alarm.poll(yielded).is_ready());
        });
    }

    #[test]
    fn a_stop_ends_a_wait() {
        let ended = runtime().block_on(async {
            let alarm = Alarm::new();
            assert!(alarm.poll(pin!(pending::<()>())).is_pending());
            alarm.rings(Duration::from_secs(3600), |charged| charged >= SLICE).await
        });
        assert!(ended.unwrap_err().is::<Stopped>());
    }
}
