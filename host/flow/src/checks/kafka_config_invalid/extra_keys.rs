//! A client setting under `extra` that is not the flow's to make, or that the client does not know or refuses; and settings
//! that are fine one by one, and with which the client would not start.
//!
//! What a key means is not known here: the client's own side is asked. A value is shown only in the client's words, and
//! then without what came from outside or sounds like a secret.

use crate::Mode;
use crate::ask::{ClientKind, ClientSettings, KafkaKeys, KeyRefusal};
use crate::checks::Checks;
use crate::issue::Code;
use crate::plan::Security;
use crate::report::{Place, Problem};
use crate::spec::{ConsumerSpec, ExtraSpec, ProducerSpec, nearest};

pub(super) fn check(checks: &mut Checks<'_>, keys: &dyn KafkaKeys, mode: Mode) {
    let Some(kafka) = &checks.flow.kafka else { return };
    let clients: Vec<Client<'_>> = (kafka.consumers.iter().map(Client::reads))
        .chain(kafka.producer.iter().chain(&kafka.producers).map(Client::writes))
        .collect();
    for client in clients {
        // Without Kafka no client starts, and its files and passwords need not be there.
        if each(checks, keys, &client) && mode != Mode::Dev {
            together(checks, keys, &client);
        }
    }
}

/// A consumer or producer of the flow.
struct Client<'f> {
    kind: ClientKind,
    place: &'f Place,
    security: &'f Security,
    /// Whether a part of `security` is not known.
    security_open: bool,
    extra: &'f [ExtraSpec],
    consumer: Option<&'f ConsumerSpec>,
    producer: Option<&'f ProducerSpec>,
}

impl<'f> Client<'f> {
    fn reads(spec: &'f ConsumerSpec) -> Client<'f> {
        Client {
            kind: ClientKind::Consumer,
            place: &spec.place,
            security: &spec.security,
            security_open: spec.security_open,
            extra: &spec.extra,
            consumer: Some(spec),
            producer: None,
        }
    }

    fn writes(spec: &'f ProducerSpec) -> Client<'f> {
        Client {
            kind: ClientKind::Producer,
            place: &spec.place,
            security: &spec.security,
            security_open: spec.security_open,
            extra: &spec.extra,
            consumer: None,
            producer: Some(spec),
        }
    }
}

/// Reports what is wrong with each setting alone. Says whether nothing is.
fn each(checks: &mut Checks<'_>, keys: &dyn KafkaKeys, client: &Client<'_>) -> bool {
    let mut fine = true;
    for setting in client.extra {
        let key = setting.key.as_str();
        let Err(refusal) = keys.check(client.kind, key, &setting.value.value) else { continue };
        let own = matches!(refusal, KeyRefusal::Managed(_) | KeyRefusal::Forbidden(_));
        let message = match refusal {
            // Whether a value fits is not known as long as it is a reference without one.
            KeyRefusal::Refused(_) | KeyRefusal::OutOfBounds(_) if setting.value.open => continue,
            KeyRefusal::Unknown => format!("the Kafka client knows no setting `{key}`"),
            KeyRefusal::Managed(why) => format!("`{key}` is managed: {why}"),
            KeyRefusal::Forbidden(why) => format!("`{key}` cannot be set: {why}"),
            KeyRefusal::OutOfBounds(why) => format!("`{key}` cannot have this value: {why}"),
            KeyRefusal::Refused(why) => {
                let why = checks.outside.redact(&why);
                format!("the Kafka client refuses `{key}` for a {}: {why}", client.kind.name())
            }
        };
        fine = false;
        let hint = match own {
            true => Some("remove it from `extra`".to_owned()),
            false => nearest_key(keys, key),
        };
        let problem = Problem::error(Code::KafkaConfigInvalid, message).maybe_hint(hint);
        checks.report.push(&setting.key_place, problem);
    }
    fine
}

/// The key that is meant by one that the client does not know.
fn nearest_key(keys: &dyn KafkaKeys, key: &str) -> Option<String> {
    let known = keys.known();
    if known.contains(&key) {
        return None;
    }
    nearest(key, known).map(|near| format!("did you mean `{near}`?"))
}

/// Reports why the client would not start with all that is set.
fn together(checks: &mut Checks<'_>, keys: &dyn KafkaKeys, client: &Client<'_>) {
    let about_security =
        |setting: &ExtraSpec| ["ssl.", "enable.ssl."].iter().any(|part| setting.key.starts_with(part));
    let (secure, other): (Vec<&ExtraSpec>, Vec<&ExtraSpec>) =
        client.extra.iter().partition(|setting| about_security(setting));
    // A value that is not known may be the one that makes the others right.
    if other.iter().any(|setting| setting.value.open) {
        return;
    }
    let nothing = Security::default();
    let open = client.security_open || secure.iter().any(|setting| setting.value.open);
    let (security, secure) = if open { (&nothing, Vec::new()) } else { (client.security, secure) };
    let extra = secure.into_iter().chain(other);
    let settings = ClientSettings {
        client: client.kind,
        security,
        compression: client.producer.and_then(|producer| producer.compression.as_deref()),
        idempotence: client.producer.is_none_or(|producer| producer.idempotence),
        prefetch: checks.flow.runtime.prefetch,
        poll_backoff: client.consumer.map(|consumer| consumer.poll_backoff).unwrap_or_default(),
        extra: extra.map(|setting| (setting.key.as_str(), setting.value.value.as_str())).collect(),
    };
    let Err(why) = keys.check_all(&settings) else { return };
    let named: Vec<&str> = why.split('`').skip(1).step_by(2).collect();
    let is_named = |setting: &&ExtraSpec| {
        let longer = |name: &&str| setting.key.strip_prefix(*name).is_some_and(|rest| rest.starts_with('.'));
        named.iter().any(|name| *name == setting.key || longer(name)) || why.contains(&setting.key)
    };
    let place = client.extra.iter().find(is_named).map_or(client.place, |setting| &setting.key_place);
    let why = checks.outside.redact(&why);
    let message = format!("the Kafka client would not start as a {}: {why}", client.kind.name());
    checks.report.push(place, Problem::error(Code::KafkaConfigInvalid, message));
}
