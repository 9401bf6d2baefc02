//! Outputs that refuse a record for good, and what becomes of it: the dead-letter topic, or the end of the flow.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use loom_tests::host::{Folder, Host};
use loom_tests::kafka::{Record, Space, shared};

/// A flow from `input` into one output with a dead-letter topic.
fn folder(space: &Space<'_>, group: &str, input: &str, output: &str, dlq: &str) -> Result<Folder> {
    let folder = Folder::new()?;
    let brokers = space.broker().address();
    folder.write(
        "flow.yaml",
        format!(
            "name: e2e\nkafka:\n  consumer: {{ brokers: [\"{brokers}\"], group_id: {group}, topics: [{input}], delivery: \
             at_least_once, auto_offset_reset: earliest }}\n  producer: {{ brokers: [\"{brokers}\"] }}\n\
             process: [ {{ into_topic: {output}, dlq: {dlq} }} ]\n"
        ),
    )?;
    Ok(folder)
}

fn large() -> Vec<u8> {
    (0..200_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn texts(space: &Space<'_>, topic: &str) -> Result<Vec<String>> {
    Ok(space.broker().read_all(topic)?.iter().map(|row| row.text()).collect())
}

#[test]
fn a_record_that_output_and_dead_letter_topic_refuse_stops_the_flow_and_both_are_named() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let small = [("max.message.bytes", "100000")];
    let (input, group) = (space.topic("in", 1)?, space.group("g"));
    let (output, dlq) = (space.topic_with("a", 1, &small)?, space.topic_with("d", 1, &small)?);
    broker.write(&input, [Record::new("r0"), Record::new(large()), Record::new("r2")])?;
    let folder = folder(&space, &group, &input, &output, &dlq)?;
    let ended = Host::run(folder.path(), ["run", "flow.yaml"])?;
    ended.expect_status(4)?;
    ended.stopped()?.balances()?;
    let log = ended.log_text();
    for word in [&*format!("{input}/0 offset 1"), &output, &dlq] {
        ensure!(log.contains(word), "{word} is not in the log:\n{log}");
    }
    let errors = ended.logged(|line| line.level() == "ERROR" && line.text.contains(&output));
    ensure!(errors.iter().any(|line| line.text.contains(&dlq)), "no error names both topics:\n{log}");
    broker.await_committed(&group, &input, &[(0, 1)])?;
    assert_eq!((texts(&space, &output)?, texts(&space, &dlq)?.len()), (vec!["r0".into(), "r2".into()], 0));
    Ok(())
}

#[test]
fn a_dead_letter_keeps_key_and_headers_and_has_the_time_of_its_failure() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, group) = (space.topic("in", 1)?, space.group("g"));
    // What it refuses: records that are too large, and those without a key.
    let output =
        space.topic_with("a", 1, &[("max.message.bytes", "100000"), ("cleanup.policy", "compact")])?;
    let dlq = space.topic("d", 1)?;
    let written_ms = 1_700_000_000_123;
    let record = |payload: Vec<u8>| {
        Record::new(payload)
            .timestamp_ms(written_ms)
            .header("h", Some(b"1"))
            .header("h", None)
            .header("loom-error-reason", Some(b"an earlier one"))
    };
    let sent = [
        record(b"r0".to_vec()).key("k0"),
        record(large()).key("k1"),
        record(b"r2".to_vec()),
        record(b"r3".to_vec()).key("k3"),
    ];
    let now_ms = || SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_millis() as i64);
    let begun_ms = now_ms()?;
    broker.write(&input, sent.clone())?;
    let folder = folder(&space, &group, &input, &output, &dlq)?;
    let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
    broker.await_committed(&group, &input, &[(0, 4)])?;
    let ended = host.stop()?;
    ended.expect_status(0)?;
    let stopped = ended.stopped()?;
    stopped.balances()?;
    assert_eq!((stopped.ended("topic"), stopped.ended("dead_letter")), (2, 2), "{stopped:?}");
    assert_eq!(texts(&space, &output)?, ["r0", "r3"]);

    let dead = broker.read_all(&dlq)?;
    assert_eq!(dead.len(), 2);
    for (row, (record, why)) in dead.iter().zip([(&sent[1], "max.message.bytes"), (&sent[2], "compacted")]) {
        assert_eq!((&row.key, &row.payload), (&record.key, &record.payload));
        let kept: Vec<_> =
            row.headers.iter().filter(|(name, _)| !name.starts_with("loom-error-")).cloned().collect();
        assert_eq!(kept, record.headers[..2], "the record's own headers");
        let count = |name: &str| row.headers.iter().filter(|(found, _)| found == name).count();
        let reason = row.header("loom-error-reason").unwrap_or_default();
        ensure!(count("loom-error-reason") == 1 && reason.contains(why), "{:?}", row.headers);
        assert_eq!(row.header("loom-error-kind").as_deref(), Some("delivery"));
        assert_eq!(row.header("loom-error-timestamp"), Some(written_ms.to_string()));
        let stamp = row.timestamp_ms.unwrap_or_default();
        ensure!((begun_ms..=now_ms()?).contains(&stamp), "{stamp} is not the time of the failure");
    }
    Ok(())
}
