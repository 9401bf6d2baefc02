//! The log's last line: what a run did, in numbers, and whether its books balance.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::log::Line;

/// The `stopped` line.
#[derive(Clone, Debug)]
pub struct Stopped {
    line: Value,
    /// `registered`, `resolved`, `outstanding`, `skipped`, `minted`, `consumed`, `live`, and `ended` by ending.
    pub ledger: Value,
    /// By topic and partition: `position`, `committed`, `outstanding`.
    pub offsets: Value,
    /// Failed rows: a list of `node`, `kind`, `rows`.
    pub errors: Value,
}

impl Stopped {
    /// From the last line of a log.
    ///
    /// # Errors
    /// If that is another line, or lacks what belongs there.
    pub(super) fn from_log(log: &[Line]) -> Result<Self> {
        let line = log.last().filter(|line| line.message() == "stopped").and_then(|line| line.json.clone());
        let line = line.context("the last line of the log is not `stopped`")?;
        // The log is flat: what has a structure is JSON in a text.
        let inner = |name: &str| {
            let text =
                line.get(name).and_then(Value::as_str).with_context(|| format!("`stopped` lacks {name}"))?;
            serde_json::from_str(text).with_context(|| format!("{name} is {text:?}"))
        };
        Ok(Self { ledger: inner("ledger")?, offsets: inner("offsets")?, errors: inner("errors")?, line })
    }

    /// A counter such as `commits`; 0 if it is not there.
    pub fn counter(&self, name: &str) -> u64 {
        self.line.get(name).and_then(Value::as_u64).unwrap_or_default()
    }

    /// How many rows ended so, such as `topic` or `dropped(task)`.
    pub fn ended(&self, how: &str) -> u64 {
        self.ledger["ended"][how].as_u64().unwrap_or_default()
    }

    /// Makes sure that both equations hold and that no token was dropped without a verdict.
    ///
    /// # Errors
    /// Names the equation, with the ledger.
    pub fn balances(&self) -> Result<()> {
        let of = |name: &str| self.ledger[name].as_u64().with_context(|| format!("the ledger lacks {name}"));
        let ended = self.ledger["ended"].as_object().context("the ledger lacks `ended`")?;
        let ended: u64 = ended.values().filter_map(Value::as_u64).sum();
        let ledger = &self.ledger;
        ensure!(
            of("registered")? == of("resolved")? + of("outstanding")?,
            "the records do not balance: {ledger}"
        );
        ensure!(
            of("minted")? == ended + of("consumed")? + of("live")?,
            "the tokens do not balance: {ledger}"
        );
        // Partition by partition, as the host sees it.
        ensure!(ledger["balances"] == true, "a partition does not balance: {ledger}");
        ensure!(self.counter("lost_tokens") == 0, "tokens were dropped without a verdict: {}", self.line);
        Ok(())
    }
}
