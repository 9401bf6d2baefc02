//! Steps that wait: for a service that is away for a while, and for calls that overlap.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use loom_tests::PATIENCE;
use loom_tests::guests::component;
use loom_tests::host::{Ended, Folder, Host};
use loom_tests::kafka::{Record, Space, shared};
use serde_json::Value;

/// An HTTP service that answers each path with itself, until it is dropped.
struct Service {
    over: Arc<AtomicBool>,
    /// Calls that are being answered now, and the most there were at once.
    open: Arc<(AtomicUsize, AtomicUsize)>,
    port: u16,
}

impl Service {
    /// `takes`: how long an answer takes. Port 0 is any.
    fn start(port: u16, takes: Duration) -> Result<Service> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let port = listener.local_addr()?.port();
        let service = Service { over: Arc::default(), open: Arc::default(), port };
        let (over, open) = (service.over.clone(), service.open.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if over.load(Ordering::Acquire) {
                    return;
                }
                let open = open.clone();
                std::thread::spawn(move || {
                    let now = open.0.fetch_add(1, Ordering::AcqRel) + 1;
                    open.1.fetch_max(now, Ordering::AcqRel);
                    let _ = answer(stream, takes);
                    open.0.fetch_sub(1, Ordering::AcqRel);
                });
            }
        });
        Ok(service)
    }

    fn most_at_once(&self) -> usize {
        self.open.1.load(Ordering::Acquire)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // The listener waits for one more.
        let _ = std::net::TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn answer(mut stream: std::net::TcpStream, takes: Duration) -> std::io::Result<()> {
    let (mut asked, mut byte) = (Vec::new(), [0]);
    while !asked.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        asked.push(byte[0]);
    }
    std::thread::sleep(takes);
    let text = String::from_utf8_lossy(&asked);
    let path = text.split(' ').nth(1).unwrap_or_default();
    write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{path}", path.len())
}

/// A flow whose step asks the service for each record's payload, as a path.
fn folder(
    space: &Space<'_>,
    group: &str,
    input: &str,
    output: &str,
    port: u16,
    node: &str,
) -> Result<Folder> {
    let folder = Folder::new()?;
    let brokers = space.broker().address();
    folder.write(
        "flow.yaml",
        format!(
            "name: {group}\nkafka:\n  consumer: {{ brokers: [\"{brokers}\"], group_id: {group}, topics: [{input}], delivery: \
             at_least_once, auto_offset_reset: earliest }}\n  producer: {{ brokers: [\"{brokers}\"] }}\nplugins:\n  s:\n    \
             component: {}\n    config: {{ url: 'http://127.0.0.1:{port}', retry: true }}\n    allow: {{ http: \
             ['127.0.0.1:{port}'] }}\nprocess: [ {{ step: s{node} }}, {{ into_topic: {output} }} ]\n",
            component("probe-http")?.display()
        ),
    )?;
    Ok(folder)
}

/// A command beside the flow, or the flow itself: they find each other by the folder.
fn start(folder: &Folder, arguments: &[&str]) -> Result<Host> {
    let runtime = folder.path().to_owned();
    Host::start_with(folder.path(), arguments, |command| {
        command.env("XDG_RUNTIME_DIR", runtime).env_remove("LOOM_ADMIN");
    })
}

fn text(ended: &Ended) -> String {
    ended.output.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n")
}

fn numbered(count: usize) -> impl Iterator<Item = Record> {
    (0..count).map(|n| Record::new(format!("/{n}")).partition((n % 2) as i32).key(format!("k{}", n % 2)))
}

/// Each input partition's numbers as they came out: in order, all, once.
fn in_order(space: &Space<'_>, output: &str, count: usize) -> Result<()> {
    let rows = space.broker().read_all(output)?;
    for partition in 0..2 {
        let key = format!("k{partition}");
        let came: Vec<String> = rows
            .iter()
            .filter(|row| row.key_text().as_deref() == Some(&*key))
            .map(|row| row.text())
            .collect();
        let due: Vec<String> =
            (0..count).filter(|n| n % 2 == partition).map(|n| format!("200 /{n}")).collect();
        assert_eq!(came, due, "partition {partition}");
    }
    Ok(())
}

#[test]
fn a_service_that_is_down_holds_its_records_visibly_and_nothing_is_lost_or_overtaken() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, output, group) = (space.topic("in", 2)?, space.topic("out", 2)?, space.group("g"));
    // A port that was free a moment ago: nobody answers there yet.
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let folder = folder(&space, &group, &input, &output, port, "")?;
    broker.write(&input, numbered(40))?;
    let host = start(&folder, &["run", "flow.yaml", "-w", "2", "--admin", "127.0.0.1:0"])?;

    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        let ended = start(&folder, &["status", "--format", "json"])?.wait()?;
        let status: Option<Value> =
            (ended.status == Some(0)).then(|| serde_json::from_str(&text(&ended))).transpose()?;
        let tried = |status: &Value| {
            let attempts =
                |partition: &Value| partition["oldest"]["places"][0]["attempt"].as_u64() >= Some(2);
            status["partitions"].as_array().is_some_and(|all| all.len() == 2 && all.iter().all(attempts))
        };
        if let Some(status) = status.filter(tried) {
            break status;
        }
        ensure!(
            Instant::now() < deadline,
            "status shows no second attempt: {}\n{}",
            text(&ended),
            host.log_text()
        );
        std::thread::sleep(Duration::from_millis(200));
    };
    for partition in status["partitions"].as_array().context("partitions")? {
        ensure!(partition["oldest"]["offset"] == 0 && partition["stalled"].is_null(), "{partition:#}");
    }
    let why = start(&folder, &["why", &format!("{input}/1")])?.wait()?;
    for word in ["offset 0 holds the watermark", "plugin s", "its next attempt"] {
        ensure!(text(&why).contains(word), "{word} is not in:\n{}", text(&why));
    }
    assert_eq!(broker.ends(&output)?.values().sum::<i64>(), 0, "nothing comes out meanwhile");

    let _service = Service::start(port, Duration::ZERO)?;
    if let Err(error) = broker.await_committed(&group, &input, &[(0, 20), (1, 20)]) {
        anyhow::bail!("{error:#}\n{}", host.log_text());
    }
    let ended = host.stop()?;
    ended.expect_status(0)?;
    ended.stopped()?.balances()?;
    in_order(&space, &output, 40)
}

#[test]
fn calls_of_a_step_with_concurrency_overlap_and_their_rows_leave_in_order() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, output, group) = (space.topic("in", 2)?, space.topic("out", 2)?, space.group("g"));
    let service = Service::start(0, Duration::from_millis(50))?;
    let folder = folder(&space, &group, &input, &output, service.port, ", concurrency: 4")?;
    broker.write(&input, numbered(60))?;
    let host = start(&folder, &["run", "flow.yaml", "--admin", "off"])?;
    if let Err(error) = broker.await_committed(&group, &input, &[(0, 30), (1, 30)]) {
        anyhow::bail!("{error:#}\n{}", host.log_text());
    }
    let ended = host.stop()?;
    ended.expect_status(0)?;
    ended.stopped()?.balances()?;
    let most = service.most_at_once();
    ensure!((2..=4).contains(&most), "{most} calls at once");
    in_order(&space, &output, 60)
}
