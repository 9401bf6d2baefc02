//! What the host needs of memory on a real Kafka, and batches that unpack to far more than they were.

use anyhow::{Result, bail, ensure};
use loom_tests::drill::{CONSTANT, HeldFlow, StuckRecord};
use loom_tests::host::{Folder, Host};
use loom_tests::kafka::{Access, Broker, Record, shared};

#[test]
fn a_hundred_partitions_behind_a_held_flow_are_read_ahead_within_the_budget() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    HeldFlow::default().hold(broker)?;
    Ok(())
}

#[test]
fn one_stuck_record_costs_no_memory_and_holds_up_no_other_partition() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let report = StuckRecord::default().hold(broker)?;
    println!("{report:?}");
    ensure!(report.passed > 10_000, "{report:?}");
    Ok(())
}

#[test]
fn batches_that_unpack_hugely_are_read_and_never_hold_up_other_topics() -> Result<()> {
    const MIB: usize = 1 << 20;
    const SIZES: [usize; 5] = [36, 60, 90, 120, 300];
    const PREFETCH: usize = 16;
    // A broker unpacks batches to check them, and this one's memory is nobody else's.
    let Some(broker) = Broker::own()? else { return Ok(()) };
    let space = broker.space();
    let group = space.group("g");
    let (mut topics, record) = (Vec::new(), Record::new(vec![b'a'; MIB]));
    for count in SIZES {
        let topic = space.topic_with(&format!("z{count}"), 1, &[("max.message.bytes", "2000000000")])?;
        broker.write_as_one_batch(&topic, "zstd", (0..count).map(|_| record.clone()))?;
        topics.push((topic, count as i64));
    }
    let healthy = space.topic("healthy", 1)?;
    broker.write(&healthy, (0..100).map(|n| Record::new(format!("{n}"))))?;
    topics.push((healthy, 100));

    let folder = Folder::new()?;
    let names: Vec<&str> = topics.iter().map(|(name, _)| name.as_str()).collect();
    folder.write(
        "flow.yaml",
        format!(
            "name: huge\nkafka: {{ consumer: {{ {}, group_id: {group}, topics: [{}], delivery: at_least_once, \
             auto_offset_reset: earliest }} }}\nruntime: {{ prefetch: {PREFETCH}MiB, shutdown_timeout: 5s }}\nprocess: [ drain ]\n",
            Access::plain(&broker).keys(),
            names.join(", "),
        ),
    )?;
    let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
    for (topic, end) in topics.iter().rev() {
        if let Err(error) = broker.await_committed(&group, topic, &[(0, *end)]) {
            bail!("{error:#}\nThe host logged:\n{}", host.log_text());
        }
    }
    let peak = host.memory()?.peak;
    host.stop()?.expect_status(0)?;
    // One batch a topic is unpacked, all at once in the worst case, and what is read of it is copied.
    let bound = (PREFETCH + 2 * SIZES.iter().sum::<usize>()) as u64 * MIB as u64 + CONSTANT;
    ensure!(peak <= bound, "the host had {} MiB, above {} MiB", peak / MIB as u64, bound / MIB as u64);
    println!("peak {} MiB", peak / MIB as u64);
    Ok(())
}
