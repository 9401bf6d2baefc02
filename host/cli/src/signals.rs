//! SIGTERM and SIGINT: the first asks for a graceful stop, the second ends the process at once.
//!
//! Signals are taken by a thread of their own, so that a stuck worker or a blocking start cannot delay the second one.
//! Until [`Signals::running`] is called nothing is in flight, and the first one ends the process as well.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals as Incoming;
use signal_hook::low_level::exit;

use crate::status::Status;

/// What the first signal does.
type OnStop = Box<dyn Fn() + Send>;

#[derive(Default)]
struct State {
    /// None while starting.
    on_stop: Option<OnStop>,
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

    /// From now on the first signal calls `on_stop`.
    pub fn running(&self, on_stop: impl Fn() + Send + 'static) {
        self.lock().on_stop = Some(Box::new(on_stop));
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
                tracing::info!(signal, "stopped before the flow ran: no record was taken");
                while_starting(signal)
            }
            (None, Some(on_stop)) => {
                tracing::info!(signal, "stopping: a second signal ends the process at once");
                on_stop();
                state.heard = Some(signal);
                return;
            }
        };
        // Without destructors and exit handlers: nothing may keep the process.
        exit(i32::from(status.number()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
