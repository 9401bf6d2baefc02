//! What a real broker refuses, and who is blamed for it: sizes, keys, topics that are not there.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use loom_tests::host::{Folder, Host};
use loom_tests::kafka::{Record, Space, shared};

/// A flow from `input`; `producer` are further keys of the producer, `rest` is the process and what follows.
fn folder(space: &Space<'_>, group: &str, input: &str, producer: &str, rest: &str) -> Result<Folder> {
    let folder = Folder::new()?;
    let brokers = space.broker().address();
    let text = format!(
        "name: e2e\nkafka:\n  consumer: {{ brokers: [\"{brokers}\"], group_id: {group}, topics: [{input}], delivery: \
         at_least_once }}\n  producer: {{ brokers: [\"{brokers}\"]{producer} }}\n{rest}"
    );
    folder.write("flow.yaml", text)?;
    Ok(folder)
}

/// Bytes that no codec makes smaller.
fn noise(size: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let next = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    });
    next.take(size).collect()
}

/// An input that takes large records.
fn wide_input(space: &Space<'_>) -> Result<String> {
    space.topic_with("in", 1, &[("max.message.bytes", "10000000")])
}

#[test]
fn a_record_that_fits_once_it_is_compressed_is_delivered_in_order() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    for codec in ["lz4", "zstd", "gzip", "snappy"] {
        let space = broker.space();
        let (input, group) = (wide_input(&space)?, space.group("g"));
        let output = space.topic_with("out", 1, &[("max.message.bytes", "1000000")])?;
        let letters = vec![b'A'; 3 << 19];
        broker.write(&input, [Record::new("r0"), Record::new(letters.clone()), Record::new("r2")])?;
        let rest = format!("process: [ {{ into_topic: {output} }} ]\n");
        let folder = folder(&space, &group, &input, &format!(", compression: {codec}"), &rest)?;
        let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
        broker.await_committed(&group, &input, &[(0, 3)])?;
        host.stop()?.expect_status(0)?;
        let rows: Vec<_> = broker.read_all(&output)?.into_iter().map(|row| row.payload).collect();
        assert_eq!(rows, [Some(b"r0".to_vec()), Some(letters), Some(b"r2".to_vec())], "{codec}");
    }
    Ok(())
}

#[test]
fn a_limit_that_changes_while_the_flow_runs_counts_for_the_next_record() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, group) = (wide_input(&space)?, space.group("g"));
    let output = space.topic_with("out", 1, &[("max.message.bytes", "1000000")])?;
    let dead = space.topic("dead", 1)?;
    let rest = format!(
        "process: [ {{ into_topic: {output} }} ]\nerrors: {{ delivery: [ {{ into_topic: {dead} }} ] }}\n"
    );
    let folder = folder(&space, &group, &input, "", &rest)?;
    let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
    broker.write(&input, [Record::new("r0")])?;
    broker.await_committed(&group, &input, &[(0, 1)])?;

    space.alter_topic(&output, "max.message.bytes", "500000")?;
    let large = noise(800_000, 7);
    broker.write(&input, [Record::new("r1"), Record::new(large.clone()).key("k"), Record::new("r3")])?;
    broker.await_committed(&group, &input, &[(0, 4)])?;
    let rows = broker.read_all(&dead)?;
    assert_eq!(rows.len(), 1, "it alone");
    // As an envelope it has no room in `dead`, as its own bytes it has.
    assert_eq!((rows[0].payload.as_ref(), rows[0].key_text().as_deref()), (Some(&large), Some("k")));
    for (name, value) in [("kind", "delivery"), ("topic", &*input), ("offset", "2")] {
        assert_eq!(rows[0].header(&format!("loom-error-{name}")).as_deref(), Some(value), "{name}");
    }
    let seen: Vec<_> = broker.read_all(&output)?.into_iter().map(|row| row.text()).collect();
    ensure!(
        seen.len() == 3 && seen.contains(&"r1".to_owned()) && seen.contains(&"r3".to_owned()),
        "{seen:?}"
    );

    space.alter_topic(&output, "max.message.bytes", "3000000")?;
    // What was read a moment ago is believed.
    std::thread::sleep(Duration::from_secs(3));
    let larger = noise(2_000_000, 9);
    broker.write(&input, [Record::new(larger.clone()), Record::new("r5")])?;
    broker.await_committed(&group, &input, &[(0, 6)])?;
    let ended = host.stop()?;
    ended.expect_status(0)?;
    let stopped = ended.stopped()?;
    stopped.balances()?;
    assert_eq!((stopped.ended("topic"), stopped.ended("error_route(delivery)")), (5, 1));
    assert_eq!(stopped.counter("restarts"), 0);
    let rows: Vec<_> = broker.read_all(&output)?.into_iter().skip(3).map(|row| row.payload).collect();
    assert_eq!(rows, [Some(larger), Some(b"r5".to_vec())]);
    Ok(())
}

#[test]
fn a_record_that_is_too_large_stops_the_flow_alone_or_takes_the_delivery_route() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    for routed in [false, true] {
        let space = broker.space();
        let (input, group) = (wide_input(&space)?, space.group("g"));
        let output = space.topic_with("out", 1, &[("max.message.bytes", "100000")])?;
        let dead = space.topic("dead", 1)?;
        broker.write(&input, [Record::new("r0"), Record::new(noise(200_000, 3)), Record::new("r2")])?;
        let route = format!("errors: {{ delivery: [ {{ into_topic: {dead} }} ] }}\n");
        let rest = format!("process: [ {{ into_topic: {output} }} ]\n{}", if routed { &route } else { "" });
        let folder = folder(&space, &group, &input, "", &rest)?;
        if routed {
            let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
            broker.await_committed(&group, &input, &[(0, 3)])?;
            host.stop()?.expect_status(0)?;
            let envelope = broker.read_all(&dead)?[0].json()?;
            assert_eq!(envelope["kind"], "delivery");
            assert_eq!(envelope["record"]["offset"], 1);
        } else {
            let ended = Host::run(folder.path(), ["run", "flow.yaml"])?;
            ended.expect_status(4)?;
            let log = ended.log_text();
            for part in [&*format!("{input}/0 offset 1"), &output, "max.message.bytes is 100000"] {
                ensure!(log.contains(part), "{part} is not in the log:\n{log}");
            }
            broker.await_committed(&group, &input, &[(0, 1)])?;
        }
        let seen: Vec<_> = broker.read_all(&output)?.into_iter().map(|row| row.text()).collect();
        assert_eq!(seen, ["r0", "r2"]);
    }
    Ok(())
}

#[test]
fn a_keyless_record_for_a_compacted_topic_is_refused_at_once_and_alone() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, group) = (space.topic("in", 1)?, space.group("g"));
    let output = space.topic_with("out", 1, &[("cleanup.policy", "compact")])?;
    let dead = space.topic("dead", 1)?;
    let rest = format!(
        "process: [ {{ into_topic: {output} }} ]\nerrors: {{ delivery: [ {{ into_topic: {dead} }} ] }}\n"
    );
    broker.write(&input, [Record::new("r0").key("a"), Record::new("r1"), Record::new("r2").key("b")])?;
    let folder = folder(&space, &group, &input, "", &rest)?;
    let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
    host.wait_for("the flow runs", |line| line.message() == "running")?;
    let begun = Instant::now();
    broker.await_committed(&group, &input, &[(0, 3)])?;
    ensure!(begun.elapsed() < Duration::from_secs(10), "it took {:?}", begun.elapsed());
    host.stop()?.expect_status(0)?;
    let seen: Vec<_> = broker.read_all(&output)?.into_iter().map(|row| row.text()).collect();
    assert_eq!(seen, ["r0", "r2"]);
    let envelope = broker.read_all(&dead)?[0].json()?;
    assert_eq!(envelope["record"]["payload"], "r1");
    ensure!(envelope["reason"].as_str().is_some_and(|reason| reason.contains("compacted")), "{envelope}");
    Ok(())
}

#[test]
fn outputs_that_are_not_there_are_named_with_their_nearest_and_are_not_made() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, group) = (space.topic("orders.in", 1)?, space.group("g"));
    let (output, dead) = (space.topic("orders.out", 1)?, space.topic("dead", 1)?);
    let (wrong, wrong_dead) = (space.name("orders.otu"), space.name("deda"));
    let dlq = space.name("orders.oot");
    let rest = format!(
        "process: [ {{ into_topic: {wrong}, dlq: {dlq} }} ]\nerrors: {{ delivery: [ {{ into_topic: {wrong_dead} }} ] }}\n"
    );
    let folder = folder(&space, &group, &input, "", &rest)?;
    let ended = Host::run(folder.path(), ["run", "flow.yaml"])?;
    ended.expect_status(4)?;
    let log = ended.log_text();
    for word in [&wrong, &wrong_dead, &dlq, &output, &dead] {
        ensure!(log.contains(&**word), "{word} is not in the log:\n{log}");
    }
    let topics = space.topics()?;
    for name in [&wrong, &wrong_dead, &dlq] {
        ensure!(!topics.contains(name), "asking made {name}");
    }
    Ok(())
}
