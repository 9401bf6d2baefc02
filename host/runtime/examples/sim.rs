//! The simulation by hand: `cargo xtask sim`.

use std::io::Write;
use std::process::ExitCode;

use loom_runtime::sim::{Focus, Seeds, many, replay};

const HELP: &str = "\
Runs production workers on a simulated broker, plugins and time. A seed decides everything, and repeats it.

Usage: cargo xtask sim [OPTIONS]

  --seeds N     How many seeds (10000)
  --from S      The first one (0)
  --threads N   On so many threads (2)
  --failures N  End once so many have failed (5)
  --seed S      Repeat this one, and print its flow and its history
  --tight       Bounds that hold next to nothing, and sinks that flush late
  --expanders   Nodes that make rows of rows, with small bounds
  --routers     Nodes that part rows and bring them together again
";

/// The options that say what is looked at.
const FOCUSES: [(&str, Focus); 3] =
    [("--tight", Focus::TightBounds), ("--expanders", Focus::Expanders), ("--routers", Focus::Routers)];

fn main() -> ExitCode {
    match chosen() {
        Ok(Some(options)) => options.run(),
        Ok(None) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            eprintln!("error: {wrong}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}

struct Options {
    seeds: u64,
    from: u64,
    threads: u64,
    failures: u64,
    seed: Option<u64>,
    focus: Focus,
}

/// What the command line asks for; none for help.
fn chosen() -> Result<Option<Options>, String> {
    let mut options =
        Options { seeds: 10_000, from: 0, threads: 2, failures: 5, seed: None, focus: Focus::Anything };
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        if matches!(option.as_str(), "-h" | "--help") {
            return Ok(None);
        }
        if let Some((_, focus)) = FOCUSES.into_iter().find(|(name, _)| *name == option) {
            options.focus = focus;
            continue;
        }
        if !["--seeds", "--from", "--threads", "--failures", "--seed"].contains(&option.as_str()) {
            return Err(format!("there is no option {option}"));
        }
        let value = arguments.next().and_then(|text| text.parse().ok());
        let value: u64 = value.ok_or_else(|| format!("{option} takes a number"))?;
        match option.as_str() {
            "--seeds" => options.seeds = value,
            "--from" => options.from = value,
            "--threads" => options.threads = value,
            "--failures" => options.failures = value,
            _ => options.seed = Some(value),
        }
    }
    Ok(Some(options))
}

impl Options {
    fn run(&self) -> ExitCode {
        match self.seed {
            Some(seed) => repeat(seed, self.focus),
            None => self.many(),
        }
    }

    fn many(&self) -> ExitCode {
        let progress = |done: u64| {
            let mut terminal = std::io::stderr();
            // Progress that cannot be shown is no reason to stop.
            let _ = write!(terminal, "\r{done} of {} seeds", self.seeds).and_then(|()| terminal.flush());
        };
        let seeds = Seeds {
            from: self.from,
            count: self.seeds,
            threads: self.threads as usize,
            enough: self.failures.max(1),
            focus: self.focus,
            mutation: None,
        };
        let tally = many(seeds, progress);
        let seconds = tally.took.as_secs_f64();
        println!(
            "\r{} seeds in {seconds:.1} s: {:.0} a second, with {} records, {} processes and {} steps; {:.0} hours passed in them",
            tally.seeds,
            tally.seeds as f64 / seconds,
            tally.records,
            tally.runs,
            tally.steps,
            tally.simulated.as_secs_f64() / 3600.0
        );
        for failed in &tally.failed {
            println!("seed {} failed: {}", failed.seed, failed.why);
        }
        match tally.failed.first() {
            None => ExitCode::SUCCESS,
            Some(first) => {
                let focus = FOCUSES.into_iter().find(|(_, focus)| *focus == self.focus);
                let focus = focus.map_or_else(String::new, |(name, _)| format!("{name} "));
                println!(
                    "`cargo xtask sim {focus}--seed {}` prints what happened in the first one",
                    first.seed
                );
                ExitCode::FAILURE
            }
        }
    }
}

fn repeat(seed: u64, focus: Focus) -> ExitCode {
    let report = replay(seed, focus);
    println!("{}", report.flow);
    for line in &report.history {
        println!("{line}");
    }
    println!(
        "seed {seed}: {} records, {} processes, {} steps, {:.1} s",
        report.records,
        report.runs,
        report.steps,
        report.simulated.as_secs_f64()
    );
    match report.failure {
        None => ExitCode::SUCCESS,
        Some(why) => {
            println!("failed: {why}");
            ExitCode::FAILURE
        }
    }
}
