//! A cluster of three brokers, reached by password within TLS, and everything that may happen to it.
//!
//! A test has a cluster for itself, and hands it on with all brokers up and all copies in sync. Drills mostly wait, for
//! elections and for clients to notice, so tests are held side by side: there are as many clusters as tests at once, which
//! by default is one a core.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use loom_tests::PATIENCE;
use loom_tests::drill::{ClusterFaults, ClusterReport, Fault, KeptRows};
use loom_tests::host::{Folder, Host};
use loom_tests::kafka::{Record, Secured};

/// Runs a test on a cluster that is free; one is started where none is.
fn on_the_cluster(test: impl FnOnce(&Secured) -> Result<()>) -> Result<()> {
    static FREE: Mutex<Vec<Secured>> = Mutex::new(Vec::new());
    let free = || FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let found = free().pop();
    let cluster = if found.is_some() { found } else { Secured::start(3)? };
    let Some(cluster) = cluster else { return Ok(()) };
    // A test that failed leaves brokers as they are; the next one heals them.
    let result = cluster.broker.heal().and_then(|()| test(&cluster));
    free().push(cluster);
    result
}

/// A flow that passes everything on; `runtime` is that section of it.
fn flow(cluster: &Secured, group: &str, input: &str, output: &str, runtime: &str) -> Result<Folder> {
    let folder = Folder::new()?;
    let access = cluster.safely()?.keys();
    folder.write(
        "flow.yaml",
        format!(
            "name: e2e\nkafka:\n  consumer: {{ {access}, group_id: {group}, topics: [{input}], delivery: at_least_once, \
             auto_offset_reset: earliest }}\n  producer: {{ {access} }}\n{runtime}process: [ {{ into_topic: {output} }} ]\n"
        ),
    )?;
    Ok(folder)
}

/// One fault under load: survived, nothing lost, order kept, and nothing twice while the host lives.
fn survives(faults: &[Fault]) -> Result<()> {
    on_the_cluster(|cluster| hold(cluster, faults).map(drop))
}

fn hold(cluster: &Secured, faults: &[Fault]) -> Result<ClusterReport> {
    let drill = ClusterFaults { faults: faults.to_vec(), ..ClusterFaults::default() };
    let report = drill.hold(cluster, |_| ())?;
    println!("{report:?}");
    ensure!(report.topic.records > 0, "nothing was written: {report:?}");
    ensure!(report.topic.records == report.sink.records, "{report:?}");
    Ok(report)
}

#[test]
fn a_leader_and_a_coordinator_that_are_killed_are_replaced_and_the_flow_goes_on_without_them() -> Result<()> {
    survives(&[Fault::LeaderKilled, Fault::CoordinatorKilled])
}

#[test]
fn a_coordinator_that_is_paused_is_waited_for_or_replaced_and_a_leader_that_hangs_is_given_up() -> Result<()>
{
    on_the_cluster(|cluster| {
        let report = hold(cluster, &[Fault::CoordinatorPaused, Fault::LeaderHangs])?;
        // A client's request runs out of time after 20 s, which is longer than an election takes; by default it would
        // hang for a minute.
        let (_, took) = report.recoveries[1];
        ensure!(took < Duration::from_secs(40), "partitions of a leader that hangs were held for {took:?}");
        Ok(())
    })
}

#[test]
fn what_waits_while_a_broker_is_stopped_keeps_no_more_than_is_documented() -> Result<()> {
    on_the_cluster(|cluster| {
        let report = KeptRows::default().hold(&cluster.broker)?;
        println!("{report}");
        Ok(())
    })
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
        let runtime = "runtime: { shutdown_timeout: 6s, commit_interval_ms: 60000 }\n";
        let folder = flow(cluster, &group, &input, &output, runtime)?;
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

#[test]
fn a_log_that_an_unclean_election_cut_is_read_on_at_its_new_end_with_a_warning() -> Result<()> {
    on_the_cluster(|cluster| {
        let broker = &cluster.broker;
        let space = broker.space();
        let config = [("unclean.leader.election.enable", "true"), ("min.insync.replicas", "1")];
        let (input, output) = (space.topic_on("in", &[1, 2], &config)?, space.topic("out", 1)?);
        let group = space.group("g");
        cluster.allow(&space.name(""))?;
        let folder = flow(cluster, &group, &input, &output, "")?;
        let records = |range: std::ops::Range<i64>| range.map(|n| Record::new(n.to_string()));
        broker.write(&input, records(0..100))?;
        let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
        let committed = |count| -> Result<()> {
            broker
                .await_committed_within(&group, &input, &[(0, count)], 2 * PATIENCE)
                .map_err(|error| error.context(host.log_text()))
        };
        committed(100)?;
        // Only the leader gets these, and the host reads them from it.
        broker.kill_one(2)?;
        broker.write(&input, records(100..150))?;
        committed(150)?;
        // The copy without them leads from now on.
        broker.kill_one(1)?;
        broker.resume_one(2)?;
        let warned = host.wait_for("that the log was cut", |line| line.message().contains("log was cut"))?;
        ensure!(
            warned.number("position") == Some(150) && warned.number("end") == Some(100),
            "{}",
            warned.text
        );
        broker.write(&input, records(150..170))?;
        committed(120)?;
        broker.heal()?;
        let ended = host.stop()?;
        ended.expect_status(0)?;
        ended.stopped()?.balances()?;
        let texts: Vec<String> = broker.read_all(&output)?.iter().map(|row| row.text()).collect();
        let due: Vec<String> = (0..170).map(|n| n.to_string()).collect();
        assert_eq!(texts, due, "what was read before the cut came out, and what was written after it");
        Ok(())
    })
}
