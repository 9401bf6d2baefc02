//! Mutated flows: whatever the bytes are, compiling ends, soon, with a plan or with an error.

use std::time::{Duration, Instant};

use proptest::prelude::{ProptestConfig, any, prop, prop_oneof, proptest};
use proptest::strategy::{Just, Strategy};

use crate::support::{World, around_with};

/// How many documents to try: 1,500, or what `LOOM_MUTATIONS` says.
fn cases() -> u32 {
    std::env::var("LOOM_MUTATIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(1500)
}

/// A flow with every node and most options, the later ones too.
fn seed() -> String {
    around_with(
        "
  - step: s
    timeout: 100ms
    retries: 3
    errors: { business: [ { into_topic: refused, key: payload.id } ], default: [ drain ] }
  - map: \"{'id': payload.id}\"
  - filter: { plugin: p }
  - collect_batch: { max_records: 10, timeout_ms: 5, key: payload.k }
  - for_each
  - router: { by: payload.t, branches: { a: [ { step: s } ], b: [] }, default: pass }
  - fork:
      when:
        - if: payload.total > 1000.0
          process: [ { broadcast: [ [ { into_topic: big } ], [ { into_sink: k, flush: { records: 5 } } ] ] } ]
        - if: \"!has(payload.x)\" # why
          process: &two [ { into_topic: two } ]
      default: *two",
        "errors: { wire: [ drain ], unrouted: stop }\nruntime: { prefetch: 1MiB }",
    )
}

/// Pieces that mean something to YAML, to CEL or to the language.
fn piece() -> impl Strategy<Value = String> {
    const PIECES: [&str; 40] = [
        "\n",
        "\n  ",
        "\n- ",
        "  ",
        "\t",
        "- ",
        ": ",
        " #",
        "\"",
        "'",
        "[",
        "]",
        "{",
        "}",
        ",",
        "&a ",
        "*a ",
        "*two ",
        "<<: ",
        "!x ",
        "!!str ",
        "|",
        ">",
        "|2\n",
        "? ",
        "%YAML 1.2\n",
        "---\n",
        "...\n",
        "${",
        "${A}",
        "$${",
        "${file:x}",
        "\r",
        "\u{feff}",
        "\0",
        "é",
        "fork: ",
        "drain",
        "~",
        "process: ",
    ];
    prop_oneof![4 => prop::sample::select(&PIECES[..]).prop_map(str::to_owned), 1 => any::<String>()]
}

#[derive(Clone, Debug)]
enum Change {
    Insert(prop::sample::Index, String),
    Delete(prop::sample::Index, usize),
    /// A stretch again, elsewhere.
    Copy(prop::sample::Index, usize, prop::sample::Index),
    Byte(prop::sample::Index, u8),
}

fn change() -> impl Strategy<Value = Change> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (index(), piece()).prop_map(|(at, text)| Change::Insert(at, text)),
        (index(), 1..40_usize).prop_map(|(at, len)| Change::Delete(at, len)),
        (index(), 1..120_usize, index()).prop_map(|(from, len, to)| Change::Copy(from, len, to)),
        (index(), prop_oneof![Just(0xff_u8), any::<u8>()]).prop_map(|(at, byte)| Change::Byte(at, byte)),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    let at = |index: &prop::sample::Index, bytes: &[u8]| {
        if bytes.is_empty() { 0 } else { index.index(bytes.len()) }
    };
    match change {
        Change::Insert(index, text) => {
            let at = at(index, bytes);
            bytes.splice(at..at, text.bytes());
        }
        Change::Delete(index, len) => {
            let at = at(index, bytes);
            let end = (at + len).min(bytes.len());
            bytes.drain(at..end);
        }
        Change::Copy(from, len, to) => {
            let from = at(from, bytes);
            let stretch = bytes[from..(from + len).min(bytes.len())].to_vec();
            let to = at(to, bytes);
            bytes.splice(to..to, stretch);
        }
        Change::Byte(index, byte) => {
            let at = at(index, bytes);
            if let Some(place) = bytes.get_mut(at) {
                *place = *byte;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_mutated_flow_compiles_or_is_refused(changes in prop::collection::vec(change(), 1..6)) {
        let mut bytes = seed().into_bytes();
        for change in &changes {
            apply(&mut bytes, change);
        }
        let start = Instant::now();
        let compiled = World::new().compile_bytes(&bytes);
        for issue in &compiled.issues {
            assert!(issue.at.line >= 1 && issue.at.column >= 1 && !issue.message.is_empty());
        }
        let _ = compiled.render(loom_flow::HumanStyle::default());
        assert!(start.elapsed() < Duration::from_secs(5), "it took {:?}", start.elapsed());
    }
}

#[test]
fn bombs_and_absurd_files_are_refused_at_once() {
    let aliases: String =
        (1..40).map(|n| format!("a{n}: &a{n} [ *a{p}, *a{p}, *a{p}, *a{p} ]\n", p = n - 1)).collect();
    let long_text = format!("a: &a \"{}\"\nb: [ {} ]\n", "x".repeat(1 << 20), "*a, ".repeat(10_000));
    let merges: String =
        (1..40).map(|n| format!("m{n}: &m{n} {{ <<: [ *m{p}, *m{p} ] }}\n", p = n - 1)).collect();
    for (what, text) in [
        ("aliases of aliases", format!("a0: &a0 [ x ]\n{aliases}")),
        ("a long text, often", long_text),
        ("merges of merges", format!("m0: &m0 {{ a: 1 }}\n{merges}")),
        ("flow nesting", "[".repeat(1_000_000)),
        ("mapping nesting", "{a: ".repeat(1_000_000)),
        ("block nesting", (0..2000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect()),
        ("sequence nesting", "- ".repeat(200_000)),
        ("an alias in itself", "a: &a [ *a ]\n".to_owned()),
        ("a large file", "# x\n".repeat(3_000_000)),
        ("many keys", (0..200_000).map(|n| format!("k{n}: 1\n")).collect()),
        ("many duplicates", "k: 1\n".repeat(200_000)),
        ("one long line", format!("a: {}\n", "x ".repeat(1_000_000))),
        ("empty", String::new()),
        ("only a comment", "# nothing\n".to_owned()),
        ("a list", "- a\n".to_owned()),
        ("tabs", "name: x\nkafka:\n\tconsumer: {}\n".to_owned()),
    ] {
        let start = Instant::now();
        let compiled = World::new().compile(&text);
        assert!(compiled.errors() > 0, "{what}");
        let _ = compiled.render(loom_flow::HumanStyle::default());
        assert!(start.elapsed() < Duration::from_secs(20), "{what} took {:?}", start.elapsed());
    }
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
