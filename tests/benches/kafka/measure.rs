//! What a process has cost.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// One run of one variant.
#[derive(Clone, Copy)]
pub struct Cost {
    /// User and system time of the process.
    pub cpu: Duration,
    /// From its start until everything was committed.
    pub wall: Duration,
}

impl Cost {
    /// CPU seconds for a million records.
    pub fn cpu_per_million(&self, records: u64) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / records as f64
    }
}

/// User and system time that a process has used so far, all its threads together, in steps of a hundredth of a second.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    /// The kernel's USER_HZ, which is 100 on every architecture that Rust's tier 1 has.
    const TICKS_PER_SECOND: u64 = 100;
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // The name, in parentheses, may hold anything; after it, utime and stime are the twelfth and thirteenth fields.
    let after_name = stat.rsplit_once(')').with_context(|| format!("{path} is odd"))?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok());
    let (user, system) = ticks(11).zip(ticks(12)).with_context(|| format!("{path} is odd"))?;
    Ok(Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND))
}

/// The middle value; of an even number, the upper of the two.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
