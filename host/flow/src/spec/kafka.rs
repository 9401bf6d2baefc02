//! `kafka`: consumers and producers, as written.

use std::collections::BTreeMap;
use std::time::Duration;

use super::address::address_fault;
use super::cx::Cx;
use super::fields::{Field, Fields, example, items, named};
use super::values::{At, Text, Zero, boolean, count, millis, name, secret, text, word};
use crate::Mode;
use crate::issue::Code;
use crate::plan::{Delivery, OffsetReset, OutOfRange, Secret, Security, Tombstones};
use crate::reader::{Content, Scalar};
use crate::report::{Place, Problem};

/// The whole section.
#[derive(Debug)]
pub(crate) struct KafkaSpec {
    pub(crate) place: Place,
    /// `consumer` under the empty name, and those of `consumers`.
    pub(crate) consumers: Vec<ConsumerSpec>,
    /// The default.
    pub(crate) producer: Option<ProducerSpec>,
    /// By logical output name.
    pub(crate) producers: Vec<ProducerSpec>,
}

#[derive(Debug)]
pub(crate) struct ConsumerSpec {
    /// `consumer`, or the key under `consumers`.
    pub(crate) name: String,
    /// Whether it stands under `consumers`.
    pub(crate) named: bool,
    pub(crate) place: Place,
    pub(crate) brokers: Vec<String>,
    pub(crate) group_id: Option<Text>,
    /// None if they were not understood.
    pub(crate) topics: Option<At<Vec<Text>>>,
    pub(crate) delivery: Option<At<Delivery>>,
    /// Whether `delivery` is there at all, understood or not.
    pub(crate) says_delivery: bool,
    pub(crate) enable_auto_commit: Option<At<bool>>,
    pub(crate) auto_offset_reset: OffsetReset,
    pub(crate) offset_out_of_range: OutOfRange,
    pub(crate) tombstones: Tombstones,
    pub(crate) batch_size: usize,
    pub(crate) poll_backoff: Duration,
    pub(crate) commit_keepalive: Duration,
    pub(crate) security: Security,
    /// Whether a part of it is not known.
    pub(crate) security_open: bool,
    pub(crate) extra: Vec<ExtraSpec>,
}

impl ConsumerSpec {
    /// The mode: a set `delivery` wins, else the deprecated switch decides.
    pub(crate) fn delivery(&self) -> Delivery {
        let legacy = match self.enable_auto_commit {
            Some(At { value: false, .. }) => Delivery::AtLeastOnce,
            _ => Delivery::AtMostOnce,
        };
        self.delivery.as_ref().map_or(legacy, |at| at.value)
    }

    /// Its key in the file: `kafka.consumer` or `kafka.consumers.NAME`.
    pub(crate) fn key(&self) -> &str {
        &self.place.path
    }
}

#[derive(Debug)]
pub(crate) struct ProducerSpec {
    /// `producer`, or the key under `producers`.
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) brokers: Vec<String>,
    pub(crate) topic: Option<Text>,
    pub(crate) security: Security,
    /// Whether a part of it is not known.
    pub(crate) security_open: bool,
    pub(crate) compression: Option<String>,
    pub(crate) idempotence: bool,
    pub(crate) extra: Vec<ExtraSpec>,
}

/// A client setting that no field of ours manages.
#[derive(Debug)]
pub(crate) struct ExtraSpec {
    pub(crate) key: String,
    pub(crate) value: Text,
    pub(crate) key_place: Place,
}

/// The settings as the plan keeps them.
pub(crate) fn extra_map(extra: &[ExtraSpec]) -> BTreeMap<String, Secret> {
    extra.iter().map(|setting| (setting.key.clone(), Secret(setting.value.value.clone()))).collect()
}

pub(crate) fn kafka(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<KafkaSpec> {
    let mut fields = Fields::of(cx, field)?;
    let mut consumers = Vec::new();
    if let Some(field) = fields.take("consumer") {
        consumers.extend(consumer(cx, &field, false));
    }
    for field in fields.take("consumers").and_then(|field| named(cx, &field)).into_iter().flatten() {
        consumers.extend(consumer(cx, &field, true));
    }
    let default = fields.take("producer").and_then(|field| producer(cx, &field));
    let mut producers = Vec::new();
    for field in fields.take("producers").and_then(|field| named(cx, &field)).into_iter().flatten() {
        producers.extend(producer(cx, &field));
    }
    let place = fields.place.clone();
    fields.finish(cx, "`kafka`");
    Some(KafkaSpec { place, consumers, producer: default, producers })
}

fn consumer(cx: &mut Cx<'_>, field: &Field<'_>, is_named: bool) -> Option<ConsumerSpec> {
    let mut fields = Fields::of(cx, field)?;
    let place = fields.place.clone();
    let brokers = brokers(cx, &mut fields);
    let group_id = need(cx, &mut fields, "group_id").and_then(|field| name(cx, &field));
    let topics = need(cx, &mut fields, "topics").and_then(|field| topics(cx, &field));
    let modes = [("at_least_once", Delivery::AtLeastOnce), ("at_most_once", Delivery::AtMostOnce)];
    let resets = [("earliest", OffsetReset::Earliest), ("latest", OffsetReset::Latest)];
    let ranges = [("reset", OutOfRange::Reset), ("fail", OutOfRange::Fail)];
    let tombstones = [("skip", Tombstones::Skip), ("forward", Tombstones::Forward)];
    let mut millis_of = |key, zero, default| {
        let field = fields.take(key);
        field.and_then(|field| millis(cx, &field, zero)).unwrap_or(Duration::from_millis(default))
    };
    let poll_backoff = millis_of("poll_backoff_ms", Zero::Refused, 50);
    let commit_keepalive = millis_of("commit_keepalive_ms", Zero::Refused, 1_800_000);
    let says_delivery = fields.has("delivery");
    let delivery = fields.take("delivery").and_then(|field| word(cx, &field, &modes));
    let (security, security_open) = security(cx, &mut fields);
    let spec = ConsumerSpec {
        name: field.key.to_owned(),
        named: is_named,
        place,
        brokers,
        group_id,
        topics,
        enable_auto_commit: deprecated_auto_commit(cx, &mut fields, delivery.is_some()),
        delivery,
        says_delivery,
        auto_offset_reset: fields
            .take("auto_offset_reset")
            .and_then(|field| word(cx, &field, &resets))
            .map_or(OffsetReset::Earliest, |at| at.value),
        offset_out_of_range: fields
            .take("offset_out_of_range")
            .and_then(|field| word(cx, &field, &ranges))
            .map_or(OutOfRange::Reset, |at| at.value),
        tombstones: fields
            .take("tombstones")
            .and_then(|field| word(cx, &field, &tombstones))
            .map_or(Tombstones::Skip, |at| at.value),
        batch_size: fields.take("batch_size").and_then(|field| count(cx, &field)).unwrap_or(500),
        poll_backoff,
        commit_keepalive,
        security,
        security_open,
        extra: extra(cx, &mut fields),
    };
    deprecated_poll_timeout(cx, &mut fields);
    let what = format!("`{}`", field.path);
    fields.finish(cx, &what);
    Some(spec)
}

fn topics(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<At<Vec<Text>>> {
    let list = items(cx, field, "topics")?;
    Some(At { value: list.iter().filter_map(|item| text(cx, item)).collect(), place: field.place() })
}

fn deprecated_auto_commit(cx: &mut Cx<'_>, fields: &mut Fields<'_>, has_delivery: bool) -> Option<At<bool>> {
    let field = fields.take("enable_auto_commit")?;
    let at = boolean(cx, &field)?;
    let hint = match (has_delivery, at.value) {
        (true, _) => "remove it; `delivery` says all of it",
        (false, true) => "write `delivery: at_most_once`",
        (false, false) => "write `delivery: at_least_once`",
    };
    let problem = Problem::warning(Code::Deprecated, "`enable_auto_commit` is deprecated").hint(hint);
    cx.push(&field.key_place(), problem);
    Some(at)
}

fn deprecated_poll_timeout(cx: &mut Cx<'_>, fields: &mut Fields<'_>) {
    let Some(field) = fields.take("poll_timeout_ms") else { return };
    if millis(cx, &field, Zero::Allowed).is_some() {
        let problem = Problem::warning(Code::Deprecated, "`poll_timeout_ms` is deprecated and has no effect")
            .hint("remove it; `poll_backoff_ms` bounds the sleep after an empty poll");
        cx.push(&field.key_place(), problem);
    }
}

fn producer(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<ProducerSpec> {
    const COMPRESSIONS: [(&str, &str); 5] =
        [("none", "none"), ("gzip", "gzip"), ("snappy", "snappy"), ("lz4", "lz4"), ("zstd", "zstd")];
    let mut fields = Fields::of(cx, field)?;
    let brokers = brokers(cx, &mut fields);
    let topic = fields.take("topic").and_then(|field| name(cx, &field));
    let (security, security_open) = security(cx, &mut fields);
    let spec = ProducerSpec {
        name: field.key.to_owned(),
        place: fields.place.clone(),
        brokers,
        topic,
        security,
        security_open,
        compression: fields
            .take("compression")
            .and_then(|field| word(cx, &field, &COMPRESSIONS))
            .map(|at| at.value.to_owned()),
        idempotence: fields
            .take("idempotence")
            .and_then(|field| boolean(cx, &field))
            .is_none_or(|at| at.value),
        extra: extra(cx, &mut fields),
    };
    let what = format!("`{}`", field.path);
    fields.finish(cx, &what);
    Some(spec)
}

/// As [`Fields::need`], under the code of this section.
fn need<'n>(cx: &mut Cx<'_>, fields: &mut Fields<'n>, key: &'static str) -> Option<Field<'n>> {
    let field = fields.take(key);
    if field.is_none() {
        let problem = Problem::error(Code::KafkaConfigInvalid, format!("`{}` needs `{key}`", fields.path));
        let hint = example(key).map(|example| format!("write `{example}`"));
        cx.push(&fields.place, problem.maybe_hint(hint));
    }
    field
}

/// Bootstrap addresses. One item may hold several with commas between, since one variable usually does.
fn brokers(cx: &mut Cx<'_>, fields: &mut Fields<'_>) -> Vec<String> {
    let Some(field) = need(cx, fields, "brokers") else { return Vec::new() };
    let Some(list) = items(cx, &field, "addresses, such as `[\"localhost:9092\"]`") else {
        return Vec::new();
    };
    if list.is_empty() {
        cx.error(&field.place(), Code::KafkaConfigInvalid, format!("`{}` has no address", field.path));
    }
    let mut brokers = Vec::new();
    for item in list {
        let Some(text) = text(cx, &item) else { continue };
        let addresses: Vec<&str> =
            text.value.split(',').map(str::trim).filter(|address| !address.is_empty()).collect();
        let wrong = addresses.iter().find_map(|address| address_fault(address, text.open));
        if addresses.is_empty() || wrong.is_some() {
            let problem = Problem::error(Code::KafkaConfigInvalid, format!("`{}` is no address", text.shown));
            cx.push(&text.place, problem.maybe_hint(wrong.map(str::to_owned)));
        }
        brokers.extend(addresses.into_iter().map(str::to_owned));
    }
    brokers
}

/// How a client proves itself, and whether a part of that is not known.
fn security(cx: &mut Cx<'_>, fields: &mut Fields<'_>) -> (Security, bool) {
    const PROTOCOLS: [(&str, &str); 4] = [
        ("PLAINTEXT", "PLAINTEXT"),
        ("SSL", "SSL"),
        ("SASL_PLAINTEXT", "SASL_PLAINTEXT"),
        ("SASL_SSL", "SASL_SSL"),
    ];
    // Those that a name and a password are enough for.
    const MECHANISMS: [(&str, &str); 3] =
        [("PLAIN", "PLAIN"), ("SCRAM-SHA-256", "SCRAM-SHA-256"), ("SCRAM-SHA-512", "SCRAM-SHA-512")];
    let nothing = (Security::default(), false);
    let Some(field) = fields.take("security") else { return nothing };
    let place = field.key_place();
    let Some(mut fields) = Fields::of(cx, &field) else { return nothing };
    let protocol = fields.take("protocol");
    let mechanism = fields.take("sasl_mechanism");
    let username = fields.take("sasl_username");
    let password = fields.take("sasl_password");
    if let Some(field) = &password {
        cx.masks.push(field.node.span);
    }
    let what = format!("`{}`", fields.path);
    fields.finish(cx, &what);
    if cx.options.mode == Mode::Dev {
        // No client will connect; a secret that is not asked for cannot be missing, nor leak.
        return nothing;
    }
    let sasl = [("sasl_mechanism", &mechanism), ("sasl_username", &username), ("sasl_password", &password)];
    login(cx, &place, protocol.as_ref(), &sasl);
    let written = [&protocol, &mechanism, &username, &password].map(Option::is_some);
    // A name is no secret unless it comes from a file: errors of brokers are to say who was refused.
    let username = username.and_then(|field| part_of_login(cx, &field, text));
    let password = password.and_then(|field| part_of_login(cx, &field, secret));
    if let Some(password) = &password {
        cx.keep_secret(&password.value);
    }
    let protocol = protocol.and_then(|field| word(cx, &field, &PROTOCOLS)).map(|at| at.value.to_owned());
    let mechanism = mechanism.and_then(|field| word(cx, &field, &MECHANISMS)).map(|at| at.value.to_owned());
    let known = |text: &Option<Text>| text.as_ref().is_some_and(|text| !text.open);
    let open = written != [protocol.is_some(), mechanism.is_some(), known(&username), known(&password)];
    let security = Security {
        protocol,
        sasl_mechanism: mechanism,
        sasl_username: username.map(|name| name.value),
        sasl_password: password.map(|password| Secret(password.value)),
    };
    (security, open)
}

/// A user or a password: the client takes an empty one for none, and a broker tells nobody why it refuses it.
fn part_of_login(
    cx: &mut Cx<'_>,
    field: &Field<'_>,
    read: fn(&mut Cx<'_>, &Field<'_>) -> Option<Text>,
) -> Option<Text> {
    let text = read(cx, field)?;
    if text.value.trim().is_empty() {
        let problem = Problem::error(Code::ValueInvalid, format!("`{}` must not be empty", field.key));
        let hint = text.sealed.then(|| format!("`{}` gives nothing, or nothing but blanks", text.shown));
        cx.push(&text.place, problem.maybe_hint(hint));
        return None;
    }
    Some(text)
}

/// Whether a client's setting is a path, which lies beside the flow as all paths in it. `probe` has the client search.
fn names_a_file(key: &str, value: &str) -> bool {
    key.starts_with("ssl.") && key.ends_with(".location") && !value.is_empty() && value != "probe"
}

/// A login needs all of its keys, and a protocol that asks for one: a client without them fails late, or connects without.
fn login(
    cx: &mut Cx<'_>,
    security: &Place,
    protocol: Option<&Field<'_>>,
    sasl: &[(&str, &Option<Field<'_>>)],
) {
    let logs_in = match protocol.map(|field| &field.node.content) {
        None => false,
        Some(Content::Scalar(Scalar { text, .. })) if text.starts_with("SASL_") => true,
        Some(Content::Scalar(Scalar { text, .. })) if text == "PLAINTEXT" || text == "SSL" => false,
        // What it will be is not known here, or was reported.
        Some(_) => return,
    };
    if logs_in {
        for (key, _) in sasl.iter().filter(|(_, field)| field.is_none()) {
            let message = format!("`security` names a protocol with a login, and no `{key}`");
            cx.push(security, Problem::error(Code::MissingKey, message).hint(format!("add `{key}: …`")));
        }
        return;
    }
    if let Some(field) = sasl.iter().find_map(|(_, field)| field.as_ref()) {
        let message = format!("`{}` has no effect: the protocol has no login", field.key);
        let problem = Problem::error(Code::KafkaConfigInvalid, message)
            .hint("add `protocol: SASL_SSL` (or `SASL_PLAINTEXT`), or remove the login");
        cx.push(&field.key_place(), problem);
    }
}

fn extra(cx: &mut Cx<'_>, fields: &mut Fields<'_>) -> Vec<ExtraSpec> {
    let mut settings = Vec::new();
    for field in fields.take("extra").and_then(|field| named(cx, &field)).into_iter().flatten() {
        if is_secret(field.key) {
            cx.masks.push(field.node.span);
        }
        let Some(mut value) = secret(cx, &field) else { continue };
        if is_secret(field.key) {
            cx.keep_secret(&value.value);
        }
        if names_a_file(field.key, &value.value) && !value.open {
            value.value = cx.dir.join(&value.value).to_string_lossy().into_owned();
        }
        settings.push(ExtraSpec { key: field.key.to_owned(), value, key_place: field.key_place() });
    }
    settings
}

/// Whether a client setting holds a secret, by its name.
fn is_secret(key: &str) -> bool {
    ["password", "secret", "pem", "token", "sasl."].iter().any(|part| key.contains(part))
}
