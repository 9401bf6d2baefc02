//! How long a call beside the worker may take: as long as its limit for what it waits for, and as long again for what it
//! computes.
//!
//! The two are told apart because they blame different parties. Who computed for the whole limit has a record that it
//! cannot deal with; who waited for it has a service that is slow, also when answers trickle in and wake the guest all the
//! time. Neither is charged for the other, nor for the time in which it could run and something else had the processor:
//! see [`clock`](crate::clock).

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use wasmtime::Trap;

use crate::alarm::Alarm;
use crate::clock::processor_time;
use crate::http::Exchanges;
use crate::waits::whose;

/// Waits for a guest's call beside the worker, as long as it may take: until it has waited for its limit, or has computed
/// for as long. The guest must yield at every tick.
pub(crate) async fn within<T>(
    limit: Duration,
    exchanges: &Exchanges,
    call: impl Future<Output = wasmtime::Result<T>>,
) -> wasmtime::Result<T> {
    let mut call = pin!(call);
    let alarm = Alarm::new();
    let (mut computed, mut waited) = (Duration::ZERO, Duration::ZERO);
    loop {
        let before = processor_time();
        let polled = alarm.poll(call.as_mut());
        computed += processor_time().saturating_sub(before);
        match polled {
            Poll::Ready(result) => return result,
            Poll::Pending if computed >= limit => return Err(Trap::Interrupt.into()),
            Poll::Pending => match alarm.rings(limit.saturating_sub(waited), |_| false).await {
                Ok(charged) => waited += charged,
                Err(ended) => return Err(whose(ended, exchanges)),
            },
        }
    }
}
