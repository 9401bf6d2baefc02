//! Where a flow starts on a real Kafka: partitions that were added, topics that were made again, replays that were cut,
//! and a second host on the same group.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use loom_tests::host::{Folder, Host};
use loom_tests::kafka::{Record, Space, shared};

/// A flow from one topic to another whose lease beats five times a second.
fn folder(space: &Space<'_>, group: &str, input: &str, output: &str) -> Result<Folder> {
    let folder = Folder::new()?;
    let brokers = space.broker().address();
    folder.write(
        "flow.yaml",
        format!(
            "name: e2e\nkafka:\n  consumer: {{ brokers: [\"{brokers}\"], group_id: {group}, topics: [{input}], delivery: \
             at_least_once, auto_offset_reset: earliest }}\n  producer: {{ brokers: [\"{brokers}\"] }}\nruntime: {{ lease_interval: \
             200ms }}\nprocess: [ {{ into_topic: {output} }} ]\n"
        ),
    )?;
    Ok(folder)
}

fn numbered(range: std::ops::Range<usize>) -> impl Iterator<Item = Record> {
    range.map(|n| Record::new(n.to_string()).key(format!("k{n}")))
}

/// What a topic holds, each once.
fn distinct(space: &Space<'_>, topic: &str) -> Result<BTreeSet<String>> {
    Ok(space.broker().read_all(topic)?.iter().map(|row| row.text()).collect())
}

#[test]
fn partitions_that_are_added_are_told_and_a_restart_after_a_kill_reads_them_from_their_beginning()
-> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, output, group) = (space.topic("in", 2)?, space.topic("out", 1)?, space.group("g"));
    let folder = folder(&space, &group, &input, &output)?;
    let host = Host::start(folder.path(), ["run", "flow.yaml", "-w", "2"])?;
    host.wait_for("that it runs", |line| line.message() == "running")?;
    broker.await_committed(&group, &input, &[(0, 0), (1, 0)])?;
    space.add_partitions(&input, 4)?;
    broker.write(&input, numbered(0..100))?;
    let told = host.wait_for("that partitions were added", |line| line.message().contains("were added"))?;
    assert_eq!((told.number("read"), told.number("partitions")), (Some(2), Some(4)));
    host.kill()?;
    let host = Host::start(folder.path(), ["run", "flow.yaml", "-w", "2"])?;
    let ends: Vec<(i32, i64)> = broker.ends(&input)?.into_iter().collect();
    broker.await_committed(&group, &input, &ends)?;
    let ended = host.stop()?;
    ended.expect_status(0)?;
    ended.stopped()?.balances()?;
    assert_eq!(distinct(&space, &output)?.len(), 100);
    Ok(())
}

#[test]
fn a_replay_cut_by_a_kill_goes_on_and_the_committed_offset_stays_its_floor() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, output, group) = (space.topic("in", 1)?, space.topic("out", 1)?, space.group("g"));
    broker.write(&input, numbered(0..20_000))?;
    broker.commit(&group, &input, 0, 20_000)?;
    let folder = folder(&space, &group, &input, &output)?;
    // What the killed host leaves behind depends on the moment; a few tries find one in the middle.
    let mut from: &[&str] = &["--from", "beginning"];
    let mut gone_on = None;
    for _ in 0..10 {
        let written = broker.ends(&output)?[&0];
        let host = Host::start(folder.path(), ["run", "flow.yaml"].iter().chain(from))?;
        let mut reader = broker.reader(&output)?;
        reader.take(usize::try_from(written)? + 400)?;
        host.kill()?;
        broker.await_committed(&group, &input, &[(0, 20_000)])?;
        let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
        host.wait_for("that it runs", |line| line.message() == "running")?;
        let log = host.log();
        let line = log.iter().find(|line| line.message().contains("a replay was cut here"));
        if let Some(at) = line.and_then(|line| line.number("at")).filter(|at| *at > 0) {
            gone_on = Some((host, at));
            break;
        }
        host.kill()?;
        from = &["--from", "beginning"];
    }
    let Some((host, at)) = gone_on else { anyhow::bail!("no kill came in the middle of a replay") };
    ensure!(at < 20_000, "cut at {at}");
    broker.write(&input, [Record::new("last")])?;
    broker.await_committed(&group, &input, &[(0, 20_001)])?;
    host.stop()?.expect_status(0)?;
    assert_eq!(distinct(&space, &output)?.len(), 20_001);
    Ok(())
}

#[test]
fn a_topic_that_was_made_again_is_read_from_its_beginning_with_a_warning() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    for records in [10, 400] {
        let space = broker.space();
        let (input, output, group) = (space.topic("in", 1)?, space.topic("out", 1)?, space.group("g"));
        broker.write(&input, numbered(0..100))?;
        let folder = folder(&space, &group, &input, &output)?;
        let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
        broker.await_committed(&group, &input, &[(0, 100)])?;
        host.stop()?.expect_status(0)?;
        let mark = broker.mark(&group, &input, 0)?;
        ensure!(mark.starts_with("loom1 topic="), "{mark}");
        space.delete_topic(&input)?;
        space.topic("in", 1)?;
        // Kafka removes the offsets of a topic that is deleted, soon or late; what a mirror or a backup of them brings back
        // says which topic it belongs to.
        broker.commit_marked(&group, &input, 0, 100, &mark)?;
        broker.write(&input, numbered(1000..1000 + records))?;
        let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
        broker.await_committed(&group, &input, &[(0, i64::try_from(records)?)])?;
        let ended = host.stop()?;
        ended.expect_status(0)?;
        let warned = ended.logged(|line| line.message().contains("made again"));
        assert_eq!(warned.len(), 1, "{}", ended.log_text());
        assert_eq!(distinct(&space, &output)?.len(), 100 + records);
    }
    Ok(())
}

#[test]
fn a_second_host_stops_and_one_that_takes_over_stops_the_first() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, output, group) = (space.topic("in", 1)?, space.topic("out", 1)?, space.group("g"));
    let folder = folder(&space, &group, &input, &output)?;
    let owner = Host::start(folder.path(), ["run", "flow.yaml"])?;
    broker.await_committed(&group, &input, &[(0, 0)])?;
    // The entry stands as soon as the group of the lease has an offset for it.
    broker.await_some_offset(&format!("{group}.owner"), &input)?;
    let pid = owner.pid().to_string();

    let second = Host::run(folder.path(), ["run", "flow.yaml"])?;
    second.expect_status(3)?;
    let log = second.log_text();
    for word in ["another host reads these partitions", &*format!("process {pid}"), "--take-over"] {
        ensure!(log.contains(word), "{word} is not in the log:\n{log}");
    }
    broker.write(&input, numbered(0..10))?;
    broker.await_committed(&group, &input, &[(0, 10)])?;

    let third = Host::start(folder.path(), ["run", "flow.yaml", "--take-over"])?;
    owner.wait()?.expect_status(4)?;
    broker.write(&input, numbered(10..20))?;
    broker.await_committed(&group, &input, &[(0, 20)])?;
    third.stop()?.expect_status(0)?;
    assert_eq!(distinct(&space, &output)?.len(), 20);
    Ok(())
}
