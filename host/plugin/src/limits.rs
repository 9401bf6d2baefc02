//! What a plugin may use up: memory, time, output, log, and the host-side handles behind them.
//!
//! [`MemoryGauge`] is asked before a linear memory or table grows. It says no by letting `memory.grow` fail, as a real
//! machine does, and remembers that it did: the trap that follows in the guest can then be told as what it is.

use std::time::Duration;

use wasmtime::ResourceLimiter;

/// Elements of all tables of an instance together. Function tables of large guests (Python, JavaScript) have some tens
/// of thousands.
const TABLE_ELEMENTS: usize = 1 << 20;

/// Core instances, tables and memories of one component. Components of language toolchains have fewer than 20.
const CORE_INSTANCES: usize = 200;

/// Handles that a guest may hold at once: files, streams, pollables, and the host's own entries behind them.
pub(crate) const HANDLES: usize = 16_384;

/// Rows of one plugin batch, at most.
pub(crate) const BATCH_ROWS: usize = 512;

/// Bytes of one plugin batch, at most; a larger record goes alone.
const BATCH_BYTES: u64 = 1 << 20;

/// The bounds of a plugin, for each of its instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory.
    pub memory: u64,
    /// Time of a call; a node's own time-out goes before it. A column call gets 1 ms for each row on top.
    pub timeout: Duration,
    /// Time of instantiating and `configure`, of `flush`, and of `close`.
    pub lifecycle: Duration,
    /// Bytes that one call, or one call of a host function, may hand to the host.
    pub output: u64,
    /// Bytes of log a second. What is above is left out and counted.
    pub log: u64,
}

impl Default for Limits {
    /// 256 MiB of memory, 250 ms a call, 30 s for the lifecycle, 64 MiB of output, 1 MiB of log a second.
    fn default() -> Self {
        Limits {
            memory: 256 << 20,
            timeout: Duration::from_millis(250),
            lifecycle: Duration::from_secs(30),
            output: 64 << 20,
            log: 1 << 20,
        }
    }
}

impl Limits {
    /// The bytes of one plugin batch: 1 MiB, or a sixteenth of the memory, whichever is less.
    pub(crate) fn batch_bytes(&self) -> usize {
        (self.memory / 16).min(BATCH_BYTES) as usize
    }
}

/// Counts the memory of one store and bounds it.
#[derive(Debug)]
pub(crate) struct MemoryGauge {
    limit: u64,
    memory: u64,
    elements: usize,
    refused: bool,
}

impl MemoryGauge {
    pub(crate) fn new(limit: u64) -> Self {
        MemoryGauge { limit, memory: 0, elements: 0, refused: false }
    }

    /// Bytes of all linear memories now.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// Whether a growth was refused since this was last asked.
    pub(crate) fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.refused)
    }
}

impl ResourceLimiter for MemoryGauge {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let grown = self.memory + (desired.saturating_sub(current)) as u64;
        if grown > self.limit {
            self.refused = true;
            return Ok(false);
        }
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        self.memory = grown;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let grown = self.elements + desired.saturating_sub(current);
        if grown > TABLE_ELEMENTS || maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        self.elements = grown;
        Ok(true)
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES
    }

    fn tables(&self) -> usize {
        CORE_INSTANCES
    }

    fn memories(&self) -> usize {
        CORE_INSTANCES
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::ResourceLimiter;

    use super::{Limits, MemoryGauge};

    #[test]
    fn memories_of_one_store_share_one_limit() {
        let mut gauge = MemoryGauge::new(100);
        assert!(gauge.memory_growing(0, 60, None).unwrap());
        assert!(!gauge.memory_growing(0, 60, None).unwrap());
        assert!(gauge.take_refused());
        assert!(!gauge.take_refused(), "told once");
        assert!(gauge.memory_growing(60, 100, None).unwrap());
        assert_eq!(gauge.memory(), 100);
    }

    #[test]
    fn growth_beyond_the_memorys_own_maximum_is_not_the_limits_doing() {
        let mut gauge = MemoryGauge::new(100);
        assert!(!gauge.memory_growing(0, 60, Some(50)).unwrap());
        assert!(!gauge.take_refused());
        assert_eq!(gauge.memory(), 0);
    }

    #[test]
    fn a_small_memory_makes_batches_small() {
        assert_eq!(Limits::default().batch_bytes(), 1 << 20);
        assert_eq!(Limits { memory: 4 << 20, ..Limits::default() }.batch_bytes(), 256 << 10);
    }
}
