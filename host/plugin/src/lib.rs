//! Plugin host: WebAssembly components under limits
