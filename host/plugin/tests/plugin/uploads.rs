//! Requests with a body: written before they are sent and after, within the room that there is, and guests that wait for
//! themselves.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use loom_plugin::{Cause, Limits, PluginSpec, StepNode};
use serde_json::{Value, json};

use crate::common::{load, node, payloads, texts};
use crate::pool::{Bench, granted};

/// A server that reads each request's body to its end, and answers with how long it was; the port.
fn counter() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || count(stream));
        }
    });
    port
}

/// Serves one connection; it may end at any time.
fn count(stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Ok(());
            }
        }
        let mut bytes = 0;
        loop {
            line.clear();
            stream.read_line(&mut line)?;
            let chunk = usize::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
            stream.read_exact(&mut vec![0; chunk + 2])?;
            bytes += chunk;
            if chunk == 0 {
                break;
            }
        }
        let body = bytes.to_string();
        write!(stream.get_mut(), "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
    }
}

/// A server that takes connections and reads nothing; the port.
fn deaf() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let kept: Vec<_> = listener.incoming().map_while(Result::ok).collect();
        drop(kept);
    });
    port
}

fn posting(port: u16, post: Value, output: u64) -> PluginSpec {
    let spec = granted(port);
    let limits = Limits { output, ..spec.limits.clone() };
    PluginSpec { limits, config: json!({ "post": post }), ..spec }
}

fn in_time(spec: PluginSpec, timeout: Duration) -> PluginSpec {
    PluginSpec { limits: Limits { timeout, ..spec.limits }, ..spec }
}

#[test]
fn a_body_is_sent_whole_whether_it_was_written_before_the_request_or_after() {
    let port = counter();
    let url = format!("http://localhost:{port}/");
    for (bytes, pieces) in [(4096, 4096), (4097, 4096), (300_000, 4096), (1 << 20, 4096), (5_000, 1)] {
        for (first, polled) in [(true, false), (true, true), (false, false), (false, true)] {
            let post = json!({ "bytes": bytes, "pieces": pieces, "first": first, "polled": polled });
            let spec = posting(port, post.clone(), 1 << 20);
            assert_eq!(Bench::new(&spec, 1).ask(&url).unwrap(), format!("200 {bytes}"), "{post}");
            let mut step = StepNode::new(&load(&spec), node()).unwrap();
            let batch = payloads([&url]);
            let answers = step.call(&batch, &[0]);
            assert_eq!(answers.failures, [], "{post}, on the worker");
            assert_eq!(texts(&batch, &[0], answers.changes), [Some(format!("200 {bytes}"))], "{post}");
        }
    }
}

#[test]
fn a_body_that_is_being_sent_may_be_far_longer_than_the_room() {
    let port = counter();
    for polled in [false, true] {
        let post = json!({ "bytes": 2_000_000, "polled": polled });
        let answer = Bench::new(&posting(port, post, 64 << 10), 1).ask(&format!("http://localhost:{port}/"));
        assert_eq!(answer.unwrap(), "200 2000000");
    }
}

#[test]
fn a_guest_that_waits_for_itself_is_told_so_and_no_service_is_blamed() {
    let port = counter();
    let url = format!("http://localhost:{port}/");
    let room = "more than 64 KiB of a request's body (`limits.output`), of which nothing is sent before it calls `handle`";
    for (post, told) in [
        (json!({ "bytes": 70_000, "first": true }), room),
        (json!({ "bytes": 70_000, "first": true, "polled": true }), room),
        (json!({ "bytes": 100, "unfinished": true }), "a request whose body it has not finished"),
        (
            json!({ "bytes": 100, "first": true, "unfinished": true }),
            "a request whose body it has not finished",
        ),
        (json!({ "bytes": 0, "unfinished": true }), "a request whose body it has not finished"),
    ] {
        let spec = in_time(posting(port, post.clone(), 64 << 10), Duration::from_secs(2));
        let fault = Bench::new(&spec, 1).ask(&url).unwrap_err();
        assert_eq!((fault.cause, fault.waited), (Cause::Trap, false), "{post}: {}", fault.reason);
        assert!(fault.reason.contains(told), "{post}: {}", fault.reason);
        let mut step = StepNode::new(&load(&spec), node()).unwrap();
        let answers = step.call(&payloads([&url]), &[0]);
        let [failure] = &answers.failures[..] else { panic!("{post}: {:?}", answers.failures) };
        assert_eq!(failure.cause, Cause::Trap, "{post}, on the worker: {}", failure.reason);
        assert!(failure.reason.contains(told), "{post}, on the worker: {}", failure.reason);
    }
}

#[test]
fn a_service_that_does_not_take_a_body_is_slow() {
    let port = deaf();
    let url = format!("http://localhost:{port}/");
    // More than the system keeps for a connection.
    for post in [
        json!({ "bytes": 40_000_000 }),
        json!({ "bytes": 40_000_000, "polled": true }),
        json!({ "bytes": 60_000, "first": true }),
    ] {
        let spec = in_time(posting(port, post.clone(), 64 << 10), Duration::from_secs(1));
        let fault = Bench::new(&spec, 1).ask(&url).unwrap_err();
        assert_eq!((fault.cause, fault.waited), (Cause::Timeout, true), "{post}: {}", fault.reason);
    }
}

#[test]
fn what_the_documentation_shows_is_compiled_and_works() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let (page, guest) = (text("docs/plugins.md"), text("tests/guests/probe-http/src/documented.rs"));
    for function in ["fn post(request: OutgoingRequest", "fn read(answer: &FutureIncomingResponse"] {
        let from = page.find(function).unwrap_or_else(|| panic!("{function} is not in the page"));
        let shown = &page[from..][..page[from..].find("\n}\n").unwrap()];
        assert!(guest.contains(shown), "the page differs from the guest:\n{shown}");
    }
    let port = counter();
    let spec = posting(port, json!({ "bytes": 10_000, "documented": true }), 1 << 20);
    assert_eq!(Bench::new(&spec, 1).ask(&format!("http://localhost:{port}/")).unwrap(), "200 10000");
}
