//! What has guest code look at its time: a thread that advances the engine's epoch every 5 ms while a guest call is in
//! flight, and rests otherwise.
//!
//! Ticks only say *when* to look. They go on while the thread of a call is throttled, or waits for a processor, so no call
//! is charged for them: see [`clock`](crate::clock).

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use wasmtime::Engine;

/// The length of a tick.
const TICK: Duration = Duration::from_millis(5);

/// Ticks without a call before the thread rests. Calls that follow each other closely then find it awake, and wake
/// nobody.
const LINGER: u32 = 20;

/// Owns the ticking thread; it ends with this value.
#[derive(Debug)]
pub(crate) struct Ticker {
    beat: Arc<Beat>,
    thread: Option<JoinHandle<()>>,
}

/// What callers share with the thread.
#[derive(Debug)]
pub(crate) struct Beat {
    in_flight: AtomicU64,
    resting: AtomicBool,
    stopped: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Ticker {
    pub(crate) fn start(engine: Engine) -> std::io::Result<Ticker> {
        let beat = Arc::new(Beat {
            in_flight: AtomicU64::new(0),
            resting: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            thread: OnceLock::new(),
        });
        let shared = beat.clone();
        let thread = std::thread::Builder::new()
            .name("plugin-ticker".to_owned())
            .spawn(move || shared.run(&engine))?;
        // The thread may have begun to rest already; it looks again after saying so, and `enter` unparks by this handle.
        let _ = beat.thread.set(thread.thread().clone());
        Ok(Ticker { beat, thread: Some(thread) })
    }

    pub(crate) fn beat(&self) -> &Arc<Beat> {
        &self.beat
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.beat.stopped.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread does not panic; were it to, there is nothing to be told here.
            let _ = thread.join();
        }
    }
}

impl Beat {
    fn run(&self, engine: &Engine) {
        let mut idle = 0;
        while !self.stopped.load(Ordering::SeqCst) {
            idle = if self.in_flight.load(Ordering::Relaxed) == 0 { idle + 1 } else { 0 };
            if idle > LINGER {
                self.rest();
                idle = 0;
                continue;
            }
            std::thread::sleep(TICK);
            engine.increment_epoch();
        }
    }

    /// Parks until a call enters. Either the call sees `resting`, or this sees the call.
    fn rest(&self) {
        self.resting.store(true, Ordering::SeqCst);
        while self.in_flight.load(Ordering::SeqCst) == 0 && !self.stopped.load(Ordering::SeqCst) {
            std::thread::park();
        }
        self.resting.store(false, Ordering::SeqCst);
    }

    /// Keeps the ticker going as long as the guard lives.
    pub(crate) fn enter(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        if self.resting.load(Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
        InFlight { beat: self.clone() }
    }
}

/// A guest call, or a run of them, in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    beat: Arc<Beat>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.beat.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};

    use wasmtime::{Engine, Instance, Module, Store, Trap};

    use super::Ticker;

    #[test]
    fn the_ticker_rests_without_calls_and_wakes_with_one() {
        let engine = Engine::new(wasmtime::Config::new().epoch_interruption(true)).unwrap();
        let ticker = Ticker::start(engine.clone()).unwrap();
        let beat = ticker.beat().clone();
        let start = Instant::now();
        while !beat.resting.load(Ordering::SeqCst) {
            assert!(start.elapsed() < Duration::from_secs(30), "never rested");
            std::thread::yield_now();
        }
        let call = beat.enter();
        let code = wat::parse_str(r#"(module (func (export "loop") (loop (br 0))))"#).unwrap();
        let module = Module::new(&engine, code).unwrap();
        let mut store = Store::new(&engine, ());
        store.set_epoch_deadline(4);
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        let endless = instance.get_typed_func::<(), ()>(&mut store, "loop").unwrap();
        let error = endless.call(&mut store, ()).unwrap_err();
        assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::Interrupt), "four ticks came");
        drop(call);
        assert_eq!(beat.in_flight.load(Ordering::SeqCst), 0);
    }
}
