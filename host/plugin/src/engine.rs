//! The one wasmtime engine of the process, and its settings.

use wasmtime::{Config, Engine, OptLevel, WasmBacktraceDetails};

/// The stack of guest code. The thread that calls has more than this.
pub(crate) const STACK_BYTES: usize = 1 << 20;

/// Makes the engine.
pub(crate) fn engine() -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config
        .cranelift_opt_level(OptLevel::Speed)
        .epoch_interruption(true)
        .max_wasm_stack(STACK_BYTES)
        .async_stack_size(2 * STACK_BYTES)
        .wasm_backtrace_details(WasmBacktraceDetails::Enable)
        // WASI 0.2 is the base: no component-model async, and no bookkeeping for it.
        .concurrency_support(false);
    Engine::new(&config)
}
