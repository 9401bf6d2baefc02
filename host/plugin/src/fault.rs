//! What went wrong in a call that did not come back, in words that name the limit that ended it.

use std::time::Duration;

use wasmtime::component::ResourceTableError;
use wasmtime::{Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::answers::Cause;
use crate::engine::STACK_BYTES;
use crate::http::OwnWait;
use crate::limits::{Limits, MemoryGauge};
use crate::state::HostState;
use crate::waits::{Stopped, WaitedTooLong};

/// A call without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// [`Cause::Trap`], [`Cause::Timeout`], [`Cause::Protocol`] or [`Cause::Stopped`].
    pub(crate) cause: Cause,
    /// What happened.
    pub(crate) reason: String,
    /// The instance had used up something that calls before this one took too: on a fresh one the call may succeed.
    pub(crate) worn: bool,
    /// It ran out of time while it waited for something in the host; guest code that ran too long did not wait.
    pub(crate) waited: bool,
}

impl Fault {
    pub(crate) fn protocol(reason: String) -> Self {
        Fault { cause: Cause::Protocol, reason, worn: false, waited: false }
    }
}

/// Reads the error of a call into a guest. What it wrote before it trapped belongs to the reason: a panic's message, an
/// exception's.
pub(crate) fn read(
    error: &wasmtime::Error,
    state: &mut HostState,
    limits: &Limits,
    limit: Duration,
) -> Fault {
    let fault = of(error, &mut state.memory, limits, limit);
    match state.last_lines() {
        Some(lines) if fault.cause == Cause::Trap => {
            Fault { reason: format!("{}; it wrote last: {lines}", fault.reason), ..fault }
        }
        _ => fault,
    }
}

fn of(error: &wasmtime::Error, memory: &mut MemoryGauge, limits: &Limits, limit: Duration) -> Fault {
    if let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() {
        tracing::debug!(target: "plugin", "a guest call ended at: {backtrace}");
    }
    let refused = memory.take_refused();
    let trap = error.downcast_ref::<Trap>();
    let waited = error.is::<WaitedTooLong>();
    if waited || trap == Some(&Trap::Interrupt) {
        return Fault {
            cause: Cause::Timeout,
            reason: format!("ran longer than its limit of {limit:?}"),
            worn: false,
            waited,
        };
    }
    if error.is::<Stopped>() {
        return Fault { cause: Cause::Stopped, reason: Stopped.to_string(), worn: false, waited: false };
    }
    let trapped = |reason, worn| Fault { cause: Cause::Trap, reason, worn, waited: false };
    if let Some(own) = error.downcast_ref::<OwnWait>() {
        // Bodies that calls before this one began and left take room too.
        return trapped(own.to_string(), matches!(own, OwnWait::Room(_)));
    }
    let told = tell(error, trap, limits);
    if refused {
        return trapped(
            format!(
                "reached its memory limit of {} (`limits.memory` raises it): {told}",
                size(limits.memory)
            ),
            true,
        );
    }
    let handles = matches!(error.downcast_ref(), Some(ResourceTableError::Full));
    trapped(told, handles)
}

fn tell(error: &wasmtime::Error, trap: Option<&Trap>, limits: &Limits) -> String {
    if trap == Some(&Trap::StackOverflow) {
        return format!("used more than its stack of {}", size(STACK_BYTES as u64));
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return format!("left by calling exit({})", exit.0);
    }
    if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) {
        return "holds more handles of the host than it may".to_owned();
    }
    let cause = error.root_cause().to_string();
    // The error's own type is private to wasmtime.
    if cause.contains("fuel allocated for hostcalls") {
        return format!("handed over more than its output limit of {} (limits.output)", size(limits.output));
    }
    let cause = cause.strip_prefix("wasm trap: ").unwrap_or(&cause);
    match trap {
        // Guests keep the larger part of their stack in their memory, and most begin that memory with it.
        Some(Trap::MemoryOutOfBounds) => format!(
            "trapped: {cause} (endless recursion can look like this: the stack that the plugin's build gave it is used up)"
        ),
        Some(_) => format!("trapped: {cause}"),
        None => format!("was stopped: {cause}"),
    }
}

/// A size for people.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0 => "0 bytes".to_owned(),
        bytes if bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        bytes if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wasmtime::Trap;

    use super::size;
    use crate::answers::Cause;
    use crate::limits::{Limits, MemoryGauge};
    use crate::waits::WaitedTooLong;

    #[test]
    fn sizes_are_told_as_people_write_them() {
        assert_eq!(size(256 << 20), "256 MiB");
        assert_eq!(size(1 << 30), "1 GiB");
        assert_eq!(size(1536), "1536 bytes");
        assert_eq!(size(2048), "2 KiB");
    }

    #[test]
    fn a_fault_names_the_limit_that_ended_the_call() {
        let limits = Limits::default();
        let of = |error: wasmtime::Error| {
            super::of(&error, &mut MemoryGauge::new(limits.memory), &limits, Duration::from_millis(250))
        };
        let fault = of(Trap::Interrupt.into());
        assert_eq!((fault.cause, &*fault.reason), (Cause::Timeout, "ran longer than its limit of 250ms"));
        assert_eq!(of(WaitedTooLong.into()).cause, Cause::Timeout);
        assert_eq!(of(Trap::StackOverflow.into()).reason, "used more than its stack of 1 MiB");
        let exit = of(wasmtime_wasi::I32Exit(3).into());
        assert_eq!((exit.cause, &*exit.reason), (Cause::Trap, "left by calling exit(3)"));
    }
}
