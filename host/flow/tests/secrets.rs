//! Interpolation as a flow sees it, and that nothing that came from outside is ever shown.

use loom_flow::{Code, Compiled, HumanStyle, Mode, Severity, to_json};

use crate::support::{World, around, errors, warnings};

const CANARY: &str = "canary-4711";

fn shown(compiled: &Compiled) -> String {
    let human = compiled.render(HumanStyle::default());
    format!("{human}\n{}\n{compiled:?}", to_json(&compiled.issues))
}

#[test]
fn a_missing_file_is_named_as_written() {
    let text = around("[ drain ]")
        .replace("group_id: g", "group_id: g, security: { protocol: SASL_SSL, sasl_mechanism: PLAIN, sasl_username: u, sasl_password: \"${file:no/such}\" }");
    let compiled = World::new().compile(&text);
    assert_eq!(warnings(&compiled), ["VARIABLE_UNSET kafka.consumer.security.sasl_password"]);
    assert!(compiled.issues[0].message.contains("${file:no/such}"), "{compiled:?}");
    let compiled = World::new().mode(Mode::Run).compile(&text);
    assert_eq!(errors(&compiled), ["VARIABLE_UNSET kafka.consumer.security.sasl_password"]);
}

#[test]
fn a_value_that_breaks_a_rule_is_never_shown() {
    let world = World::new().var("X", CANARY).file("secret", CANARY.as_bytes());
    for reference in ["${X}", "${file:secret}"] {
        for (place, replaced) in [
            ("batch_size", format!("topics: [in], batch_size: \"{reference}\"")),
            ("delivery", format!("topics: [in], auto_offset_reset: \"{reference}\"")),
            ("topics", format!("topics: [\"!{reference}\"]")),
            ("protocol", format!("topics: [in], security: {{ protocol: \"{reference}\" }}")),
            ("extra", format!("topics: [in], extra: {{ fetch.min.bytes: \"{reference}\" }}")),
        ] {
            let compiled = world.compile(&around("[ drain ]").replace("topics: [in]", &replaced));
            assert!(compiled.errors() > 0, "{place}");
            assert!(!shown(&compiled).contains(CANARY), "{place}: {}", shown(&compiled));
        }
        for process in [
            format!("[ {{ into_topic: \"${reference}/\" }} ]"),
            format!("[ {{ into_topic: \"{reference}/\" }} ]"),
            format!("[ {{ step: \"{reference}\" }}, drain ]"),
            format!("[ {{ step: s, timeout: \"{reference}\" }}, drain ]"),
        ] {
            let compiled = world.compile(&around(&process));
            assert!(compiled.errors() > 0, "{process}");
            assert!(!shown(&compiled).contains(CANARY), "{process}: {}", shown(&compiled));
        }
    }
}

#[test]
fn a_plan_shows_no_secret() {
    let world = World::new().mode(Mode::Run).var("X", CANARY).file("secret", CANARY.as_bytes());
    let text = around("[ { step: s }, { filter: env.X == payload.x }, { into_topic: a } ]")
        .replace(
            "group_id: g",
            "group_id: g, security: { protocol: SASL_SSL, sasl_mechanism: PLAIN, sasl_username: \"${X}\", sasl_password: \"${file:secret}\" }, extra: { ssl.key.password: \"${X}\" }",
        )
        .replace(
            "component: step.wasm",
            "component: step.wasm, config: { token: \"${X}\", deep: [ \"${file:secret}\" ] }, allow: { env: [X] }",
        );
    let compiled = world.compile(&text);
    assert!(!shown(&compiled).contains(CANARY), "{}", shown(&compiled));
    let plan = compiled.plan.as_ref().expect("a plan");
    assert_eq!(plan.plugins[0].config["token"], CANARY);
    assert_eq!(plan.plugins[0].config_written["token"], "${X}");
    assert_eq!(plan.env["X"], CANARY);
    assert_eq!(compiled.redact(&format!("refused {CANARY}!")), "refused ***!");
}

#[test]
fn a_password_in_the_file_is_masked_in_excerpts() {
    let inline = around("[ drain ]").replace(
        "group_id: g",
        &format!("group_id: g, security: {{ protocol: X, sasl_password: {CANARY} }}, batch_size: 0"),
    );
    let compiled = World::new().compile(&inline);
    assert_eq!(compiled.errors(), 2);
    assert!(!shown(&compiled).contains(CANARY), "{}", shown(&compiled));
    let broken =
        format!("kafka:\n  consumer:\n    security:\n      sasl_password: {CANARY}\n    topics: [\n  }}\n");
    let compiled = World::new().compile(&broken);
    assert!(compiled.errors() > 0);
    assert!(!shown(&compiled).contains(CANARY), "{}", shown(&compiled));
}

#[test]
fn a_value_never_changes_the_structure() {
    let yaml = "a: [1]\n- \"x': {b: 2}";
    let world = World::new().mode(Mode::Run).var("X", yaml).var("N", "7").var("T", "150ms");
    let text = around("[ { step: s, timeout: \"${T}\" }, drain ]")
        .replace(
            "component: step.wasm",
            "component: step.wasm, config: { x: \"${X}\", n: \"${N}\", number: 7 }",
        )
        .replace("topics: [in]", "topics: [in], batch_size: \"${N}\"");
    let plan = world.plan(&text);
    assert_eq!(plan.plugins[0].config, serde_json::json!({ "x": yaml, "n": "7", "number": 7 }));
    assert_eq!(plan.consumer.batch_size, 7);
}

#[test]
fn an_unset_name_is_a_warning_to_check_and_an_error_to_run() {
    for (text, path) in [
        (around("[ drain ]").replace("group_id: g", "group_id: \"${NONE}\""), "kafka.consumer.group_id"),
        (around("[ { filter: env.NONE == 'x' }, drain ]"), "process[0].filter"),
    ] {
        let unset = format!("VARIABLE_UNSET {path}");
        let compiled = World::new().compile(&text);
        assert!(warnings(&compiled).contains(&unset) && compiled.plan.is_some(), "{compiled:?}");
        let mut strict = World::new();
        strict.options.require_env = true;
        assert_eq!(errors(&strict.compile(&text)), [unset.as_str()]);
        for mode in [Mode::Run, Mode::Dev] {
            assert_eq!(errors(&World::new().mode(mode).compile(&text)), [unset.as_str()]);
        }
    }
}

#[test]
fn dev_never_asks_for_the_security_of_kafka() {
    let text = around("[ { into_topic: a } ]")
        .replace(
            "group_id: g",
            "group_id: g, security: { protocol: \"${P}\", sasl_password: \"${file:none}\" }",
        )
        .replace("producer: {", "producer: { security: { sasl_username: \"${NONE}\", sasl_pasword: x },");
    let compiled = World::new().mode(Mode::Dev).compile(&text);
    assert_eq!(errors(&compiled), ["UNKNOWN_KEY kafka.producer.security.sasl_pasword"]);
    let plan = World::new().mode(Mode::Dev).plan(&text.replace(", sasl_pasword: x", ""));
    assert_eq!(plan.consumer.security, loom_flow::plan::Security::default());
}

#[test]
fn an_expression_is_never_interpolated() {
    let compiled =
        World::new().var("X", "1").compile(&around("[ { filter: \"payload.a == ${X}\" }, drain ]"));
    assert_eq!(errors(&compiled), ["EXPRESSION_INVALID process[0].filter"]);
    let hints =
        compiled.issues.iter().filter(|issue| issue.code == Code::ExpressionInvalid).map(|issue| &issue.hint);
    assert!(hints.flatten().any(|hint| hint.contains("env.X")), "{compiled:?}");
}

#[test]
fn what_is_no_reference_is_an_issue_and_an_escape_is_none() {
    for (text, wrong) in [("${}", true), ("${a b}", true), ("${A", true), ("$${A}", false), ("$A", false)] {
        let flow = around("[ { step: s }, drain ]")
            .replace("component: step.wasm", &format!("component: step.wasm, config: {{ x: \"{text}\" }}"));
        let compiled = World::new().compile(&flow);
        let found = compiled
            .issues
            .iter()
            .any(|issue| issue.code == Code::InterpolationInvalid && issue.severity == Severity::Error);
        assert_eq!(found, wrong, "{text}: {compiled:?}");
    }
}

#[test]
fn a_user_s_name_is_shown_unless_it_comes_from_a_file() {
    let flow = |name: &str| {
        let security = format!(
            "group_id: g, security: {{ protocol: SASL_SSL, sasl_mechanism: PLAIN, sasl_username: \"{name}\", sasl_password: \"${{P}}\" }}"
        );
        around("[ drain ]").replace("group_id: g", &security)
    };
    let world = World::new().var("U", "orders-service").var("P", CANARY).file("user", b"orders-service");
    let said = "orders-service may not read topic orders-service";
    for shown in ["orders-service", "${U}"] {
        assert_eq!(world.compile(&flow(shown)).redact(said), said);
    }
    assert_eq!(world.compile(&flow("${file:user}")).redact(said), "*** may not read topic ***");
}

#[test]
fn a_broker_can_be_named_and_a_password_cannot() {
    let text = around("[ drain ]").replace(
        "brokers: [localhost:9092], group_id: g",
        "brokers: [\"${B}\"], group_id: g, security: { protocol: SASL_SSL, sasl_mechanism: PLAIN, sasl_username: u, sasl_password: \"${P}\" }",
    );
    let compiled = World::new().var("B", "kafka-1:9092").var("P", CANARY).compile(&text);
    let said = format!("kafka-1:9092 does not answer to {CANARY}");
    assert_eq!(compiled.redact(&said), "kafka-1:9092 does not answer to ***");
}

#[test]
fn of_secrets_that_are_parts_of_each_other_nothing_is_shown() {
    let login = |password: &str| {
        format!(
            "security: {{ protocol: SASL_SSL, sasl_mechanism: PLAIN, sasl_username: u, sasl_password: {password} }}"
        )
    };
    let text = around("[ { into_topic: a } ]")
        .replace("group_id: g", &format!("group_id: g, {}", login("\"${SHORT}\"")))
        .replace("producer: {", &format!("producer: {{ {},", login("\"${LONG}\"")));
    for (short, long) in [("canary-4711", "canary-4711-tail"), ("4711-tail", "canary-4711-tail")] {
        for (one, other) in [(short, long), (long, short)] {
            let compiled = World::new().var("SHORT", one).var("LONG", other).compile(&text);
            let said = compiled.redact(&format!("{long} and {short} are refused: {long}{short}"));
            assert_eq!(said, "*** and *** are refused: ***");
            // A process that has read two flows, as `dev --watch` has.
            let flows =
                [one, other].map(|value| World::new().var("SHORT", value).var("LONG", value).compile(&text));
            assert_eq!(Compiled::redact_all(&flows, &format!("<{long}>")), "<***>");
        }
    }
}
