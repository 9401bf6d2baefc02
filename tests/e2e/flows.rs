//! Whole flows on a real Kafka: modes, starts, several topics and workers, gaps, and how a run is refused.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use loom_tests::PATIENCE;
use loom_tests::guests::component;
use loom_tests::host::{Folder, Host};
use loom_tests::kafka::{Record, Space, shared};

/// A folder with a flow: `consumer` are further keys of the consumer, `rest` what follows the `kafka` section.
fn folder(space: &Space<'_>, group: &str, topics: &[&str], consumer: &str, rest: &str) -> Result<Folder> {
    let folder = Folder::new()?;
    let brokers = space.broker().address();
    let topics = topics.join(", ");
    let text = format!(
        "name: e2e\nkafka:\n  consumer: {{ brokers: [\"{brokers}\"], group_id: {group}, topics: [{topics}], {consumer} }}\n  \
         producer: {{ brokers: [\"{brokers}\"] }}\n{rest}"
    );
    folder.write("flow.yaml", text)?;
    Ok(folder)
}

/// A step that passes everything on, into one topic.
fn through(output: &str) -> Result<String> {
    let step = component("nop-column-step")?;
    Ok(format!(
        "plugins: {{ s: {{ component: {} }} }}\nprocess: [ {{ step: s }}, {{ into_topic: {output} }} ]\n",
        step.display()
    ))
}

fn numbered(count: usize, partition: i32) -> impl Iterator<Item = Record> {
    (0..count).map(move |n| {
        Record::new(format!("{partition}:{n}")).key(format!("k{partition}")).partition(partition)
    })
}

#[test]
fn order_is_kept_for_each_partition_with_two_workers_and_two_topics() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (a, b) = (space.topic("a", 2)?, space.topic("b", 1)?);
    let (output, group) = (space.topic("out", 3)?, space.group("g"));
    for partition in 0..2 {
        broker.write(&a, numbered(2000, partition))?;
    }
    broker.write(&b, (0..2000).map(|n| Record::new(format!("b:{n}")).key("kb").partition(0)))?;
    let consumer = "delivery: at_least_once, auto_offset_reset: earliest";
    let folder = folder(&space, &group, &[&a, &b], consumer, &through(&output)?)?;
    let host = Host::start(folder.path(), ["run", "flow.yaml", "-w", "2"])?;
    let rows = broker.reader(&output)?.take(6000)?;
    broker.await_committed(&group, &a, &[(0, 2000), (1, 2000)])?;
    broker.await_committed(&group, &b, &[(0, 2000)])?;
    let ended = host.stop()?;
    ended.expect_status(0)?;
    ended.stopped()?.balances()?;
    for source in ["0", "1", "b"] {
        let numbers: Vec<usize> = rows
            .iter()
            .filter_map(|row| row.text().strip_prefix(source)?.strip_prefix(':')?.parse().ok())
            .collect();
        assert_eq!(numbers, (0..2000).collect::<Vec<_>>(), "records of {source}");
    }
    let lag: i64 = broker.describe_group(&group)?.iter().filter_map(|row| row.lag).sum();
    assert_eq!(lag, 0);
    Ok(())
}

#[test]
fn each_mode_delivers_and_commits_and_leaves_the_group_at_the_end() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    for mode in [
        "delivery: at_least_once",
        "delivery: at_most_once",
        "enable_auto_commit: false",
        "enable_auto_commit: true",
        "batch_size: 7",
    ] {
        let space = broker.space();
        let (input, output, group) = (space.topic("in", 1)?, space.topic("out", 1)?, space.group("g"));
        broker.write(&input, numbered(50, 0))?;
        let consumer = format!("{mode}, auto_offset_reset: earliest");
        let folder = folder(&space, &group, &[&input], &consumer, &through(&output)?)?;
        let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
        broker.reader(&output)?.take(50)?;
        let ended = host.stop()?;
        ended.expect_status(0)?;
        let stopped = ended.stopped()?;
        stopped.balances()?;
        assert_eq!(stopped.ended("topic"), 50, "{mode}");
        assert!(stopped.counter("commits") > 0, "{mode}: {stopped:?}");
        broker.await_committed(&group, &input, &[(0, 50)])?;
    }
    Ok(())
}

#[test]
fn a_group_with_offsets_goes_on_from_them_and_one_without_starts_where_it_says() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    for (committed, reset, first) in [(Some(30), "earliest", 30), (None, "earliest", 0), (None, "latest", 50)]
    {
        let space = broker.space();
        let (input, output, group) = (space.topic("in", 1)?, space.topic("out", 1)?, space.group("g"));
        broker.write(&input, numbered(50, 0))?;
        if let Some(offset) = committed {
            broker.commit(&group, &input, 0, offset)?;
        }
        let consumer = format!("delivery: at_least_once, auto_offset_reset: {reset}");
        let folder = folder(&space, &group, &[&input], &consumer, &through(&output)?)?;
        let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
        if reset == "latest" {
            // The position that was chosen is committed before the first record, and without any.
            broker.await_committed(&group, &input, &[(0, 50)])?;
        }
        broker.write(&input, [Record::new("last").partition(0)])?;
        broker.await_committed(&group, &input, &[(0, 51)])?;
        host.stop()?.expect_status(0)?;
        let rows = broker.read_all(&output)?;
        assert_eq!(rows.len() as i64, 51 - first, "{committed:?} {reset}");
        let text = if first == 50 { "last".to_owned() } else { format!("0:{first}") };
        assert_eq!(rows[0].text(), text);
    }
    Ok(())
}

#[test]
fn gaps_and_tombstones_of_a_compacted_topic_are_never_waited_on() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let input = space.topic_with(
        "in",
        1,
        &[
            ("cleanup.policy", "compact"),
            ("min.cleanable.dirty.ratio", "0.001"),
            ("segment.ms", "50"),
            ("min.compaction.lag.ms", "0"),
            ("delete.retention.ms", "600000"),
        ],
    )?;
    let (output, group) = (space.topic("out", 1)?, space.group("g"));
    // Compacting needs closed segments: each write comes after the segment's time.
    let begun = Instant::now();
    let mut written = 0;
    loop {
        for n in 0..20 {
            broker.write(&input, [Record::new(format!("{n}")).key("a"), Record::tombstone("gone")])?;
            written += 2;
        }
        if broker.read_all(&input)?.len() < written {
            break;
        }
        ensure!(begun.elapsed() < 2 * PATIENCE, "the broker did not compact the topic");
    }
    broker.write(&input, [Record::new("last").key("b")])?;
    let end = i64::try_from(written)? + 1;
    let consumer = "delivery: at_least_once, auto_offset_reset: earliest";
    let folder = folder(&space, &group, &[&input], consumer, &through(&output)?)?;
    let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
    broker.await_committed(&group, &input, &[(0, end)])?;
    let ended = host.stop()?;
    ended.expect_status(0)?;
    let stopped = ended.stopped()?;
    stopped.balances()?;
    ensure!(stopped.ledger["skipped"].as_u64() > Some(0), "no tombstone was skipped: {stopped:?}");
    let rows = broker.read_all(&output)?;
    assert_eq!(rows.last().map(|row| row.text()).as_deref(), Some("last"));
    ensure!(rows.iter().all(|row| row.payload.is_some()), "a tombstone came through");
    Ok(())
}

#[test]
fn a_plugin_that_misbehaves_costs_its_record_and_the_error_row_says_which() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    for (payload, limit) in [
        ("loop", "ran longer than its limit of 10"),
        ("sleep", "ran longer than its limit of 10"),
        ("recurse", "the stack that the plugin's build gave it is used up"),
        ("alloc", "reached its memory limit of 32 MiB"),
    ] {
        let space = broker.space();
        let (input, output, failed) =
            (space.topic("in", 1)?, space.topic("out", 1)?, space.topic("failed", 1)?);
        let group = space.group("g");
        broker.write(&input, [Record::new("before"), Record::new(payload), Record::new("after")])?;
        let rest = format!(
            "plugins: {{ s: {{ component: {}, limits: {{ timeout: 100ms, memory: 32MiB }} }} }}\nprocess: [ {{ step: s }}, \
             {{ into_topic: {output} }} ]\nerrors: {{ task: [ {{ into_topic: {failed} }} ] }}\n",
            component("probe-column-step")?.display()
        );
        let consumer = "delivery: at_least_once, auto_offset_reset: earliest";
        let folder = folder(&space, &group, &[&input], consumer, &rest)?;
        let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
        broker.await_committed(&group, &input, &[(0, 3)])?;
        host.stop()?.expect_status(0)?;
        let texts: Vec<String> = broker.read_all(&output)?.iter().map(|row| row.text()).collect();
        assert_eq!(texts, ["before", "after"], "{payload}");
        let rows = broker.read_all(&failed)?;
        assert_eq!(rows.len(), 1, "{payload}");
        let envelope = rows[0].json()?;
        assert_eq!((&envelope["kind"], &envelope["plugin"]["name"]), (&"task".into(), &"s".into()));
        let record = &envelope["record"];
        assert_eq!(
            (&record["topic"], &record["partition"], &record["offset"], &record["payload"]),
            (&input.clone().into(), &0.into(), &1.into(), &payload.into())
        );
        let reason = envelope["reason"].as_str().unwrap_or_default();
        ensure!(reason.contains(limit), "{payload}: {reason}");
    }
    Ok(())
}

#[test]
fn a_topic_that_is_not_there_is_named_with_its_neighbours_and_not_made() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, group) = (space.topic("orders", 1)?, space.group("g"));
    let (wrong_in, wrong_out) = (space.name("ordres"), space.name("paymnets"));
    let consumer = "delivery: at_least_once";
    let folder = folder(&space, &group, &[&wrong_in], consumer, &through(&wrong_out)?)?;
    let ended = Host::run(folder.path(), ["run", "flow.yaml"])?;
    ended.expect_status(4)?;
    let log = ended.log_text();
    for word in [wrong_in.as_str(), wrong_out.as_str(), input.as_str(), "does not exist"] {
        ensure!(log.contains(word), "{word} is not in the log:\n{log}");
    }
    let topics = space.topics()?;
    ensure!(!topics.contains(&wrong_in) && !topics.contains(&wrong_out), "asking made a topic: {topics:?}");
    Ok(())
}

#[test]
fn check_asks_the_broker_what_a_start_would_ask() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, output, group) = (space.topic("orders", 2)?, space.topic("out", 1)?, space.group("g"));
    let consumer = "delivery: at_least_once";
    let good = folder(&space, &group, &[&input], consumer, &through(&output)?)?;
    let asked = ["check", "flow.yaml", "--broker", "--format", "json"];
    Host::run(good.path(), asked)?.expect_status(0)?;
    let missing = space.name("ordres");
    let wrong = folder(&space, &group, &[&missing], consumer, &through(&output)?)?;
    let _member = broker.join(&group, &input, "a-stranger", "classic")?;
    broker.await_member(&group, "a-stranger")?;
    let ended = Host::run(wrong.path(), asked)?;
    ended.expect_status(1)?;
    let told: serde_json::Value = serde_json::from_str(&ended.output[0].text)?;
    let issues = told["issues"].as_array().map(Vec::as_slice).unwrap_or_default();
    let errors = || issues.iter().filter(|issue| issue["severity"] == "error");
    let codes: Vec<_> = errors().filter_map(|issue| issue["code"].as_str()).collect();
    let paths: Vec<_> = errors().filter_map(|issue| issue["path"].as_str()).collect();
    assert_eq!(codes, ["GROUP_IN_USE", "TOPIC_MISSING"], "{told}");
    assert_eq!(paths, ["kafka.consumer.group_id", "kafka.consumer.topics[0]"], "{told}");
    ensure!(told.to_string().contains(&input), "the nearest topic is named: {told}");
    ensure!(!space.topics()?.contains(&missing), "asking made a topic");
    Ok(())
}

#[test]
fn a_broker_that_is_not_there_is_tried_for_the_startup_timeout_and_named() -> Result<()> {
    let folder = Folder::new()?;
    folder.write(
        "flow.yaml",
        "name: e2e\nkafka:\n  consumer: { brokers: [\"127.0.0.1:1\"], group_id: g, topics: [in], delivery: at_least_once }\n\
         runtime: { startup_timeout: 2s }\nprocess: [ drain ]\n",
    )?;
    let begun = Instant::now();
    let ended = Host::run(folder.path(), ["run", "flow.yaml"])?;
    ended.expect_status(4)?;
    ensure!(begun.elapsed() >= Duration::from_secs(1), "it gave up at once");
    ensure!(ended.log_text().contains("127.0.0.1:1"), "{}", ended.log_text());
    Ok(())
}

#[test]
fn an_untracked_sink_is_refused_under_at_least_once_and_runs_under_at_most_once() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, group) = (space.topic("in", 1)?, space.group("g"));
    broker.write(&input, numbered(3, 0))?;
    let sink = component("untracked-sink")?;
    let rest = format!(
        "plugins: {{ shelf: {{ component: {} }} }}\nprocess: [ {{ into_sink: shelf }} ]\n",
        sink.display()
    );
    let strict = folder(&space, &group, &[&input], "delivery: at_least_once", &rest)?;
    let ended = Host::run(strict.path(), ["run", "flow.yaml"])?;
    ended.expect_status(3)?;
    let log = ended.log_text();
    for word in ["SINK_UNTRACKED", "bind-commit-tracker", "untracked-sink.wasm", "`shelf`"] {
        ensure!(log.contains(word), "{word} is not in the log:\n{log}");
    }
    ensure!(broker.committed(&group, &input)?.is_empty(), "an offset was committed");

    let lax =
        folder(&space, &group, &[&input], "delivery: at_most_once, auto_offset_reset: earliest", &rest)?;
    let host = Host::start(lax.path(), ["run", "flow.yaml"])?;
    if let Err(error) = broker.await_committed(&group, &input, &[(0, 3)]) {
        bail!("{error:#}\n{}", host.log_text());
    }
    let ended = host.stop()?;
    ended.expect_status(0)?;
    assert_eq!(ended.stopped()?.ended("sink"), 3);
    Ok(())
}
