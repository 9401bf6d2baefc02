//! The commands that look at a flow, and that move its offsets, on a real Kafka.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use loom_tests::PATIENCE;
use loom_tests::guests::component;
use loom_tests::host::{Ended, Folder, Host};
use loom_tests::kafka::{Record, Space, shared};
use serde_json::Value;

/// A folder with a flow whose step may ask to be tried again, and the files of running flows.
fn folder(space: &Space<'_>, group: &str, input: &str, output: &str) -> Result<Folder> {
    let folder = Folder::new()?;
    let brokers = space.broker().address();
    let step = component("probe-step")?;
    folder.write(
        "flow.yaml",
        format!(
            "name: {group}\nkafka:\n  consumer: {{ brokers: [\"{brokers}\"], group_id: {group}, topics: [{input}], delivery: \
             at_least_once, auto_offset_reset: earliest }}\n  producer: {{ brokers: [\"{brokers}\"] }}\nruntime: {{ \
             lease_interval: 500ms }}\nplugins: {{ s: {{ component: {} }} }}\nprocess: [ {{ step: s }}, {{ into_topic: {output} \
             }} ]\n",
            step.display()
        ),
    )?;
    Ok(folder)
}

/// Runs a command beside a flow, which it finds by the folder.
fn ask(folder: &Folder, arguments: &[&str]) -> Result<Ended> {
    started(folder, arguments)?.wait()
}

fn started(folder: &Folder, arguments: &[&str]) -> Result<Host> {
    let runtime = folder.path().to_owned();
    Host::start_with(folder.path(), arguments, |command| {
        command.env("XDG_RUNTIME_DIR", runtime).env_remove("LOOM_ADMIN");
    })
}

fn text(ended: &Ended) -> String {
    ended.output.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n")
}

fn json(ended: &Ended) -> Result<Value> {
    ended.expect_status(0)?;
    serde_json::from_str(&text(ended)).with_context(|| text(ended))
}

#[test]
fn a_held_partition_is_explained_and_its_lag_known() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, output, group) = (space.topic("in", 1)?, space.topic("out", 1)?, space.group("g"));
    broker.write(&input, ["a", "retry:away", "b"].map(Record::new))?;
    let folder = folder(&space, &group, &input, &output)?;
    let host = started(&folder, &["run", "flow.yaml", "--admin", "127.0.0.1:0"])?;
    broker.await_committed(&group, &input, &[(0, 1)])?;
    broker.write(&input, (0..7).map(|n| Record::new(n.to_string())))?;

    let deadline = std::time::Instant::now() + PATIENCE;
    let status = loop {
        let status = json(&ask(&folder, &["status", "--format", "json"])?)?;
        if status["partitions"][0]["end"] == 10 {
            break status;
        }
        ensure!(std::time::Instant::now() < deadline, "the end is not known: {status:#}");
        std::thread::sleep(Duration::from_millis(200));
    };
    let partition = &status["partitions"][0];
    ensure!(partition["lag"] == 9 && partition["committed"] == 1, "{partition:#}");
    ensure!(partition["intake"] == "held" && partition["stalled"].is_null(), "{partition:#}");
    let why = ask(&folder, &["why", &format!("{input}/0")])?;
    ensure!(text(&why).contains("offset 1 holds the watermark"), "{}", text(&why));
    ensure!(text(&why).contains("its next attempt"), "{}", text(&why));
    host.stop()?.expect_status(0)?;
    Ok(())
}

#[test]
fn offsets_are_shown_and_moved_and_a_live_owner_forbids_it() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, output, group) = (space.topic("in", 2)?, space.topic("out", 1)?, space.group("g"));
    broker.write(&input, (0..10).map(|n| Record::new(n.to_string()).partition(n % 2)))?;
    let folder = folder(&space, &group, &input, &output)?;
    let shown = json(&ask(&folder, &["offsets", "flow.yaml", "--format", "json"])?)?;
    ensure!(shown["partitions"][0]["committed"].is_null() && shown["partitions"][0]["end"] == 5, "{shown:#}");

    let host = started(&folder, &["run", "flow.yaml", "--admin", "off"])?;
    broker.await_committed(&group, &input, &[(0, 5), (1, 5)])?;
    let refused = ask(&folder, &["offsets", "reset", "flow.yaml", "--to", "beginning", "--yes"])?;
    refused.expect_status(3)?;
    ensure!(refused.log_text().contains("is in use"), "{}", refused.log_text());
    host.stop()?.expect_status(0)?;

    let shown = ask(&folder, &["offsets", "flow.yaml"])?;
    ensure!(text(&shown).contains("run "), "{}", text(&shown));
    let dry = ask(&folder, &["offsets", "reset", "flow.yaml", "--to", "2", "--dry-run"])?;
    ensure!(text(&dry).contains("3 offsets again"), "{}", text(&dry));
    broker.await_committed(&group, &input, &[(0, 5), (1, 5)])?;
    let outside = ask(&folder, &["offsets", "reset", "flow.yaml", "--to", "6", "--yes"])?;
    outside.expect_status(4)?;
    ensure!(outside.log_text().contains("6 is outside"), "{}", outside.log_text());

    let moved = ask(&folder, &["offsets", "reset", "flow.yaml", "--to", "2", "--partition", "1", "--yes"])?;
    moved.expect_status(0)?;
    broker.await_committed(&group, &input, &[(0, 5), (1, 2)])?;
    let host = started(&folder, &["run", "flow.yaml", "--admin", "off"])?;
    broker.await_committed(&group, &input, &[(0, 5), (1, 5)])?;
    host.stop()?.expect_status(0)?;
    ensure!(broker.read_all(&output)?.len() == 13, "three records came again");

    ask(&folder, &["offsets", "reset", "flow.yaml", "--to", "1970-01-02T00:00:00Z", "--yes"])?
        .expect_status(0)?;
    broker.await_committed(&group, &input, &[(0, 0), (1, 0)])?;
    Ok(())
}
