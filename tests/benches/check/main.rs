//! `loom-host check`: user and system time of the whole process, its start included, for a small flow and one of 500 nodes.
//!
//! `cargo xtask bench check [-- --runs N]`. The runs of each flow are counted together: the system counts processes in steps
//! of a hundredth of a second.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use loom_tests::guests::component;
use loom_tests::host::{Folder, binary};

/// Flows by the number of their nodes, and what a check of each may take.
const FLOWS: [(usize, Duration); 2] = [(5, Duration::from_millis(20)), (500, Duration::from_millis(50))];

/// Nodes of a branch.
const BRANCH: usize = 9;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let runs: u32 = match &arguments[..] {
        [] => 100,
        [name, value] if name == "--runs" => value.parse().with_context(|| format!("--runs {value}"))?,
        other => bail!("{other:?} is not known; there is --runs N"),
    };
    ensure!(runs > 0, "nothing to measure");
    let folder = Folder::new()?;
    println!("{runs} runs each\n\n| nodes | user + system, ms | budget |\n|---|---|---|");
    for (nodes, budget) in FLOWS {
        folder.write("flow.yaml", flow(nodes)?)?;
        // The first one fetches the files.
        check(&folder)?;
        let before = children()?;
        for _ in 0..runs {
            check(&folder)?;
        }
        let each = (children()? - before) / runs;
        println!("| {nodes} | {:.1} | ≤ {} |", each.as_secs_f64() * 1e3, budget.as_millis());
    }
    Ok(())
}

fn check(folder: &Folder) -> Result<()> {
    let mut command = Command::new(binary()?);
    command.args(["check", "flow.yaml"]).current_dir(folder.path()).stdin(Stdio::null());
    let output = command.output().context("cannot start the host")?;
    ensure!(output.status.success(), "the flow is wrong:\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// A flow of so many nodes: branches of a `broadcast` with steps, expressions and outputs of their own.
fn flow(nodes: usize) -> Result<String> {
    let step = component("nop-column-step")?;
    let mut text = format!(
        "name: bench
kafka:
  consumer: {{ brokers: [\"broker:9092\"], group_id: bench, topics: [orders.in], delivery: at_least_once }}
  producer: {{ brokers: [\"broker:9092\"] }}
plugins: {{ s: {{ component: {} }} }}
errors: {{ default: [ drain ] }}
process:
  - broadcast:
",
        step.display()
    );
    // The broadcast and the error route's node are two.
    let mut left = nodes.saturating_sub(2);
    let mut branch = 0;
    while left > 0 {
        let inner = left.min(BRANCH) - 1;
        text.push_str("      - ");
        for node in 0..inner {
            let node = match node % 4 {
                0 => format!("filter: payload.total > {branch}.5 && has(payload.customer)"),
                1 => "step: s".to_owned(),
                2 => "map: \"{'id': payload.id, 'total': payload.total * 2}\"".to_owned(),
                _ => format!(
                    "router: {{ by: payload.kind, branches: {{ a: [], b{branch}: [] }}, default: pass }}"
                ),
            };
            let _ = write!(text, "- {node}\n        ");
        }
        let _ = writeln!(text, "- into_topic: orders.out.{branch}");
        left -= inner + 1;
        branch += 1;
    }
    Ok(text)
}

/// User and system time of all processes that this one started and that have ended.
fn children() -> Result<Duration> {
    /// The kernel's USER_HZ, which is 100 on every architecture that Rust's tier 1 has.
    const TICKS_PER_SECOND: u64 = 100;
    let stat = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    // The name, in parentheses, may hold anything; after it, cutime and cstime are the fourteenth and fifteenth fields.
    let fields: Vec<&str> =
        stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok());
    let (user, system) = ticks(13).zip(ticks(14)).context("/proc/self/stat is odd")?;
    Ok(Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND))
}
