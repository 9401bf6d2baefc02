//! How much memory the host has, as the system counts it.

use std::fs;

use anyhow::{Context, Result};

use super::Host;

/// Resident memory in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Now.
    pub now: u64,
    /// The most since it began.
    pub peak: u64,
}

impl Host {
    /// Its memory.
    ///
    /// # Errors
    /// If the host has ended, or the system has no `/proc`.
    pub fn memory(&self) -> Result<Memory> {
        let path = format!("/proc/{}/status", self.pid());
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let bytes = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            number.map(|kilobytes| kilobytes << 10).with_context(|| format!("{path} lacks {name}"))
        };
        Ok(Memory { now: bytes("VmRSS")?, peak: bytes("VmHWM")? })
    }
}
