//! The thread behind an input: what it hands over, when, and how it ends.

use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loom_kafka::Waker;
use loom_kafka::memory::{Pulled, RecordStream};

use super::{Input, Target};

const PATIENCE: Duration = Duration::from_secs(20);

/// An input that gives what the test sends it, and waits where it sends nothing.
struct Typed {
    typed: Receiver<Vec<u8>>,
    rest: Vec<u8>,
}

impl Read for Typed {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            match self.typed.recv() {
                Ok(more) => self.rest = more,
                Err(_) => return Ok(0),
            }
        }
        let count = self.rest.len().min(out.len());
        out[..count].copy_from_slice(&self.rest[..count]);
        self.rest.drain(..count);
        Ok(count)
    }
}

fn targets() -> Vec<Target> {
    vec![Target { topic: "in".to_owned(), partitions: 1 }]
}

fn bound(bytes: impl Read + Send + 'static, envelope: bool) -> (Input, Receiver<()>) {
    let mut input = Input::of("orders.jsonl", Box::new(bytes), envelope, targets());
    let (sender, wakes) = channel();
    let sender: Mutex<Sender<()>> = Mutex::new(sender);
    let waker: Waker = Arc::new(move || _ = sender.lock().unwrap().send(()));
    input.bind(waker);
    (input, wakes)
}

/// The next thing that is not pending.
fn next(input: &mut Input, wakes: &Receiver<()>) -> Pulled {
    loop {
        match input.pull() {
            Pulled::Pending => wakes.recv_timeout(PATIENCE).expect("something wakes"),
            other => return other,
        }
    }
}

fn payloads(input: &mut Input, wakes: &Receiver<()>) -> (Vec<String>, Pulled) {
    let mut payloads = Vec::new();
    loop {
        match next(input, wakes) {
            Pulled::Record { record, .. } => {
                payloads.push(String::from_utf8_lossy(&record.payload.unwrap()).into_owned());
            }
            other => return (payloads, other),
        }
    }
}

#[test]
fn lines_end_with_or_without_carriage_return_and_the_last_may_have_no_end() {
    for (text, lines) in [
        ("", vec![]),
        ("\n", vec![""]),
        ("a\nb\r\n\nc", vec!["a", "b", "", "c"]),
        ("a\n", vec!["a"]),
        ("a\r\r\nb\r", vec!["a\r", "b\r"]),
    ] {
        let (mut input, wakes) = bound(text.as_bytes(), false);
        let (read, end) = payloads(&mut input, &wakes);
        assert_eq!(read, lines, "{text:?}");
        assert!(matches!(end, Pulled::End));
        assert!(matches!(input.pull(), Pulled::End), "the end stays");
    }
}

#[test]
fn more_lines_than_a_chunk_holds_come_in_order() {
    let lines: Vec<String> = (0..20_000).map(|number| format!("line {number}")).collect();
    let (mut input, wakes) = bound(io::Cursor::new(lines.join("\n")), false);
    let (read, end) = payloads(&mut input, &wakes);
    assert_eq!(read, lines);
    assert!(matches!(end, Pulled::End));
}

#[test]
fn what_was_typed_is_handed_on_while_more_is_waited_for() {
    let (type_in, typed) = channel();
    let (mut input, wakes) = bound(Typed { typed, rest: Vec::new() }, false);
    for line in ["one", "two"] {
        type_in.send(format!("{line}\n").into_bytes()).unwrap();
        match next(&mut input, &wakes) {
            Pulled::Record { record, .. } => assert_eq!(record.payload.unwrap(), line.as_bytes()),
            other => panic!("{other:?}"),
        }
        assert!(matches!(input.pull(), Pulled::Pending));
    }
    drop(type_in);
    assert!(matches!(next(&mut input, &wakes), Pulled::End));
}

#[test]
fn a_wrong_line_comes_behind_the_records_before_it_and_names_its_place() {
    let text = "{\"payload\":\"a\"}\n{\"payload\":\"b\"}\n{oops}\n{\"payload\":\"c\"}\n";
    let (mut input, wakes) = bound(text.as_bytes(), true);
    let (read, end) = payloads(&mut input, &wakes);
    assert_eq!(read, ["a", "b"]);
    let Pulled::Failed(error) = end else { panic!("{end:?}") };
    assert_eq!(error.message, "orders.jsonl:3: no envelope: it is not JSON: key must be a string (column 2)");
}

#[test]
fn an_input_that_breaks_off_says_so() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let (mut input, wakes) = bound(b"a\n".chain(Broken), false);
    let (read, end) = payloads(&mut input, &wakes);
    assert_eq!(read, ["a"]);
    let Pulled::Failed(error) = end else { panic!("{end:?}") };
    assert!(error.message.starts_with("orders.jsonl:2: cannot read on: "), "{}", error.message);
}

#[test]
fn a_path_that_is_no_file_is_refused_at_once() {
    let open = |path: &Path| Input::open(path, false, targets()).err().expect("no input").to_string();
    let folder = tempfile::tempdir().unwrap();
    assert!(open(folder.path()).ends_with(": it is a folder"));
    let missing = open(&folder.path().join("none.jsonl"));
    assert!(missing.starts_with("cannot read the input ") && missing.contains("none.jsonl: "), "{missing}");
}

#[test]
fn nobody_who_takes_ends_the_thread() {
    let (type_in, typed) = channel();
    let (input, wakes) = bound(Typed { typed, rest: Vec::new() }, false);
    drop(input);
    type_in.send(b"one\n".to_vec()).unwrap();
    wakes.recv_timeout(PATIENCE).expect("the thread tried to hand over");
    let gone = wakes.recv_timeout(PATIENCE);
    assert_eq!(gone, Err(RecvTimeoutError::Disconnected), "the waker is gone with the thread");
}
