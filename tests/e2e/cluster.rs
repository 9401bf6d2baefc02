//! A cluster of three brokers, reached by password within TLS, and everything that may happen to it.
//!
//! One cluster serves all tests here, one after the other: each has it for itself, and hands it on with all brokers up and
//! all copies in sync.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use loom_tests::drill::{ClusterFaults, Fault};
use loom_tests::host::{Folder, Host};
use loom_tests::kafka::{Record, Secured};

/// Runs a test on the cluster, which is started for the first one.
fn on_the_cluster(test: impl FnOnce(&Secured) -> Result<()>) -> Result<()> {
    static CLUSTER: Mutex<Option<Secured>> = Mutex::new(None);
    // A test that failed leaves brokers as they are; the next one heals them.
    let mut cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    if cluster.is_none() {
        *cluster = Secured::start(3)?;
    }
    let Some(cluster) = &*cluster else { return Ok(()) };
    cluster.broker.heal()?;
    test(cluster)
}

/// One fault under load: survived, nothing lost, order kept, and nothing twice while the host lives.
fn survives(faults: &[Fault]) -> Result<()> {
    on_the_cluster(|cluster| {
        let drill = ClusterFaults { faults: faults.to_vec(), ..ClusterFaults::default() };
        let report = drill.hold(cluster, |_| ())?;
        println!("{report:?}");
        ensure!(report.topic.records > 0, "nothing was written: {report:?}");
        ensure!(report.topic.records == report.sink.records, "{report:?}");
        Ok(())
    })
}

#[test]
fn a_leader_and_a_coordinator_that_are_killed_are_replaced_and_the_flow_goes_on_without_them() -> Result<()> {
    survives(&[Fault::LeaderKilled, Fault::CoordinatorKilled])
}

#[test]
fn a_leader_and_a_coordinator_that_are_paused_are_waited_for_or_replaced() -> Result<()> {
    survives(&[Fault::LeaderPaused, Fault::CoordinatorPaused])
}

#[test]
fn all_brokers_may_be_restarted_and_one_may_run_out_of_disk() -> Result<()> {
    survives(&[Fault::AllRestarted, Fault::DiskFull])
}

#[test]
fn a_right_that_is_taken_away_ends_the_host_with_status_4_and_the_next_one_goes_on() -> Result<()> {
    survives(&[Fault::RightsTaken, Fault::HostKilled])
}

#[test]
fn random_faults_one_after_the_other_lose_nothing() -> Result<()> {
    on_the_cluster(|cluster| {
        for _ in 0..3 {
            let report = ClusterFaults::default().random(2).hold(cluster, |_| ())?;
            println!("{report:?}");
            ensure!(report.topic.records == report.sink.records, "{report:?}");
        }
        Ok(())
    })
}

#[test]
fn a_stop_while_no_broker_answers_ends_within_the_shutdown_timeout() -> Result<()> {
    on_the_cluster(|cluster| {
        let broker = &cluster.broker;
        let space = broker.space();
        let (input, output, group) = (space.topic("in", 2)?, space.topic("out", 2)?, space.group("g"));
        cluster.allow(&space.name(""))?;
        broker.write(&input, (0..100).map(|n| Record::new(format!("{n}")).partition(n % 2)))?;
        let folder = Folder::new()?;
        let access = cluster.safely()?.keys();
        folder.write(
            "flow.yaml",
            format!(
                "name: stop\nkafka:\n  consumer: {{ {access}, group_id: {group}, topics: [{input}], delivery: at_least_once, \
                 auto_offset_reset: earliest }}\n  producer: {{ {access} }}\n\
                 runtime: {{ shutdown_timeout: 6s, commit_interval_ms: 60000 }}\nprocess: [ {{ into_topic: {output} }} ]\n"
            ),
        )?;
        let host = Host::start(folder.path(), ["run", "flow.yaml", "-w", "2"])?;
        if let Err(error) = broker.reader(&output)?.take(100) {
            bail!("{error:#}\n{}", host.log_text());
        }
        for id in 1..=3 {
            broker.pause(id)?;
        }
        let begun = Instant::now();
        let ended = host.stop();
        let took = begun.elapsed();
        broker.heal()?;
        let ended = ended?;
        ensure!(took < Duration::from_secs(8), "it took {took:?}:\n{}", ended.log_text());
        // What could not be committed is said, and is a failure.
        ended.expect_status(4)?;
        ended.stopped()?.balances()?;
        let log = ended.log_text();
        for word in [input.as_str(), "final commit"] {
            ensure!(log.contains(word), "{word} is not in the log:\n{log}");
        }
        Ok(())
    })
}
