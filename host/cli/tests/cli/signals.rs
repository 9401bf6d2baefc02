//! Signals, broken pipes, and what is left of a run that they end.

use std::io::{Read, Write};

use rustix::process::Signal;
use serde_json::Value;

use crate::running::Running;
use crate::support::{Folder, SOUND, guest, without_broker};

#[test]
fn ctrl_c_in_dev_prints_offsets_and_is_status_130() {
    let folder = Folder::with_flow(SOUND);
    let mut running = Running::start(&folder, &["dev", "flow.yaml", "--input", "-"]);
    running.write(b"{\"total\":11}\n");
    let mut output = running.first_output();
    running.signal(Signal::INT);
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    let last: Value = serde_json::from_str(&rest).unwrap_or_else(|error| panic!("{error}: {rest:?}"));
    assert_eq!(last["offsets"]["in"]["0"]["committed"], 1, "{last}");
    running.wait_for("\"stopped\"");
    assert_eq!(running.status(), Some(130));
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    // The sink never confirms, so that a graceful stop would take all of its time.
    let sink = guest("probe-sink");
    let plugins = format!(
        "runtime: {{ shutdown_timeout: 1h }}\nplugins:\n  store: {{ component: {sink:?}, config: {{ fail_flushes: \
         1000000, fail_with: retry }} }}\nprocess:\n"
    );
    let flow = SOUND.replace("process:\n", &plugins).replace(
        "into_topic: out",
        "broadcast: [ [ { into_topic: out } ], [ { into_sink: store, flush: { records: 1 } } ] ]",
    );
    let folder = Folder::with_flow(&flow);
    let mut running = Running::start(&folder, &["dev", "flow.yaml", "--input", "-"]);
    running.write(b"{\"total\":11}\n");
    let _output = running.first_output();
    running.signal(Signal::INT);
    running.wait_for("a second signal ends the process at once");
    running.signal(Signal::TERM);
    assert_eq!(running.status(), Some(143));
}

#[test]
fn a_run_that_is_told_to_stop_while_it_starts_is_status_0() {
    // Nothing listens there, and the start would be tried for an hour.
    let flow = SOUND
        .replace("localhost:9092", "127.0.0.1:1")
        .replace("process:\n", "runtime: { startup_timeout: 1h }\nprocess:\n");
    let folder = Folder::with_flow(&flow);
    let mut running = Running::start(&folder, &["run", "flow.yaml"]);
    running.wait_for("127.0.0.1:1");
    running.signal(Signal::TERM);
    running.wait_for("no record was taken");
    running.wait_for("\"stopped\"");
    assert_eq!(running.status(), Some(0));
}

#[test]
fn a_broker_that_is_not_there_is_named_after_the_startup_timeout() {
    let ended = Folder::with_flow(&without_broker(SOUND)).run(&["run", "flow.yaml"]);
    ended.expect_status(4).expect_one_error(&["127.0.0.1:1", "startup_timeout", "refused"]);
}

#[test]
fn a_reader_that_goes_away_ends_dev_like_sigpipe() {
    let folder = Folder::with_flow(SOUND);
    let mut running = Running::start(&folder, &["dev", "flow.yaml", "--input", "-"]);
    running.write(b"{\"total\":11}\n");
    drop(running.first_output());
    // Input goes on until the run has noticed; then the pipe is closed from the other side.
    let mut input = running.child.stdin.take().expect("it is piped");
    while input.write_all(b"{\"total\":11}\n").is_ok() {}
    assert_eq!(running.status(), Some(141));
}
