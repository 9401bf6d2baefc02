//! The admin server, and the commands that ask it, on a run of `dev` that waits for more input.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::running::Running;
use crate::support::{Folder, SOUND, guest};

/// A run of `dev` with an admin server, and the server's URL.
fn started(folder: &Folder) -> (Running, String) {
    let arguments = ["dev", "flow.yaml", "--input", "-", "--admin", "127.0.0.1:0"];
    let mut running = Running::start(folder, &arguments);
    let line: Value = serde_json::from_str(&running.wait_for("the admin server listens")).expect("JSON");
    let url = line["url"].as_str().expect("a URL").to_owned();
    running.wait_for("\"running\"");
    (running, url)
}

/// One exchange: what is sent, as it stands, and all that comes back.
fn exchange(url: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

fn get(url: &str, path: &str) -> (u16, String) {
    get_with(url, path, "Host: localhost\r\n")
}

fn get_with(url: &str, path: &str, headers: &str) -> (u16, String) {
    let answer = exchange(url, &format!("GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, body.to_owned())
}

/// Asks until the status looks so.
fn until(url: &str, look: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let (status, body) = get(url, "/api/status");
        if status == 200 {
            let document: Value = serde_json::from_str(&body).expect("JSON");
            if look(&document) {
                return document;
            }
            assert!(Instant::now() < deadline, "{document:#}");
        }
        // More questions than these are refused, those of other commands too.
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The value of a metric with these labels.
fn metric(text: &str, name: &str, labels: &[&str]) -> f64 {
    let line = text.lines().find(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'))
            && labels.iter().all(|label| line.contains(label))
    });
    let line = line.unwrap_or_else(|| panic!("{name}{labels:?} is not in\n{text}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

#[test]
fn a_flow_answers_how_it_stands_and_the_commands_find_it() {
    let folder = Folder::with_flow(SOUND);
    let (mut running, url) = started(&folder);
    running.write(b"{\"total\":11}\n{\"total\":3}\n{\"other\":1}\nnot json\n");
    let document = until(&url, |status| status["ledger"]["resolved"] == 4);
    assert_eq!((&document["version"], &document["flow"]), (&1.into(), &"small".into()));
    assert_eq!((&document["phase"], &document["ready"]), (&"running".into(), &true.into()));
    let ended = &document["ledger"]["ended"];
    for (ending, rows) in [("topic", 1), ("filtered", 1), ("error_route(task)", 1), ("error_route(wire)", 1)]
    {
        assert_eq!(ended[ending], rows, "{ended}");
    }

    assert_eq!(get(&url, "/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(get(&url, "/readyz"), (200, "ready\n".to_owned()));
    let (status, text) = get(&url, "/metrics");
    assert_eq!(status, 200);
    let place = ["flow=\"small\"", "topic=\"in\"", "partition=\"0\""];
    assert_eq!(metric(&text, "loom_records_consumed_total", &place), 4.0);
    assert_eq!(metric(&text, "loom_records_registered_total", &place), 4.0);
    for (ending, rows) in [("topic", 1.0), ("filtered", 1.0), ("drained", 0.0), ("error_route(wire)", 1.0)] {
        let ending = format!("ending=\"{ending}\"");
        let mut labels = place.to_vec();
        labels.push(&ending);
        assert_eq!(metric(&text, "loom_rows_ended_total", &labels), rows, "{ending}");
    }
    assert_eq!(metric(&text, "loom_node_errors_total", &["node=\"process[0]\"", "kind=\"task\""]), 1.0);
    assert_eq!(metric(&text, "loom_output_rows_total", &["topic=\"out\""]), 1.0);
    assert_eq!(metric(&text, "loom_output_rows_total", &["topic=\"failed\""]), 2.0);
    assert!(text.contains("# TYPE loom_records_consumed_total counter\n"), "{text}");

    // By name, by file, alone, and by URL.
    for arguments in [
        vec!["status", "small"],
        vec!["status", "./flow.yaml"],
        vec!["status"],
        vec!["status", "--url", &url],
    ] {
        let ended = folder.run(&arguments);
        ended.expect_status(0);
        assert!(ended.stdout.starts_with("small · group small · running for "), "{}", ended.stdout);
        assert!(ended.stdout.contains("in/0"), "{}", ended.stdout);
    }
    let ended = folder.run(&["status", "--format", "json"]);
    let same: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(same["partitions"][0]["position"], 4);
    let ended = folder.run(&["why", "in/0"]);
    ended.expect_status(0);
    assert!(
        ended.stdout.starts_with("in/0: nothing holds the watermark; every record below 4"),
        "{}",
        ended.stdout
    );
    // Without a partition those that are held, of which there is none here; the flow is taken as `status` takes it.
    for arguments in [&["why"][..], &["why", "small"], &["why", "./flow.yaml"], &["why", "--flow", "small"]] {
        let ended = folder.run(arguments);
        assert_eq!(ended.expect_status(0).stdout, "nothing is held in small: its partition goes on\n");
    }
    assert!(folder.run(&["why", "small", "in/0"]).expect_status(0).stdout.starts_with("in/0: nothing holds"));
    folder.run(&["status", "--flow", "small"]).expect_status(0);
    folder.run(&["why", "small", "other"]).expect_status(2).expect_one_error(&["small and other"]);
    folder
        .run(&["why", "in/1"])
        .expect_status(2)
        .expect_one_error(&["does not read in/1", "in (1 partition)"]);
    for verb in [&["status", "other", "--url", &url][..], &["why", "in/0", "--flow", "other", "--url", &url]]
    {
        folder.run(verb).expect_status(4).expect_one_error(&["is small, not other"]);
    }
    folder.run(&["status", "small", "--url", &url]).expect_status(0);
    folder.run(&["status", "smal"]).expect_status(4).expect_one_error(&["did you mean small?"]);

    running.signal(Signal::INT);
    // Not before: waiting closes the input, which ends the run too.
    running.wait_for("\"stopped\"");
    assert_eq!(running.status(), Some(130));
    folder.run(&["status", "small"]).expect_status(4).expect_one_error(&["no flow small runs"]);
    let left = std::fs::read_dir(folder.path().join("loom-host")).expect("the folder").count();
    assert_eq!(left, 0, "the file is gone with the flow");
}

#[test]
fn why_names_the_record_its_node_attempt_plugin_and_what_would_release_it() {
    let step = guest("probe-step");
    let flow = SOUND.replace(
        "process:\n  - filter: payload.total > 10\n",
        &format!("plugins:\n  enrich: {{ component: {step:?} }}\nprocess:\n  - step: enrich\n"),
    );
    let folder = Folder::with_flow(&flow);
    let (mut running, url) = started(&folder);
    running.write(b"first\nretry:the service is away\nbehind\n");
    until(&url, |status| {
        let places = &status["partitions"][0]["oldest"]["places"];
        places[0]["attempt"].as_u64().is_some_and(|attempt| attempt >= 2)
    });
    let ended = folder.run(&["why", "in/0", "--flow", "small"]);
    ended.expect_status(0);
    for words in [
        "in/0: offset 1 holds the watermark; it was read ",
        "at process[0] (plugin enrich, sha256 ",
        ", attempt ",
        "what releases it: its next attempt",
        "nothing more is read from it while rows of it wait",
    ] {
        assert!(ended.stdout.contains(words), "{words:?} is not in\n{}", ended.stdout);
    }
    let ended = folder.run(&["why", "in/0", "--format", "json"]);
    let document: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(document[0]["oldest"]["places"][0]["release"]["kind"], "retry");
    assert_eq!(get(&url, "/readyz").0, 200);
    running.signal(Signal::TERM);
    running.status();
}

#[test]
fn requests_of_other_sites_and_of_no_sense_are_refused() {
    let folder = Folder::with_flow(SOUND);
    let (running, url) = started(&folder);
    let own = format!("Host: {}\r\n", url.trim_start_matches("http://"));
    let status = |headers: &str| get_with(&url, "/api/status", headers).0;
    assert_eq!(status(&own), 200);
    assert_eq!(status(&format!("{own}Origin: {url}\r\n")), 200);
    assert_eq!(status(&format!("{own}Origin: http://evil.example\r\n")), 403);
    assert_eq!(status(&format!("{own}Sec-Fetch-Site: cross-site\r\n")), 403);
    assert_eq!(status("Host: evil.example\r\n"), 403);
    assert_eq!(status(""), 400);
    assert!(exchange(&url, "GET /healthz HTTP/1.0\r\n\r\n").contains(" 200 OK\r\n"), "which knows no Host");
    assert_eq!(get(&url, "/nowhere").0, 404);
    let head = exchange(&url, "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head:?}");
    let post = exchange(&url, "POST /api/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(post.starts_with("HTTP/1.1 405 "), "{post}");
    let body = "POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n";
    assert!(exchange(&url, body).starts_with("HTTP/1.1 413 "), "and the body is not waited for");
    let long = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let answer = exchange(&url, &long);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    assert_eq!(get(&url, "/healthz").0, 200, "the server goes on");
    drop(running);
}

#[test]
fn clients_that_come_too_often_or_say_nothing_do_not_hold_the_server() {
    let folder = Folder::with_flow(SOUND);
    let (running, url) = started(&folder);
    let address = url.trim_start_matches("http://");
    // More than the server has places for, and none says a word: they are closed, and do not stay.
    let silent: Vec<_> = (0..64).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    assert_eq!(get(&url, "/healthz").0, 200, "the first that says something has the place of an idle one");
    drop(silent);
    // Others that ask too often take nothing from probes.
    let flood = |path: &str| {
        let one = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n");
        exchange(&url, &(format!("{one}\r\n").repeat(300) + &one + "Connection: close\r\n\r\n"))
    };
    for _ in 0..3 {
        let answers = flood("/nowhere");
        assert!(answers.contains("HTTP/1.1 429 ") && answers.contains("retry-after: 1"), "{answers}");
        assert_eq!(get(&url, "/healthz").0, 200);
        assert_eq!(get(&url, "/readyz").0, 200);
    }
    assert!(flood("/healthz").contains("HTTP/1.1 429 "), "and probes have their own bound");
    drop(running);
}

#[test]
fn watching_ends_with_its_reader() {
    let folder = Folder::with_flow(SOUND);
    let (running, url) = started(&folder);
    let mut watching = Running::start(&folder, &["status", "--watch", "--url", &url]);
    let mut output = BufReader::new(watching.child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    assert!(line.starts_with("small "), "{line}");
    drop(output);
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(watching.status()));
    let status = ended.recv_timeout(Duration::from_secs(30)).expect("nobody reads it, and it goes on");
    assert_eq!(status, Some(141), "as one that SIGPIPE ends");
    drop(running);
}

#[test]
fn an_address_that_is_taken_or_none_is_told() {
    let folder = Folder::with_flow(SOUND);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = taken.local_addr().expect("an address").to_string();
    let arguments = ["dev", "flow.yaml", "--input", "flow.yaml", "--admin", at.as_str()];
    folder.run(&arguments).expect_status(4).expect_one_error(&["cannot listen at", &at, "--admin off"]);
    let ended = folder.run(&["run", "flow.yaml", "--admin", "nowhere"]);
    ended.expect_status(2);
    assert!(ended.stderr.contains("127.0.0.1:7878"), "{}", ended.stderr);
    folder
        .run(&["status", "--url", "https://localhost:1"])
        .expect_status(2)
        .expect_one_error(&["http://HOST:PORT"]);
    folder
        .run(&["status", "--url", "http://127.0.0.1:1"])
        .expect_status(4)
        .expect_one_error(&["no admin server answers"]);
    folder.run(&["status"]).expect_status(4).expect_one_error(&["no flow runs on this machine"]);
    let ended = folder.run(&["why", "in"]);
    ended.expect_status(4);
    assert!(ended.stderr.contains("TOPIC/PARTITION"), "{}", ended.stderr);
}
