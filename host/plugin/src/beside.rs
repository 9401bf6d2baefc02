//! What calls beside the workers need, once a process: a small runtime, and a linker whose waits let others run.
//!
//! Made when the first waiting node starts, so that flows without one have neither. At the end the runtime is let go
//! without waiting for anything: what hangs must not hold the process.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};
use wasmtime::Engine;
use wasmtime::component::Linker;

use crate::state::{self, HostState};

/// Threads for all calls beside workers: these wait most of the time, and guest code among them yields at every tick.
const THREADS: usize = 2;

/// Threads for what can only block, such as name look-ups and files, at most.
const BLOCKING_THREADS: usize = 16;

/// See the module's description.
pub(crate) struct Beside {
    engine: Engine,
    runtime: OnceLock<Runtime>,
    linker: OnceLock<Linker<HostState>>,
}

impl Beside {
    pub(crate) fn new(engine: Engine) -> Self {
        Beside { engine, runtime: OnceLock::new(), linker: OnceLock::new() }
    }

    /// The runtime; what the system says where there can be none.
    pub(crate) fn runtime(&self) -> std::io::Result<&Handle> {
        if self.runtime.get().is_none() {
            let runtime = Builder::new_multi_thread()
                .worker_threads(THREADS)
                .max_blocking_threads(BLOCKING_THREADS)
                .thread_name("plugin-calls")
                .enable_all()
                .build()?;
            if let Err(second) = self.runtime.set(runtime) {
                second.shutdown_background();
            }
        }
        self.runtime.get().map(Runtime::handle).ok_or_else(|| std::io::Error::other("no runtime"))
    }

    pub(crate) fn linker(&self) -> wasmtime::Result<&Linker<HostState>> {
        if let Some(linker) = self.linker.get() {
            return Ok(linker);
        }
        let mut linker = Linker::new(&self.engine);
        state::add_to_linker_beside(&mut linker)?;
        Ok(self.linker.get_or_init(|| linker))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beside").field("runtime", &self.runtime.get().is_some()).finish_non_exhaustive()
    }
}
