//! Plugins that wait: their calls overlap, their rows keep their order, and a service that is away discards nothing.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use loom_kafka::memory::Record;
use loom_runtime::status::Release;

use crate::harness::{
    PATIENCE, broker, committed, committed_at, endings, envelopes, flow, payloads, place, produce, start,
    start_with, wide_broker,
};
use crate::logs;
use crate::status::{until, watched};

/// A service that answers each request with its path, once the path is not held any more.
#[derive(Clone, Default)]
pub struct Service(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    seen: Vec<String>,
    /// Paths without an answer: for so many requests, or until they are released.
    held: HashMap<String, usize>,
}

impl Service {
    /// Serves on a port of this machine; any, where none is given.
    pub fn start(&self, port: u16) -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let service = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let service = service.clone();
                std::thread::spawn(move || service.serve(stream));
            }
        });
        port
    }

    fn serve(&self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        let (mut line, mut path) = (String::new(), String::new());
        while stream.read_line(&mut line).is_ok_and(|read| read > 0) {
            if path.is_empty() {
                path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            }
            if line.trim().is_empty() {
                if !self.answers(&path) {
                    return;
                }
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}", path.len());
                if stream.get_mut().write_all(answer.as_bytes()).is_err() {
                    return;
                }
                path.clear();
            }
            line.clear();
        }
    }

    /// Waits while the path is held; false where this request gets no answer at all.
    fn answers(&self, path: &str) -> bool {
        let mut state = self.0.0.lock().unwrap();
        state.seen.push(path.to_owned());
        self.0.1.notify_all();
        match state.held.get_mut(path) {
            Some(0) | None => return true,
            Some(left) if *left < usize::MAX => {
                *left -= 1;
                drop(state);
                // Its client gives up first.
                std::thread::sleep(PATIENCE);
                return false;
            }
            Some(_) => {}
        }
        let held = |state: &mut State| state.held.contains_key(path);
        drop(self.0.1.wait_while(state, held).unwrap());
        true
    }

    pub fn hold(&self, path: &str, requests: usize) {
        self.0.0.lock().unwrap().held.insert(path.to_owned(), requests);
    }

    pub fn release(&self, path: &str) {
        self.0.0.lock().unwrap().held.remove(path);
        self.0.1.notify_all();
    }

    /// Waits until so many requests came.
    pub fn until_seen(&self, requests: usize) {
        let state = self.0.0.lock().unwrap();
        let few = |state: &mut State| state.seen.len() < requests;
        let (state, timeout) = self.0.1.wait_timeout_while(state, PATIENCE, few).unwrap();
        assert!(!timeout.timed_out(), "{requests} requests: {:?}", state.seen);
    }
}

/// A flow whose step asks the service at a port for each record's path.
fn asking(port: u16, node: &str, retry: bool) -> String {
    format!(
        "plugins:
  s:
    component: '{{guests}}/probe-http.wasm'
    config: {{ url: 'http://localhost:{port}', retry: {retry} }}
    allow: {{ http: ['localhost:{port}'] }}
    limits: {{ timeout: 30s }}
process: [ {{ step: s, {node} }}, {{ into_topic: out }} ]
errors: {{ default: [ {{ into_topic: t }} ] }}
"
    )
}

#[test]
fn calls_overlap_and_rows_leave_in_their_order() {
    let (service, broker) = (Service::default(), broker(&["out", "t"]));
    let port = service.start(0);
    service.hold("/a", usize::MAX);
    produce(&broker, &["/a", "/b", "/c", "/d"]);
    let (running, board) = watched(&flow("", &asking(port, "concurrency: 3", false)), &broker);
    // Behind the first, which is held, two others are asked for, and then the fourth.
    service.until_seen(4);
    assert_eq!(payloads(&broker, "out"), [""; 0]);
    let status = until(&board, "an answer that is waited for", |status| {
        let oldest = status.partitions[0].oldest.as_ref();
        oldest.is_some_and(|oldest| oldest.places.iter().any(|place| place.attempt == 1))
    });
    let oldest = status.partitions[0].oldest.as_ref().unwrap();
    assert_eq!((oldest.offset, oldest.places.len()), (0, 1));
    let place = &oldest.places[0];
    assert!(matches!(place.release, Release::Answer { in_ms: 1..=30_000 }), "{place:?}");
    assert_eq!(place.plugin.as_ref().map(|plugin| plugin.name.as_str()), Some("s"));
    service.release("/a");
    running.until_committed(4);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), ["200 /a", "200 /b", "200 /c", "200 /d"]);
}

#[test]
fn a_row_of_a_partition_that_gets_no_call_waits_for_a_free_one() {
    let (service, broker) = (Service::default(), wide_broker(2, &["out", "t"]));
    let port = service.start(0);
    service.hold("/1/a", usize::MAX);
    service.hold("/1/b", usize::MAX);
    broker.produce("in", 1, Record::value("/1/a"));
    broker.produce("in", 1, Record::value("/1/b"));
    let (running, board) = watched(&flow("", &asking(port, "concurrency: 2", false)), &broker);
    service.until_seen(2);
    broker.produce("in", 0, Record::value("/0/a"));
    let status = until(&board, "a row of the other partition", |status| {
        status.partitions.first().is_some_and(|partition| partition.oldest.is_some())
    });
    let waits = |partition: usize| &status.partitions[partition].oldest.as_ref().unwrap().places[0];
    assert_eq!(waits(0).release, Release::Call { under_way: 2 }, "{:?}", waits(0));
    assert_eq!(
        waits(0).release.to_string(),
        "a free call: all 2 that the node may have at a time are under way"
    );
    assert!(matches!(waits(1).release, Release::Answer { .. }), "{:?}", waits(1));
    service.release("/1/a");
    service.release("/1/b");
    running.until_committed_at(&place("in", 0), 1);
    running.until_committed_at(&place("in", 1), 2);
    assert_eq!(running.stop().failures, []);
}

#[test]
fn without_order_rows_leave_as_they_come() {
    let (service, broker) = (Service::default(), broker(&["out", "t"]));
    let port = service.start(0);
    service.hold("/a", usize::MAX);
    produce(&broker, &["/a", "/b", "/c"]);
    let running = start(&flow("", &asking(port, "concurrency: 2, ordered: false", false)), &broker);
    running.until_count("out", 2);
    assert_eq!(payloads(&broker, "out"), ["200 /b", "200 /c"]);
    assert_eq!(committed(&broker), Some(0), "the first is not resolved");
    service.release("/a");
    running.until_committed(3);
    assert_eq!(running.stop().failures, []);
}

#[test]
fn a_record_whose_call_hangs_is_an_error_of_its_own_and_order_is_kept() {
    let broker = broker(&["out", "t"]);
    produce(&broker, &["a", "sleep", "c"]);
    let rest = "plugins: { s: { component: '{guests}/probe-step.wasm' } }
process: [ { step: s, timeout: 50ms, concurrency: 2 }, { into_topic: out } ]
errors: { task: [ { into_topic: t } ] }
";
    let running = start(&flow("", rest), &broker);
    running.until_committed(3);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(payloads(&broker, "out"), ["a", "c"]);
    let envelope = &envelopes(&broker, "t")[0];
    assert_eq!((&envelope["kind"], &envelope["record"]["offset"]), (&"task".into(), &1.into()));
    assert!(envelope["reason"].as_str().unwrap().contains("50ms"), "{envelope}");
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("error_route(task)", 1), ("topic", 2)]);
}

#[test]
fn a_call_that_came_back_does_not_complete_its_record() {
    let broker = broker(&["out"]);
    produce(&broker, &["a", "b"]);
    broker.faults().hold_acks("out");
    let rest = "plugins: { s: { component: '{guests}/probe-step.wasm' } }
runtime: { shutdown_timeout: 2s }
process: [ { step: s, concurrency: 4 }, { into_topic: out } ]
";
    let running = start(&flow("", rest), &broker);
    running.until_count("out", 2);
    let outcome = running.stop();
    assert_eq!(outcome.summary.ledger.outstanding, 2);
    assert_eq!(committed(&broker), Some(0));
    broker.faults().release_all_acks("out");
    let again = start(&flow("", rest), &broker);
    again.until_committed(2);
    again.stop();
    assert_eq!(payloads(&broker, "out"), ["a", "b", "a", "b"]);
}

#[test]
fn a_call_that_hangs_at_a_stop_is_given_up_and_its_record_delivered_again() {
    logs::keep();
    let broker = broker(&["out"]);
    produce(&broker, &["a", "sleep", "c"]);
    let rest = |timeout: &str| {
        format!(
            "plugins: {{ s: {{ component: '{{guests}}/probe-step.wasm' }} }}
runtime: {{ shutdown_timeout: 3s }}
process: [ {{ step: s, timeout: {timeout}, concurrency: 2 }}, {{ into_topic: out }} ]
errors: {{ unrouted: drop }}
"
        )
    };
    let running = start(&flow("", &rest("1h")), &broker);
    running.until_committed(1);
    let begun = Instant::now();
    let outcome = running.stop();
    // The bound is 3 s; the rest is a busy machine's. The call alone would take an hour.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!((outcome.status(), &outcome.failures[..]), (0, &[][..]));
    assert_eq!(outcome.summary.ledger.outstanding, 2);
    assert_eq!(committed(&broker), Some(1));
    let told = logs::lines(|line| line["calls"] == 1 && line["level"] == "WARN");
    assert!(
        told.iter().any(|line| line["message"].as_str().unwrap().contains("did not come back")),
        "{told:?}"
    );
    let again = start(&flow("", &rest("50ms")), &broker);
    again.until_committed(3);
    again.stop();
    assert_eq!(payloads(&broker, "out"), ["a", "c"]);
}

#[test]
fn a_service_that_is_away_for_a_while_loses_nothing_and_waits_visibly() {
    let (service, broker) = (Service::default(), wide_broker(2, &["out", "t"]));
    // A port that nobody listens at.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for n in 0..10 {
        broker.produce("in", 0, Record::value(format!("/0/{n}")));
        broker.produce("in", 1, Record::value(format!("/1/{n}")));
    }
    let (running, board) = watched(&flow("", &asking(port, "concurrency: 4", true)), &broker);
    let status = until(&board, "a second attempt", |status| {
        let places = status.partitions.iter().filter_map(|partition| partition.oldest.as_ref());
        let mut places = places.flat_map(|oldest| &oldest.places);
        places.any(|place| place.attempt >= 2 && matches!(place.release, Release::Retry { .. }))
    });
    let node = status.nodes.iter().find(|node| node.node == "process[0]").expect("the node");
    assert!(node.waiting == 20 && node.retries >= 2, "{node:?}");
    assert_eq!(payloads(&broker, "out"), [""; 0]);
    service.start(port);
    running.until_committed_at(&place("in", 0), 10);
    running.until_committed_at(&place("in", 1), 10);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert!(outcome.summary.counters.retries >= 4);
    assert_eq!(payloads(&broker, "t"), [""; 0], "no record is an error");
    let seen = payloads(&broker, "out");
    for partition in 0..2 {
        let prefix = format!("200 /{partition}/");
        let mine: Vec<&String> = seen.iter().filter(|text| text.starts_with(&prefix)).collect();
        assert_eq!(
            mine,
            (0..10).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>().iter().collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_time_out_over_the_network_is_tried_again() {
    let (service, broker) = (Service::default(), broker(&["out", "t"]));
    let port = service.start(0);
    service.hold("/slow", 2);
    produce(&broker, &["/a", "/slow", "/c"]);
    let running = start(&flow("", &asking(port, "concurrency: 2, timeout: 300ms", false)), &broker);
    running.until_committed(3);
    let outcome = running.stop();
    assert_eq!(payloads(&broker, "out"), ["200 /a", "200 /slow", "200 /c"]);
    assert!(outcome.summary.counters.retries >= 2);
    assert_eq!(payloads(&broker, "t"), [""; 0]);
}

#[test]
fn a_partition_whose_call_hangs_is_read_within_its_bound_and_others_go_on() {
    let (service, broker) = (Service::default(), wide_broker(2, &["out", "t"]));
    let port = service.start(0);
    service.hold("/held", usize::MAX);
    broker.produce("in", 0, Record::value("/held"));
    for n in 0..200 {
        broker.produce("in", 0, Record::value(format!("/{n}")));
        broker.produce("in", 1, Record::value(format!("/other/{n}")));
    }
    let rest = asking(port, "concurrency: 4", false);
    let bounds = "runtime: { max_outstanding: { records: 40 }, shutdown_timeout: 2s }\n";
    let running = start_with(
        &flow("batch_size: 10", &format!("{bounds}{rest}")),
        &broker,
        loom_runtime::Options::default(),
    );
    running.until_committed_at(&place("in", 1), 200);
    // Its share of the bound is 20; all but the first of them were answered, and wait.
    service.until_seen(1 + 200 + 19);
    let outcome = running.stop();
    let held = &outcome.summary.partitions[0];
    assert_eq!((held.position.0, held.outstanding), (20, 20));
    assert_eq!(committed_at(&broker, &place("in", 0)), Some(0));
    assert!(payloads(&broker, "out").iter().all(|text| text.starts_with("200 /other/")));
}

#[test]
fn stops_and_restarts_in_the_middle_of_overlapping_calls_lose_nothing_and_keep_order() {
    let broker = wide_broker(3, &["out", "t"]);
    for n in 0..60 {
        for partition in 0..3 {
            let command = match (n * 7 + partition) % 11 {
                0 => "retry-n:1",
                1 | 2 => "sleep:8",
                3 => "fail:bad",
                4 | 5 => "sleep:2",
                _ => "nothing",
            };
            let payload = format!("{{\"do\":\"{command}\",\"n\":\"{partition} {n:02}\"}}");
            broker.produce("in", partition, Record::value(payload));
        }
    }
    let rest = "plugins: { s: { component: '{guests}/probe-step.wasm', limits: { timeout: 20s } } }
process: [ { step: s, concurrency: 5 }, { map: payload.n }, { into_topic: out } ]
errors: { task: [ { into_topic: t } ] }
";
    for count in [20, 60, 100] {
        let running = start(&flow("batch_size: 7", rest), &broker);
        running.until_count("out", count);
        assert_eq!(running.stop().failures, []);
    }
    let running = start(&flow("", rest), &broker);
    for partition in 0..3 {
        running.until_committed_at(&place("in", partition), 60);
    }
    assert_eq!(running.stop().failures, []);
    let seen = payloads(&broker, "out");
    for partition in 0..3 {
        let expected = (0..60).filter(|n| (n * 7 + partition) % 11 != 3);
        let mut expected: Vec<String> = expected.map(|n| format!("\"{partition} {n:02}\"")).collect();
        expected.reverse();
        let mut last = String::new();
        for text in seen.iter().filter(|text| text.starts_with(&format!("\"{partition} "))) {
            // What was not committed is repeated; what is new is the next.
            if *text > last {
                assert_eq!(Some(text), expected.pop().as_ref(), "partition {partition}");
                last.clone_from(text);
            }
        }
        assert_eq!(expected, [""; 0], "partition {partition}");
    }
}
