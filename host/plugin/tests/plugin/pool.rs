//! Waiting nodes: several calls at a time beside the worker, each within its time, and HTTP to what is granted.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use loom_plugin::{
    CallAnswer, CallFault, CallPool, Cause, Grants, HostGrant, NodeContext, PluginSpec, StepNode,
};
use loom_types::Batch;
use serde_json::{Value, json};

use crate::common::{STEPS, busy, load, node, payloads, quick, spec, texts};

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A pool with a bell that can be waited for.
pub struct Bench<A = CallAnswer> {
    pool: CallPool<A>,
    rung: Arc<(Mutex<bool>, Condvar)>,
    answers: BTreeMap<u64, Result<A, CallFault>>,
    next: u64,
}

impl Bench {
    pub fn new(spec: &PluginSpec, calls: usize) -> Bench {
        Bench::of(CallPool::step(&load(spec), node(), calls).unwrap_or_else(|error| panic!("{error}")))
    }

    /// Asks for one row, and waits for its answer: the payload it leads to.
    pub fn ask(&mut self, payload: &str) -> Result<String, CallFault> {
        let batch = Arc::new(payloads([payload]));
        Ok(match self.answer(&batch, 0)? {
            CallAnswer::Changed(changes) => {
                let after = batch.select(&[0]).with(*changes);
                String::from_utf8_lossy(after.payload(0).unwrap_or(b"null")).into_owned()
            }
            CallAnswer::Is(yes) => yes.to_string(),
        })
    }
}

impl<A: Send + 'static> Bench<A> {
    fn of(mut pool: CallPool<A>) -> Bench<A> {
        let rung = Arc::new((Mutex::new(false), Condvar::new()));
        let bell = rung.clone();
        pool.ring(Arc::new(move || {
            *bell.0.lock().unwrap() = true;
            bell.1.notify_all();
        }));
        Bench { pool, rung, answers: BTreeMap::new(), next: 0 }
    }

    fn start(&mut self, batch: &Arc<Batch>, row: u32) -> u64 {
        self.next += 1;
        self.pool.start(self.next, batch.clone(), row);
        self.next
    }

    /// Waits until so many answers are there.
    fn until(&mut self, answers: usize) {
        let start = Instant::now();
        loop {
            let taken = &mut self.answers;
            self.pool
                .take_answers(|call, answer| assert!(taken.insert(call, answer).is_none(), "answered twice"));
            if self.answers.len() >= answers {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{} of {answers} answers", self.answers.len());
            let rung = self.rung.0.lock().unwrap();
            let (mut rung, _) =
                self.rung.1.wait_timeout_while(rung, Duration::from_secs(1), |rung| !*rung).unwrap();
            *rung = false;
        }
    }

    /// Asks for one row, and waits for its answer.
    fn answer(&mut self, batch: &Arc<Batch>, row: u32) -> Result<A, CallFault> {
        let call = self.start(batch, row);
        self.until(self.answers.len() + 1);
        self.answers.remove(&call).expect("the answer of this call")
    }

    /// The same for rows that are one batch.
    fn answer_batch(&mut self, batch: &Arc<Batch>, rows: &[u32]) -> Result<A, CallFault> {
        self.next += 1;
        self.pool.start_batch(self.next, batch.clone(), rows);
        self.until(self.answers.len() + 1);
        self.answers.remove(&self.next).expect("the answer of this call")
    }
}

#[test]
fn both_forms_answer_row_by_row() {
    for name in STEPS {
        let mut bench = Bench::new(&spec(name, Value::Null), 2);
        assert_eq!(bench.ask("upper").unwrap(), "UPPER", "{name}");
        assert_eq!(bench.ask("nothing").unwrap(), "nothing");
        assert_eq!(bench.ask("clear").unwrap(), "null");
        assert_eq!(bench.ask("calls").unwrap(), "4", "the instance is kept from call to call");
        for (command, cause) in
            [("reject:a", Cause::Reject), ("retry:b", Cause::Retry), ("fail:c", Cause::Fail)]
        {
            let fault = bench.ask(command).unwrap_err();
            assert_eq!((fault.cause, fault.waited), (cause, false), "{name} {command}");
        }
        let fault = bench.ask("trap:no rate").unwrap_err();
        assert_eq!(fault.cause, Cause::Trap, "{}", fault.reason);
        assert!(fault.reason.ends_with("told to trap: no rate"), "{}", fault.reason);
        assert_eq!(bench.ask("calls").unwrap(), "1", "a fresh instance after a trap");
        assert_eq!(bench.pool.in_flight(), 0);
    }
    for name in ["probe-predicate", "probe-column-predicate"] {
        let mut bench = Bench::of(CallPool::predicate(&load(&spec(name, Value::Null)), node(), 1).unwrap());
        assert_eq!(bench.ask("yes").unwrap(), "true", "{name}");
        assert_eq!(bench.ask("no").unwrap(), "false");
        assert_eq!(bench.ask("reject:x").unwrap_err().cause, Cause::Reject);
    }
}

#[test]
fn expanders_answer_row_by_row_in_both_forms() {
    let batch = Arc::new(payloads(["rows:a,b", "reject:x", "trap", "rows:"]));
    for name in ["probe-roles", "probe-column-expand"] {
        let mut bench = Bench::of(CallPool::expand(&load(&spec(name, Value::Null)), node(), 1).unwrap());
        let made = bench.answer(&batch, 0).unwrap();
        assert_eq!((made.answered, made.made_from(0)), (1, 0..2), "{name}");
        assert_eq!((made.rows.payload(1), made.rows.name(1)), (Some(&b"b"[..]), "1"), "{name}");
        assert_eq!(bench.answer(&batch, 1).unwrap_err().cause, Cause::Reject, "{name}");
        assert_eq!(bench.answer(&batch, 2).unwrap_err().cause, Cause::Trap, "{name}");
        assert_eq!(bench.answer(&batch, 3).unwrap().rows.len(), 0, "{name}");
    }
    let plugin = load(&spec("probe-roles", Value::Null));
    let mut bench = Bench::of(CallPool::typed_expand(&plugin, node(), 1).unwrap());
    assert_eq!(bench.pool.types().len(), 3);
    let batch = Arc::new(payloads(["rows:c/1,a/2", "rows:z/1", "trap", "rows:b/3"]));
    assert_eq!(bench.answer(&batch, 0).unwrap().types, [0, 2]);
    let fault = bench.answer(&batch, 1).unwrap_err();
    assert_eq!(fault.cause, Cause::Protocol, "{}", fault.reason);
    assert_eq!(bench.answer(&batch, 2).unwrap_err().cause, Cause::Trap);
    assert_eq!(bench.answer(&batch, 3).unwrap().types, [1]);
}

#[test]
fn selectors_and_partitioners_answer_row_by_row() {
    let plugin = load(&spec("probe-roles", Value::Null));
    let batch = Arc::new(payloads(["label:vip", "key:eu", "none", "fail:x"]));
    let mut bench = Bench::of(CallPool::selector(&plugin, node(), 1).unwrap());
    assert_eq!(bench.answer(&batch, 0).unwrap().label(0), Some("vip"));
    assert_eq!(bench.answer(&batch, 2).unwrap().label(0), None);
    assert_eq!(bench.answer(&batch, 3).unwrap_err().cause, Cause::Fail);
    let mut bench = Bench::of(CallPool::partitioner(&plugin, node(), 1).unwrap());
    assert_eq!(bench.answer(&batch, 1).unwrap().chosen.get(0), Some(&b"eu"[..]));
    assert_eq!(bench.answer(&batch, 2).unwrap().chosen.get(0), None);
}

#[test]
fn batches_are_answered_whole_and_what_ends_a_call_is_a_fault_of_all() {
    let plugin = load(&spec("probe-roles", Value::Null));
    let batch = Arc::new(payloads(["upper", "reject:x", "set:y", "trap"]));
    let mut bench = Bench::of(CallPool::batch_step(&plugin, node(), 1).unwrap());
    let answers = bench.answer_batch(&batch, &[2, 1, 0]).unwrap();
    assert_eq!(answers.answered, 3);
    let failures: Vec<_> = answers.failures.iter().map(|failure| (failure.position, failure.cause)).collect();
    assert_eq!(failures, [(1, Cause::Reject)]);
    let after = texts(&batch, &[2, 1, 0], answers.changes);
    assert_eq!((after[0].as_deref(), after[2].as_deref()), (Some("y"), Some("UPPER")));
    assert_eq!(bench.answer_batch(&batch, &[0, 3]).unwrap_err().cause, Cause::Trap);
    assert!(bench.answer(&batch, 0).unwrap().failures.is_empty(), "each can be tried alone");

    let batch = Arc::new(payloads(["all:sum", "of:0+1:x", "of:7:y"]));
    let mut bench = Bench::of(CallPool::batch_expand(&plugin, node(), 1).unwrap());
    let made = bench.answer_batch(&batch, &[0, 1]).unwrap();
    assert_eq!((made.rows.len(), made.origins.of(0), made.origins.of(1)), (2, &[0, 1][..], &[0, 1][..]));
    let fault = bench.answer_batch(&batch, &[0, 2]).unwrap_err();
    assert_eq!(fault.cause, Cause::Protocol, "{}", fault.reason);
}

#[test]
fn calls_overlap_and_one_that_hangs_holds_none_of_the_others() {
    let limits = loom_plugin::Limits { timeout: PATIENCE, ..loom_plugin::Limits::default() };
    let mut bench = Bench::new(&PluginSpec { limits, ..spec("probe-step", Value::Null) }, 4);
    let batch = Arc::new(payloads(["sleep", "loop", "upper", "set:x"]));
    let (asleep, looping) = (bench.start(&batch, 0), bench.start(&batch, 1));
    bench.start(&batch, 2);
    bench.start(&batch, 3);
    bench.until(2);
    assert!(!bench.answers.contains_key(&asleep) && !bench.answers.contains_key(&looping));
    bench.pool.abandon(asleep);
    bench.pool.abandon(looping);
    assert_eq!(bench.pool.in_flight(), 0);
    // Both instances are gone with their calls; others are made.
    let again = Arc::new(payloads(["calls"; 4]));
    for row in 0..4 {
        bench.start(&again, row);
    }
    bench.until(6);
}

#[test]
fn a_call_ends_at_its_time_and_says_whether_it_waited() {
    for name in STEPS {
        let mut bench = Bench::new(&quick(spec(name, Value::Null)), 2);
        let fault = bench.ask("sleep").unwrap_err();
        assert_eq!((fault.cause, fault.waited), (Cause::Timeout, true), "{name}: {}", fault.reason);
        let fault = bench.ask("loop").unwrap_err();
        assert_eq!((fault.cause, fault.waited), (Cause::Timeout, false), "{name}: {}", fault.reason);
        assert_eq!(bench.ask("calls").unwrap(), "1");
    }
    let context = NodeContext { timeout: Some(Duration::from_millis(50)), ..node() };
    let mut bench = Bench::of(CallPool::step(&load(&spec("probe-step", Value::Null)), context, 1).unwrap());
    let fault = bench.ask("sleep").unwrap_err();
    assert!(fault.reason.contains("50ms"), "{}", fault.reason);
}

#[test]
fn a_plugin_that_cannot_start_is_refused_at_once() {
    let refused =
        |config: Value| CallPool::step(&load(&quick(spec("probe-step", config))), node(), 1).unwrap_err();
    assert!(refused(json!({ "refuse": "no such currency" })).to_string().contains("no such currency"));
    assert!(refused(json!({ "in_configure": "trap" })).to_string().contains("configure"));
    let wrong = CallPool::predicate(&load(&spec("probe-step", Value::Null)), node(), 1).unwrap_err();
    assert!(wrong.to_string().contains("is no predicate"), "{wrong}");
}

#[test]
fn a_pool_that_is_dropped_ends_its_calls() {
    let mut bench = Bench::new(&spec("probe-step", Value::Null), 2);
    let batch = Arc::new(payloads(["sleep", "loop"]));
    bench.start(&batch, 0);
    bench.start(&batch, 1);
    drop(bench.pool);
    let start = Instant::now();
    // The calls let go of their rows.
    while Arc::strong_count(&batch) > 1 {
        assert!(start.elapsed() < PATIENCE, "the calls go on");
        std::thread::yield_now();
    }
}

/// A server that answers every request with its path; the port.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                let (mut line, mut path) = (String::new(), String::new());
                while stream.read_line(&mut line).is_ok_and(|read| read > 0) {
                    if path.is_empty() {
                        path = line.split(' ').nth(1).unwrap_or_default().to_owned();
                    }
                    if line.trim().is_empty() {
                        let answer =
                            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}", path.len());
                        if path == "/hang" || stream.get_mut().write_all(answer.as_bytes()).is_err() {
                            return std::thread::park();
                        }
                        path.clear();
                    }
                    line.clear();
                }
            });
        }
    });
    port
}

pub fn granted(port: u16) -> PluginSpec {
    let grants = Grants { http: vec![HostGrant::new("localhost", port)], ..Grants::default() };
    PluginSpec { grants, ..spec("probe-http", Value::Null) }
}

#[test]
fn a_granted_host_is_asked_and_another_is_denied_in_the_guest() {
    let (port, other) = (echo(), echo());
    let mut bench = Bench::new(&granted(port), 2);
    assert_eq!(bench.ask(&format!("http://localhost:{port}/a?b=c")).unwrap(), "200 /a?b=c");
    for denied in [
        format!("http://localhost:{other}/"),
        format!("http://127.0.0.1:{port}/"),
        format!("http://169.254.169.254:{port}/"),
    ] {
        let answer = bench.ask(&denied).unwrap();
        assert_eq!(answer, "error: ErrorCode::HttpRequestDenied", "{denied}");
    }
    let mut bench = Bench::new(&spec("probe-http", Value::Null), 1);
    let answer = bench.ask(&format!("http://localhost:{port}/")).unwrap();
    assert_eq!(answer, "error: ErrorCode::HttpRequestDenied", "nothing is granted");
}

#[test]
fn no_proxy_is_taken_from_the_hosts_environment() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    // The environment belongs to a whole process, so that another one asks.
    let mut other = std::process::Command::new(std::env::current_exe().unwrap());
    other.args(["--exact", "pool::a_granted_host_is_asked_and_another_is_denied_in_the_guest"]);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        other.env(name, &address);
    }
    let output = other.env_remove("NO_PROXY").env_remove("no_proxy").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    let asked = proxy.accept().map(|(_, from)| from).map_err(|error| error.kind());
    assert_eq!(asked, Err(std::io::ErrorKind::WouldBlock));
}

#[test]
fn an_instance_that_cannot_be_made_because_others_are_away_discards_nothing() {
    let port = echo();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let once = listener.local_addr().unwrap().port();
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // Room for the whole of a small request.
        let _ = std::io::Read::read(&mut stream, &mut [0; 4096]).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    });
    let spec = granted(port);
    let mut grants = spec.grants.clone();
    grants.http.push(HostGrant::new("localhost", once));
    let config = json!({ "ask_first": format!("http://localhost:{once}/") });
    let mut bench = Bench::new(&PluginSpec { grants, config, ..spec }, 2);
    served.join().unwrap();
    let batch =
        Arc::new(payloads([format!("http://localhost:{port}/hang"), format!("http://localhost:{port}/b")]));
    bench.start(&batch, 0);
    let second = bench.start(&batch, 1);
    bench.until(1);
    let fault = bench.answers.remove(&second).unwrap().unwrap_err();
    assert_eq!(fault.cause, Cause::Retry, "{}", fault.reason);
}

#[test]
fn a_plugin_on_its_workers_thread_may_ask_too() {
    let port = echo();
    let mut step = StepNode::new(&load(&granted(port)), node()).unwrap();
    let batch = payloads([format!("http://localhost:{port}/a"), format!("http://localhost:{port}/b")]);
    let answers = step.call(&batch, &[0, 1]);
    assert_eq!(answers.failures, []);
    assert_eq!(
        texts(&batch, &[0, 1], answers.changes),
        [Some("200 /a".to_owned()), Some("200 /b".to_owned())]
    );
}

#[test]
fn many_requests_are_under_way_at_a_time_and_one_that_hangs_waited() {
    let port = echo();
    let mut bench = Bench::new(&granted(port), 16);
    let urls: Vec<String> = (0..16).map(|n| format!("http://localhost:{port}/{n}")).collect();
    let batch = Arc::new(payloads(&urls));
    for row in 0..16 {
        bench.start(&batch, row);
    }
    bench.until(16);
    assert!(bench.answers.values().all(Result::is_ok), "{:?}", bench.answers);
    let mut bench = Bench::new(&quick(granted(port)), 1);
    let fault = bench.ask(&format!("http://localhost:{port}/hang")).unwrap_err();
    assert_eq!((fault.cause, fault.waited), (Cause::Timeout, true));
}

/// A server whose answers have no end: a byte each time; the port.
fn drip(every: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                // Room for the whole of a small request.
                let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
                let head = b"HTTP/1.1 200 OK\r\ncontent-length: 10000000\r\n\r\n";
                let mut sent = stream.write_all(head);
                while sent.is_ok() {
                    std::thread::sleep(every);
                    sent = stream.write_all(b"x");
                }
            });
        }
    });
    port
}

/// Has every processor busy while `work` runs, several times over.
fn under_load<T>(work: impl FnOnce() -> T) -> T {
    busy(3 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get), work)
}

/// Starts a call for each of these rows at once; how each ended, and whether it waited.
fn endings(spec: &PluginSpec, rows: &[String]) -> Vec<(Cause, bool)> {
    let mut bench = Bench::new(spec, rows.len());
    let batch = Arc::new(payloads(rows));
    for row in 0..rows.len() as u32 {
        bench.start(&batch, row);
    }
    bench.until(rows.len());
    bench
        .answers
        .into_values()
        .map(|answer| answer.map_err(|fault| (fault.cause, fault.waited)).unwrap_err())
        .collect()
}

#[test]
fn an_answer_that_trickles_in_is_waited_for_however_often_it_wakes_the_guest() {
    for every in [2, 10] {
        let port = drip(Duration::from_millis(every));
        let urls: Vec<String> = (0..8).map(|n| format!("http://localhost:{port}/{n}")).collect();
        let waited = [(Cause::Timeout, true); 8];
        assert_eq!(endings(&quick(granted(port)), &urls), waited, "a byte every {every} ms");
        let ended = under_load(|| endings(&quick(granted(port)), &urls));
        assert_eq!(ended, waited, "a byte every {every} ms, under load");
    }
}

#[test]
fn guests_that_compute_are_not_told_to_have_waited_for_each_other() {
    let rows = vec!["loop".to_owned(); 6];
    let computed = [(Cause::Timeout, false); 6];
    let spec = PluginSpec {
        limits: loom_plugin::Limits { timeout: Duration::from_millis(100), ..loom_plugin::Limits::default() },
        ..spec("probe-step", Value::Null)
    };
    assert_eq!(endings(&spec, &rows), computed);
    assert_eq!(under_load(|| endings(&spec, &rows)), computed, "under load");
}

#[test]
fn a_guest_is_charged_neither_for_what_others_compute_nor_for_a_busy_machine() {
    // Each computes for far less than its limit, and all of them together for far more.
    let spec = PluginSpec {
        limits: loom_plugin::Limits { timeout: Duration::from_millis(200), ..loom_plugin::Limits::default() },
        ..spec("probe-step", Value::Null)
    };
    let mut bench = Bench::new(&spec, 8);
    let batch = Arc::new(payloads(vec!["loop"; 6].into_iter().chain(vec!["log-flood:20000"; 2])));
    under_load(|| {
        for row in 0..8 {
            bench.start(&batch, row);
        }
        bench.until(8);
    });
    let quick: Vec<_> = bench.answers.values().skip(6).map(Result::is_ok).collect();
    assert_eq!(quick, [true; 2], "{:?}", bench.answers);
}
