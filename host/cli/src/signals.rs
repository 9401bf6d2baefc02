//! SIGTERM and SIGINT: the first asks for a graceful stop, the second ends the process at once.
//!
//! Signals are taken by a thread of their own, so that a stuck worker or a blocking start cannot delay the second one.
//! Until [`Signals::running`] is called no record is in flight: the first one ends the process as well, at once, or soon where
//! the start has something to close.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals as Incoming;
use signal_hook::low_level::exit;

use crate::status::Status;

/// Said of a stop during the start.
const BEFORE_IT_RAN: &str = "stopped before the flow ran: no record was taken";

/// What the first signal does.
type OnStop = Box<dyn Fn() + Send>;

/// How long a start may take to end that was told to stop: one question to a broker takes up to ten seconds, and a component
/// may be compiling.
const START_ENDS_WITHIN: Duration = Duration::from_secs(15);

#[derive(Default)]
struct State {
    /// None before the start.
    on_stop: Option<OnStop>,
    /// Nothing runs yet.
    starting: bool,
    /// The first signal.
    heard: Option<u8>,
}

/// The signals of this process.
#[derive(Clone, Default)]
pub struct Signals {
    state: Arc<Mutex<State>>,
}

impl Signals {
    /// Takes over both signals. `while_starting` is the status of a process that is told to stop before it runs.
    ///
    /// # Errors
    /// The system refused a handler or a thread.
    pub fn listen(while_starting: fn(u8) -> Status) -> io::Result<Signals> {
        let mut incoming = Incoming::new([SIGTERM, SIGINT])?;
        let signals = Signals::default();
        let heard = signals.clone();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in incoming.forever() {
                heard.take(u8::try_from(signal).unwrap_or_default(), while_starting);
            }
        })?;
        Ok(signals)
    }

    /// From now on the first signal calls `on_stop`, which ends the start; if it does not soon, the process ends.
    pub fn starting(&self, on_stop: impl Fn() + Send + 'static) {
        self.on_stop(Box::new(on_stop), true);
    }

    /// From now on the first signal calls `on_stop`.
    pub fn running(&self, on_stop: impl Fn() + Send + 'static) {
        self.on_stop(Box::new(on_stop), false);
    }

    fn on_stop(&self, on_stop: OnStop, starting: bool) {
        let mut state = self.lock();
        (state.on_stop, state.starting) = (Some(on_stop), starting);
    }

    /// The first signal that came, if any.
    pub fn heard(&self) -> Option<u8> {
        self.lock().heard
    }

    fn take(&self, signal: u8, while_starting: fn(u8) -> Status) {
        let mut state = self.lock();
        let status = match (&state.heard, &state.on_stop) {
            (Some(_), _) => Status::Signal(signal),
            (None, None) => {
                tracing::info!(signal, "{BEFORE_IT_RAN}");
                while_starting(signal)
            }
            (None, Some(on_stop)) => {
                if state.starting {
                    tracing::info!(signal, "{BEFORE_IT_RAN}");
                    let (signals, status) = (self.clone(), while_starting(signal));
                    // Without a thread the start takes its time.
                    let _ = thread::Builder::new().spawn(move || {
                        thread::sleep(START_ENDS_WITHIN);
                        let state = signals.lock();
                        if state.starting {
                            end(status);
                        }
                    });
                } else {
                    tracing::info!(signal, "stopping: a second signal ends the process at once");
                }
                on_stop();
                state.heard = Some(signal);
                return;
            }
        };
        end(status)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the process without destructors and exit handlers: nothing may keep it.
fn end(status: Status) -> ! {
    exit(i32::from(status.number()))
}
