//! Mutated flows: whatever the bytes are, compiling ends, soon, with a plan or with an error.

use std::time::Duration;

use proptest::prelude::{ProptestConfig, any, prop, prop_oneof, proptest};
use proptest::strategy::{Just, Strategy};

use crate::support::{Stopwatch, World, around_with};

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
        let watch = Stopwatch::start();
        let compiled = World::new().compile_bytes(&bytes);
        for issue in &compiled.issues {
            assert!(issue.at.line >= 1 && issue.at.column >= 1 && !issue.message.is_empty());
        }
        let _ = compiled.render(loom_flow::HumanStyle::default());
        assert!(watch.took() < Duration::from_secs(5), "it took {:?}", watch.took());
    }
}
