//! What a flow says of Kafka clients: keys of `extra`, addresses, users and passwords.

use loom_flow::{Code, Mode};

use crate::support::{World, around, errors};

#[test]
fn what_extra_may_not_set_is_told_by_the_reason_at_its_key() {
    let found = |extra: &str| {
        let text =
            around("[ drain ]").replace("topics: [in]", &format!("topics: [in], extra: {{ {extra} }}"));
        let mut issues = World::new().compile(&text).issues;
        assert_eq!(issues.len(), 1, "{extra}: {issues:?}");
        assert_eq!(issues[0].code, Code::KafkaConfigInvalid);
        issues.remove(0)
    };
    for (extra, path, message, hint) in [
        ("group.id: x", "group.id", "`group.id` is managed: the field", Some("remove it from `extra`")),
        (
            "queuing.strategy: lifo",
            "queuing.strategy",
            "`queuing.strategy` cannot be set: records would be",
            Some("remove it from `extra`"),
        ),
        (
            "fetch.min.byte: 1",
            "fetch.min.byte",
            "the Kafka client knows no",
            Some("did you mean `fetch.min.bytes`?"),
        ),
        ("linger.ms: \"\"", "linger.ms", "`linger.ms` cannot have this value: it is empty", None),
        ("linger.ms: x", "linger.ms", "the Kafka client refuses `linger.ms` for a consumer: Invalid", None),
        (
            "fetch.min.bytes: 7, fetch.max.bytes: 7",
            "fetch.min.bytes",
            "the Kafka client would not start as a consumer: `fetch.max.bytes` must",
            None,
        ),
        ("ssl.key.location: no-such.pem", "ssl.key.location", "the Kafka client would not start", None),
    ] {
        let issue = found(extra);
        assert!(issue.message.starts_with(message), "{issue:?}");
        assert_eq!(issue.path, format!("kafka.consumer.extra[{path:?}]"));
        assert_eq!(issue.hint.as_deref(), hint, "{issue:?}");
    }
}

#[test]
fn settings_are_tried_together_as_far_as_they_are_known_and_where_a_client_starts() {
    let of = |mode: Mode, extra: &str| {
        let text = around("[ drain ]").replace("producer: {", &format!("producer: {{ extra: {{ {extra} }},"));
        World::new().mode(mode).compile(&text).errors()
    };
    let wrong = "fetch.min.bytes: 7, fetch.max.bytes: 7";
    assert_eq!((of(Mode::Check, wrong), of(Mode::Run, wrong), of(Mode::Dev, wrong)), (1, 1, 0));
    assert_eq!(
        of(Mode::Check, &format!("{wrong}, linger.ms: \"${{X}}\"")),
        0,
        "it may be the cause, or the cure"
    );
    assert_eq!(
        of(Mode::Check, &format!("{wrong}, ssl.key.password: \"${{X}}\"")),
        1,
        "it is about TLS alone"
    );
    let file = "ssl.key.location: no-such.pem";
    assert_eq!((of(Mode::Check, file), of(Mode::Run, file), of(Mode::Dev, file)), (1, 1, 0));
    assert_eq!(of(Mode::Check, &format!("{file}, ssl.key.password: \"${{X}}\"")), 0);
    let text = around("[ drain ]").replace(
        "group_id: g",
        &format!("group_id: g, extra: {{ {file} }}, security: {{ protocol: \"${{P}}\" }}"),
    );
    assert_eq!(World::new().compile(&text).errors(), 0, "whether TLS is spoken is not known");
}

#[test]
fn an_address_with_a_scheme_and_a_printed_list_are_none() {
    let found = |brokers: &str| {
        let compiled = World::new()
            .var("URL", "ssl://kafka:9093")
            .var("LIST", "['a:9092', 'b:9092']")
            .var("TWO", "a:9092,b:9092")
            .compile(&around("[ drain ]").replace(
                "consumer: { brokers: [localhost:9092]",
                &format!("consumer: {{ brokers: {brokers}"),
            ));
        compiled
            .issues
            .iter()
            .map(|issue| format!("{} {}", issue.code, issue.hint.clone().unwrap_or_default()))
            .collect::<String>()
    };
    for fine in ["[\"a:9092,b:9092\"]", "[\"${TWO}\"]", "[a, \"b:1\"]", "[\"[::1]:9092\"]"] {
        assert_eq!(found(fine), "", "{fine}");
    }
    for (scheme, word) in [
        ("[\"http://kafka:9092\"]", "scheme"),
        ("[\"SSL://kafka:9093\"]", "scheme"),
        ("[\"a:9092,ssl://kafka:9093\"]", "scheme"),
        ("[\"${URL}\"]", "scheme"),
        ("[\"ssl://${HOST}:9093\"]", "scheme"),
        ("[\"['host:9092']\"]", "printed"),
        ("[\"[host:9092]\"]", "printed"),
        ("[\"${LIST}\"]", "printed"),
        ("[\"['${HOST}']\"]", "printed"),
    ] {
        let found = found(scheme);
        assert!(found.contains("KAFKA_CONFIG_INVALID") && found.contains(word), "{scheme}: {found}");
    }
}

#[test]
fn a_user_and_a_password_are_not_empty() {
    let found = |user: &str, password: &str| {
        let security = format!(
            "group_id: g, security: {{ protocol: SASL_SSL, sasl_mechanism: PLAIN, sasl_username: {user}, sasl_password: {password} }}"
        );
        errors(
            &World::new()
                .var("E", "")
                .file("empty", b"\n")
                .compile(&around("[ drain ]").replace("group_id: g", &security)),
        )
    };
    let at = |key: &str| format!("VALUE_INVALID kafka.consumer.security.{key}");
    for empty in ["\"\"", "\" \"", "\"${E}\"", "\"${E:-}\"", "\"${NONE:-}\"", "\"${file:empty}\""] {
        assert_eq!(found(empty, "p"), [at("sasl_username")], "{empty}");
        assert_eq!(found("u", empty), [at("sasl_password")], "{empty}");
    }
    assert!(found("u", "\"${NONE:-p}\"").is_empty());
}
