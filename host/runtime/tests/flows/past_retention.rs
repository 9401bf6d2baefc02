//! Records that are older than what their output topic keeps: written as they are, and told.

use std::time::{Duration, SystemTime};

use loom_kafka::memory::{Record, TopicConfig};

use crate::harness::{broker, flow, payloads};
use crate::logs;
use crate::status::{until, watched};

const DAY_MS: i64 = 24 * 3600 * 1000;

fn days_ago(days: i64) -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    now.as_millis() as i64 - days * DAY_MS
}

#[test]
fn a_record_past_its_topics_retention_is_warned_of_once_and_counted() {
    logs::keep();
    for (output, stamp, append_time, past) in [
        ("past-source", "", false, 2),
        ("past-now", ", timestamp: now", false, 0),
        ("past-append", "", true, 0),
    ] {
        let broker = broker(&[output]);
        let week = Duration::from_secs(7 * 24 * 3600);
        let config = TopicConfig { retention: Some(week), append_time, ..TopicConfig::default() };
        broker.configure_topic(output, config);
        for days in [30, 1, 8, 6] {
            broker.produce("in", 0, Record::value(days.to_string()).at(days_ago(days)));
        }
        let process = format!("process: [ {{ into_topic: {output}{stamp} }} ]\n");
        let (running, board) = watched(&flow("", &process), &broker);
        running.until_committed(4);
        let status = until(&board, "all rows are acknowledged", |status| status.outputs[0].acknowledged == 4);
        assert_eq!(status.outputs[0].past_retention, past, "{output}");
        assert_eq!(running.stop().failures, []);
        assert_eq!(payloads(&broker, output), ["30", "1", "8", "6"], "they are written all the same");
        let told = logs::lines(|line| line["output"] == output && line["level"] == "WARN");
        assert_eq!(told.len(), usize::from(past > 0), "{told:?}");
        for line in told {
            assert_eq!((&line["topic"], &line["offset"]), (&"in".into(), &0.into()));
            assert!(line["message"].as_str().unwrap().contains("`timestamp: now`"), "{line}");
        }
    }
}
