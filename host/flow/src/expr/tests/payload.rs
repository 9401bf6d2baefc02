//! Decoding: when, how often, and against serde_json.

use std::collections::BTreeMap;

use loom_types::{BytesBuilder, Changes};
use proptest::prelude::*;

use super::super::tape::{Kind, Tape, unescape};
use super::super::{EvalError, Mapped, PayloadCache, Scope};
use super::{batch, compile, table, value, with};

#[test]
fn only_what_reads_the_payload_minds_what_it_is() {
    for text in
        ["msg.partition == 3", "msg.partition == 3 || payload.x", "msg.partition == 4 ? payload.x : true"]
    {
        assert_eq!(with(Some(b"\xff not json"), |scope| compile(text).test(scope)), Ok(true), "{text}");
    }
    assert!(!compile("msg.partition == 3").reads_payload());
    assert!(compile("msg.partition == 3 || payload.x").reads_payload());
    table(&[
        ("payload.a", "{\"a\":1", "wire: the payload is not JSON: it ends inside a value at byte 6"),
        ("payload.a", "", "wire: the payload is not JSON: it is empty at byte 0"),
        ("payload.a", "  ", "wire: the payload is not JSON: it is blank at byte 2"),
        ("payload.a", "{\"a\":1} x", "wire: the payload is not JSON: text after the end at byte 8"),
        ("payload.a == 1", "{'a':1}", "wire: the payload is not JSON: expected a key in quotes at byte 1"),
        // Not JSON is not a task error that another side could outweigh.
        ("payload.a == 1 || true", "nul", "wire: the payload is not JSON: expected a value at byte 0"),
        (
            "payload.a",
            "[\"\u{1}\"]",
            "wire: the payload is not JSON: a control character in a string at byte 2",
        ),
    ]);
    let deep = format!("{}{}", "[".repeat(129), "]".repeat(129));
    assert!(value("payload", &deep).starts_with("wire: the payload is nested deeper than 128 levels"));
    assert_eq!(value("payload", &deep[1..257]), deep[1..257]);
}

#[test]
fn a_tombstone_is_null() {
    let json = |text: &str| {
        with(None, |scope| {
            let mut out = Vec::new();
            let mapped = compile(text).json(scope, &mut out);
            (mapped, String::from_utf8(out).unwrap())
        })
    };
    assert_eq!(json("payload"), (Ok(Mapped::Tombstone), String::new()));
    assert_eq!(json("payload == null ? payload : 1"), (Ok(Mapped::Tombstone), String::new()));
    assert_eq!(json("[payload]"), (Ok(Mapped::Json), "[null]".to_owned()));
    assert_eq!(json("null"), (Ok(Mapped::Json), "null".to_owned()));
    assert_eq!(json("payload == null"), (Ok(Mapped::Json), "true".to_owned()));
    let missing = "`payload.a` is missing: the record has no payload (a tombstone) (in `payload.a`)";
    assert_eq!(json("payload.a").0, Err(EvalError::Task(missing.to_owned())));
}

#[test]
fn selections_of_a_batch_share_what_was_decoded_and_new_columns_do_not() {
    let env = BTreeMap::new();
    let mut cache = PayloadCache::new();
    let all = batch(&[Some(b"{\"a\":1}"), Some(b"oops"), Some(b"{\"a\":3}")]);
    let some = all.select(&[2, 1]);
    let mut payload = BytesBuilder::new();
    payload.push(Some(b"{\"a\":5}")).unwrap();
    payload.push(Some(b"{\"a\":6}")).unwrap();
    let changed = some.clone().with(Changes { payload: Some(payload.finish()), ..Changes::default() });
    let expr = compile("payload.a");
    let mut read = |batch: &loom_types::Batch, row| {
        let mut out = Vec::new();
        let mapped = expr.json(&mut Scope::new(batch, row, &env, &mut cache), &mut out);
        mapped.map(|_| String::from_utf8(out).unwrap()).map_err(|_| ())
    };
    for _ in 0..2 {
        assert_eq!(read(&all, 0).as_deref(), Ok("1"));
        assert_eq!(read(&some, 0).as_deref(), Ok("3"));
        assert_eq!(read(&some, 1), Err(()));
        assert_eq!(read(&all, 1), Err(()));
        assert_eq!(read(&changed, 0).as_deref(), Ok("5"));
        assert_eq!(read(&changed, 1).as_deref(), Ok("6"));
    }
    assert_eq!(cache.decoded(), 5, "three rows of the first column, two of the other, each once");
    cache.clear();
    assert_eq!(cache.decoded(), 0);
}

#[test]
fn more_columns_than_are_remembered() {
    let env = BTreeMap::new();
    let mut cache = PayloadCache::new();
    let expr = compile("payload.n");
    let batches: Vec<_> = (0..20).map(|n| batch(&[Some(format!("{{\"n\":{n}}}").as_bytes())])).collect();
    for _ in 0..2 {
        for (n, batch) in batches.iter().enumerate() {
            let mut out = Vec::new();
            let mapped = expr.json(&mut Scope::new(batch, 0, &env, &mut cache), &mut out);
            assert_eq!((mapped, out), (Ok(Mapped::Json), n.to_string().into_bytes()));
        }
    }
}

/// A tape's value as serde_json's, by way of the text that each entry spans.
fn rebuild(tape: &Tape, text: &str, at: u32) -> serde_json::Value {
    let entry = tape.entry(at);
    let raw = &text[entry.start as usize..entry.end as usize];
    match entry.kind {
        Kind::Null => serde_json::Value::Null,
        Kind::True => true.into(),
        Kind::False => false.into(),
        Kind::Integer | Kind::Fraction => serde_json::from_str(raw).unwrap(),
        Kind::Plain => raw.into(),
        Kind::Escaped => unescape(raw).into(),
        Kind::Array => {
            let mut items = Vec::new();
            let mut next = at + 1;
            while next < entry.next {
                items.push(rebuild(tape, text, next));
                next = tape.entry(next).next;
            }
            items.into()
        }
        Kind::Object => {
            let mut members = serde_json::Map::new();
            let mut next = at + 1;
            while next < entry.next {
                let serde_json::Value::String(key) = rebuild(tape, text, next) else {
                    panic!("a key is a string")
                };
                members.insert(key, rebuild(tape, text, next + 1));
                next = tape.entry(next + 1).next;
            }
            members.into()
        }
    }
}

fn agree(text: &[u8]) -> Result<(), TestCaseError> {
    let mut tape = Tape::default();
    // A value before it, so that places are not all zero-based.
    tape.decode(b"[1,{\"a\":2}]").unwrap();
    let ours = tape.decode(text);
    let theirs = serde_json::from_slice::<serde_json::Value>(text);
    match (&ours, theirs) {
        (Ok(root), Ok(theirs)) => {
            prop_assert_eq!(rebuild(&tape, std::str::from_utf8(text).unwrap(), *root), theirs);
        }
        // Only serde_json refuses a number that is too large; ours keeps its digits.
        (Ok(_), Err(error)) if error.to_string().starts_with("number out of range") => {}
        (Ok(_), Err(error)) => prop_assert!(false, "only ours takes {:?}: {}", text, error),
        (Err(error), Ok(_)) => prop_assert!(false, "only serde_json takes {:?}: {}", text, error),
        (Err(_), Err(_)) => {}
    }
    Ok(())
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            proptest::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn documents_decode_as_serde_json_decodes_them(document in json(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) };
        agree(text.unwrap().as_bytes())?;
    }

    #[test]
    fn damaged_documents_are_taken_or_refused_alike(
        document in json(),
        at in any::<prop::sample::Index>(),
        byte in prop_oneof![any::<u8>(), prop::sample::select(br#"{}[]",:\ue+-.019tfn "#.to_vec())],
        removed in 0..3_usize,
    ) {
        let mut text = serde_json::to_vec(&document).unwrap();
        let place = at.index(text.len());
        let end = (place + removed).min(text.len());
        text.splice(place..end, [byte]);
        agree(&text)?;
    }

    #[test]
    fn texts_of_json_pieces_are_taken_or_refused_alike(
        pieces in proptest::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"\\u00e9\"", "\"\\ud83d\\ude00\"", "\"\\ud83d\"", "\"\\n\"",
            "1", "-", "0", "01", "1.5", "1.", "1e", "1e5", "-0", "true", "nul", "null", " ", "\n", "\t", "\\", "\"",
        ]), 0..9)
    ) {
        agree(pieces.concat().as_bytes())?;
    }

    #[test]
    fn what_passes_through_is_the_same_document(document in json()) {
        let text = serde_json::to_string_pretty(&document).unwrap();
        let compact = serde_json::to_string(&document).unwrap();
        prop_assert_eq!(value("payload", &text), compact.clone());
        prop_assert_eq!(value("[payload, {'x': payload}]", &text), format!("[{compact},{{\"x\":{compact}}}]"));
        prop_assert_eq!(value("payload == payload && !(payload != payload)", &text), "true");
    }
}
