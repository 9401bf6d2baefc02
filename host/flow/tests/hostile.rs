//! Files that no hand wrote: too large, too deep, multiplied by aliases, not text. Each has a clear answer, soon, in
//! bounded memory.

use std::fmt::Write as _;
use std::time::Duration;

use loom_flow::{HumanStyle, Severity};

use crate::support::{Stopwatch, World, around_with};

/// What it is, its bytes, and words of the first error.
type Case = (&'static str, fn() -> Vec<u8>, &'static str);

/// An anchor for each line, which repeats the one before several times.
fn bomb(first: &str, line: impl Fn(usize) -> String) -> Vec<u8> {
    (1..40)
        .fold(first.to_owned(), |mut text, n| {
            let _ = writeln!(text, "{}", line(n));
            text
        })
        .into_bytes()
}

/// A flow with a process, and more at the top level.
fn with_process(process: &str, more: &str) -> Vec<u8> {
    format!(
        "name: x\nkafka:\n  consumer: {{ brokers: [b], group_id: g, topics: [in], delivery: at_least_once }}\n  producer: {{ brokers: [b] }}\n{more}process:\n{process}"
    )
    .into_bytes()
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, "{}", line(n));
        text
    })
}

/// Files that are flows, and larger than any: what one part says is compared with what many others say.
const LARGE: [Case; 9] = [
    (
        "many plugins, each used",
        || {
            let plugins = lines(25_000, |n| format!("  p{n}: {{ component: step.wasm }}"));
            with_process(&lines(25_000, |n| format!("- step: p{n}")), &format!("plugins:\n{plugins}"))
        },
        "without a terminal",
    ),
    (
        "many plugins, none used",
        || {
            let plugins = lines(50_000, |n| format!("  p{n}: {{ component: step.wasm }}"));
            with_process("- step: s\n", &format!("plugins:\n{plugins}"))
        },
        "without a terminal",
    ),
    (
        "many plugins, others used",
        || {
            let plugins = lines(25_000, |n| format!("  p{n}: {{ component: step.wasm }}"));
            with_process(&lines(25_000, |n| format!("- step: q{n}")), &format!("plugins:\n{plugins}"))
        },
        "`plugins` has no `q0`",
    ),
    (
        "many outputs with producers of their own",
        || {
            let producers = lines(20_000, |n| format!("    o{n}: {{ brokers: [b] }}"));
            let branches = lines(20_000, |n| format!("  - [ {{ into_topic: o{n} }} ]"));
            let text = with_process(&format!("- broadcast:\n{branches}- drain\n"), "");
            let text = String::from_utf8(text).expect("text");
            text.replace("  producer:", &format!("  producers:\n{producers}  producer:")).into_bytes()
        },
        "another node follows it",
    ),
    (
        "many outputs and topics",
        || {
            let topics: String = (0..20_000).map(|n| format!("t{n}, ")).collect();
            let branches = lines(20_000, |n| format!("  - [ {{ into_topic: o{n} }} ]"));
            let text = with_process(&format!("- broadcast:\n{branches}- drain\n"), "");
            String::from_utf8(text).expect("text").replace("[in]", &format!("[{topics}]")).into_bytes()
        },
        "another node follows it",
    ),
    (
        "many topics and labels",
        || {
            let topics: String = (0..20_000).map(|n| format!("t{n}, ")).collect();
            let labels = lines(20_000, |n| format!("      l{n}: [ drain ]"));
            let text = with_process(&format!("- fork:\n    by: msg.topic\n    branches:\n{labels}"), "");
            String::from_utf8(text).expect("text").replace("[in]", &format!("[{topics}]")).into_bytes()
        },
        "needs a `default`",
    ),
    (
        "many branches",
        || {
            let branches = lines(20_000, |n| format!("    - {{ if: payload.a{n}, process: [ drain ] }}"));
            with_process(&format!("- fork:\n    when:\n{branches}"), "")
        },
        "needs a `default`",
    ),
    (
        "many granted folders",
        || {
            let dirs = lines(40_000, |n| format!("    - {{ host: a, guest: /d{n} }}"));
            let plugins = format!(
                "plugins:\n  s: {{ component: step.wasm, allow: {{ dirs: &dirs [] }} }}\n  t:\n   component: step.wasm\n   allow:\n    dirs:\n{dirs}"
            );
            with_process("- step: t\n", &plugins)
        },
        "without a terminal",
    ),
    (
        "many expressions",
        || with_process(&lines(40_000, |n| format!("- filter: payload.a{n} > {n}")), ""),
        "without a terminal",
    ),
];

const CASES: [Case; 26] = [
    (
        "aliases of aliases",
        || bomb("a0: &a0 [ x ]\n", |n| format!("a{n}: &a{n} [ *a{p}, *a{p}, *a{p}, *a{p} ]", p = n - 1)),
        "counting what its aliases repeat",
    ),
    (
        "merges of merges",
        || bomb("m0: &m0 { a: 1 }\n", |n| format!("m{n}: &m{n} {{ <<: [ *m{p}, *m{p} ] }}", p = n - 1)),
        "counting what its aliases repeat",
    ),
    (
        "a long text, often",
        || format!("a: &a \"{}\"\nb: [ {} ]\n", "x".repeat(1 << 20), "*a, ".repeat(10_000)).into_bytes(),
        "counting what its aliases repeat",
    ),
    ("lists in lists", || b"[".repeat(1_000_000), "nested deeper than 128 levels"),
    ("mappings in mappings", || b"{a: ".repeat(1_000_000), "nested deeper than 128 levels"),
    (
        "blocks in blocks",
        || (0..2000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect::<String>().into_bytes(),
        "nested deeper than 128 levels",
    ),
    ("items in items", || b"- ".repeat(200_000), "nested deeper than 128 levels"),
    ("an alias in itself", || b"a: &a [ *a ]\n".to_vec(), "inside the value that it repeats"),
    ("an alias of nothing", || b"a: *b\n".to_vec(), "not YAML"),
    ("ten megabytes of comments", || b"# x\n".repeat(2_600_000), "a flow may have 4 MiB at most"),
    (
        "ten megabytes of a flow",
        || [b"name: x\nprocess:\n".to_vec(), b"- drain\n".repeat(1_300_000)].concat(),
        "4 MiB",
    ),
    (
        "four megabytes of nodes",
        || [b"name: x\nprocess:\n".to_vec(), b"- drain\n".repeat(500_000)].concat(),
        "holds too much",
    ),
    (
        "many keys",
        || (0..150_000).map(|n| format!("k{n}: 1\n")).collect::<String>().into_bytes(),
        "no key `k0`",
    ),
    ("many duplicates", || b"k: 1\n".repeat(150_000), "`k` is given twice"),
    ("one long line", || format!("a: {}\n", "x ".repeat(1_000_000)).into_bytes(), "no key `a`"),
    ("nothing", Vec::new, "holds no flow"),
    ("only a comment", || b"# nothing\n".to_vec(), "holds no flow"),
    ("a list", || b"- a\n".to_vec(), "a flow is a mapping, not a list"),
    ("a word", || b"hello\n".to_vec(), "a flow is a mapping, not a single value"),
    ("tabs", || b"name: x\nkafka:\n\tconsumer: {}\n".to_vec(), "a tab stands in the indentation"),
    ("several documents", || b"name: x\n---\nname: y\n".to_vec(), "second document"),
    ("no UTF-8", || b"name: caf\xe9\n".to_vec(), "not UTF-8: byte 0xe9"),
    ("UTF-16", || b"\xff\xfen\0a\0m\0e\0".to_vec(), "UTF-16"),
    ("a zero byte", || b"name: x\0\n".to_vec(), "control character U+0000"),
    ("a component", || b"\0asm\x0d\0\x01\0".to_vec(), "control character U+0000"),
    ("a key that is a list", || b"[a]: x\n".to_vec(), "a key must be a single text"),
];

fn answer(case: &Case) {
    let (what, bytes, words) = case;
    let watch = Stopwatch::start();
    let compiled = World::new().compile_bytes(&bytes());
    let errors: Vec<&str> = compiled
        .issues
        .iter()
        .filter(|issue| issue.severity == Severity::Error)
        .map(|issue| issue.message.as_str())
        .collect();
    assert!(errors.iter().any(|message| message.contains(words)), "{what}: {:?}", errors.first());
    assert!(compiled.issues.len() <= 1002, "{what}");
    let shown = compiled.render(HumanStyle::default());
    assert!(shown.len() < 20 << 20, "{what} prints {} bytes", shown.len());
    assert!(watch.took() < Duration::from_secs(20), "{what} took {:?}", watch.took());
}

#[test]
fn hostile_files_have_a_clear_answer() {
    CASES.iter().for_each(answer);
}

#[test]
fn large_flows_are_answered_in_time_that_grows_with_their_size() {
    LARGE.iter().for_each(answer);
}

/// A process for each, since what one has taken at most is known of processes only.
#[cfg(target_os = "linux")]
#[test]
fn hostile_files_fit_into_200_megabytes() {
    let test = std::env::current_exe().expect("this test");
    for (index, (what, ..)) in CASES.iter().enumerate() {
        let output = std::process::Command::new(&test)
            .args(["--exact", "hostile::one_hostile_file_alone", "--ignored", "--nocapture"])
            .env("LOOM_HOSTILE", index.to_string())
            .output()
            .expect("a process of its own");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{what}: {said}");
        let peak = said.split("peak ").nth(1).and_then(|rest| rest.split_whitespace().next());
        let peak: u64 = peak.and_then(|peak| peak.parse().ok()).unwrap_or_else(|| panic!("{what}: {said}"));
        assert!(peak < 200 << 10, "{what} took {} MiB", peak >> 10);
    }
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "started by another test, in a process of its own"]
fn one_hostile_file_alone() {
    let index: usize = std::env::var("LOOM_HOSTILE").expect("which one").parse().expect("a number");
    answer(&CASES[index]);
    let status = std::fs::read_to_string("/proc/self/status").expect("the process's own figures");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the most it took");
    println!("peak {} kB", peak.trim().trim_end_matches(" kB"));
}

#[test]
fn byte_order_mark_and_other_line_ends_change_nothing() {
    let text = around_with("[ { into_topic: a } ]", "errors: { default: [ drain ] }\nbatch: 1");
    let plain = World::new().compile(&text);
    assert_eq!(plain.errors(), 1);
    for other in [format!("\u{feff}{text}"), text.replace('\n', "\r\n")] {
        let compiled = World::new().compile(&other);
        let places = |compiled: &loom_flow::Compiled| -> Vec<_> {
            compiled.issues.iter().map(|issue| (issue.code, issue.at.line, issue.at.column)).collect()
        };
        assert_eq!(places(&compiled), places(&plain));
    }
}
