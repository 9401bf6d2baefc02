//! What a client says about itself on its own queue: errors that belong to no record and no partition.

use std::time::{Duration, Instant};

use super::classify::kind;
use super::files::Files;
use super::hints;
use super::log::Limiter;
use super::raw::{Client, Code, Event, EventKind, Queue};
use crate::error::{KafkaError, Kind};

/// Errors of a client, each kind of them once in a while.
pub(super) struct Errors {
    limiter: Limiter<i32>,
    new: Vec<KafkaError>,
    /// The last one that tells a cause ("connection refused") rather than the whole ("all brokers down").
    cause: Option<(Instant, KafkaError)>,
}

impl Errors {
    pub(super) fn new() -> Errors {
        Errors { limiter: Limiter::new(), new: Vec::new(), cause: None }
    }

    /// Takes everything from a queue that holds nothing but errors.
    pub(super) fn drain_all(&mut self, queue: &Queue) {
        while let Some(event) = queue.poll(Duration::ZERO) {
            self.take(queue.client(), &event);
        }
    }

    /// Takes one event; any but an error is passed over.
    pub(super) fn take(&mut self, client: &Client, event: &Event<'_>) {
        match event.kind() {
            EventKind::Error => self.error(client, event),
            EventKind::Record => self.new.push(KafkaError {
                kind: Kind::Fatal,
                code: "_INCONSISTENT",
                message:
                    "a record came on the consumer's own queue instead of its partition's; it would be lost"
                        .into(),
            }),
            EventKind::Deliveries | EventKind::Committed | EventKind::Other => {}
        }
    }

    fn error(&mut self, client: &Client, event: &Event<'_>) {
        let code = event.code();
        let error = match client.fatal() {
            Some((cause, why)) if event.is_fatal() => {
                // Whatever it is to the flow, its cause may be a right.
                let told = KafkaError { kind: kind(cause), code: cause.name(), message: why };
                KafkaError { kind: Kind::Fatal, ..told.naming_right("Write", "", "") }
            }
            _ => told(client.files(), code, event.text().into_owned()),
        };
        self.book(code, error, client.files(), Instant::now());
    }

    fn book(&mut self, code: Code, error: KafkaError, files: &Files, now: Instant) {
        let whole = code == ALL_BROKERS_DOWN;
        let refused = self.cause().is_some_and(|cause| cause.kind == Kind::Authentication);
        if !whole && (!refused || error.kind == Kind::Authentication) {
            self.cause = Some((now, error.clone()));
        }
        // What ends the client is told each time: the outage before it has the same code.
        let ends = matches!(error.kind, Kind::Fatal | Kind::Authentication | Kind::Authorization);
        if ends || self.limiter.admit(code.0, now).is_some() {
            self.new.push(renewable(files, error));
        }
    }

    /// Hands out what came since the last time.
    pub(super) fn give(&mut self, out: &mut Vec<KafkaError>) {
        out.append(&mut self.new);
    }

    /// The last error that tells a cause, unless it is an old story; a refusal of credentials outlasts the broken connections that follow it.
    pub(super) fn cause(&self) -> Option<&KafkaError> {
        self.cause.as_ref().filter(|(when, _)| when.elapsed() < FRESH).map(|(_, cause)| cause)
    }
}

/// An error in the client's words. A handshake that the other side just leaves is no verdict on certificates or passwords:
/// brokers do that while they start or end, and listeners that do not speak TLS.
fn told(files: &Files, code: Code, text: String) -> KafkaError {
    if code == SSL && text.contains("unexpected eof") {
        let message = format!(
            "{text}: the connection was closed in the middle of the TLS handshake. Does the listener speak TLS \
             (security.protocol)?"
        );
        return KafkaError { kind: Kind::Transient, code: code.name(), message };
    }
    // The client asks this itself where the listener is quick to answer in its own protocol, and not where it just leaves.
    if text.contains("closed by peer") && text.contains("in state SSL_HANDSHAKE") {
        let message = format!("{text}: connecting to a PLAINTEXT broker listener (security.protocol)?");
        return KafkaError { kind: Kind::Transient, code: code.name(), message };
    }
    if code == AUTHENTICATION && text.contains("handshake failed: Local: ") {
        return KafkaError { kind: Kind::Transient, code: code.name(), message: text };
    }
    if text.contains("certificate verify failed")
        && let Some(why) = hints::why_not_trusted(&text)
    {
        let message = format!("{text}: the broker's certificate is not accepted, {why}");
        return KafkaError { kind: Kind::Authentication, code: code.name(), message };
    }
    // Where the other side checks certificates after the handshake, its verdict comes as a connection that broke.
    if ALERTS.iter().any(|alert| text.contains(alert)) {
        let message = match files.certificate() {
            Some(certificate) => format!("{text}: the broker refuses the client's certificate {certificate}"),
            None => format!(
                "{text}: the broker asks for a client's certificate (ssl.certificate.location, ssl.key.location)"
            ),
        };
        return KafkaError { kind: Kind::Authentication, code: code.name(), message };
    }
    KafkaError { kind: kind(code), code: code.name(), message: text }
}

/// A refusal that a new client may not meet: it reads files that were replaced since this one has read them.
fn renewable(files: &Files, error: KafkaError) -> KafkaError {
    if error.kind != Kind::Authentication || !files.are_replaced() {
        return error;
    }
    let message = format!("{}; its files were replaced since this client has read them", error.message);
    KafkaError { kind: Kind::Fatal, message, ..error }
}

/// What TLS calls it when our certificate is refused.
const ALERTS: [&str; 5] = [
    "alert certificate",
    "alert bad certificate",
    "alert unknown ca",
    "alert access denied",
    "alert unsupported certificate",
];

/// How long an error may explain others. librdkafka repeats the same one every 30 seconds at most.
const FRESH: Duration = Duration::from_secs(60);

const ALL_BROKERS_DOWN: Code = Code(-187);
const SSL: Code = Code(-181);
const AUTHENTICATION: Code = Code(-169);

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{AUTHENTICATION, Code, Errors, Files, SSL};
    use crate::error::{KafkaError, Kind};

    const TRANSPORT: Code = Code(-195);

    fn told(code: Code, text: String) -> KafkaError {
        super::told(&Files::default(), code, text)
    }

    const ALERT: &str = "Receive failed: SSL routines::sslv3 alert certificate expired: SSL alert number 45";

    #[test]
    fn a_listener_that_leaves_in_the_handshake_may_speak_plaintext() {
        let left = "ssl://b:1/bootstrap: Disconnected: SSL connection closed by peer (after 0ms in state SSL_HANDSHAKE)";
        let error = told(TRANSPORT, left.into());
        assert_eq!(error.kind, Kind::Transient);
        assert!(error.message.contains("PLAINTEXT broker listener"), "{}", error.message);
        let up = told(
            TRANSPORT,
            "ssl://b:1/1: Disconnected: SSL connection closed by peer (after 9ms in state UP)".into(),
        );
        assert!(!up.message.contains("PLAINTEXT"), "{}", up.message);
    }

    #[test]
    fn a_refused_certificate_is_told_in_the_middle_of_an_outage_with_the_same_code() {
        let (mut errors, now) = (Errors::new(), Instant::now());
        for text in ["Connect failed: Connection refused", "Connect failed: Connection refused", ALERT, ALERT]
        {
            errors.book(TRANSPORT, told(TRANSPORT, text.into()), &Files::default(), now);
        }
        let mut given = Vec::new();
        errors.give(&mut given);
        let kinds: Vec<Kind> = given.iter().map(|error| error.kind).collect();
        assert_eq!(kinds, [Kind::Transient, Kind::Authentication, Kind::Authentication]);
    }

    #[test]
    fn a_refused_certificate_whose_file_was_replaced_is_for_a_new_client() {
        let path = std::env::temp_dir().join(format!("loom-refused-{}.pem", std::process::id()));
        std::fs::write(&path, "the old one").unwrap();
        let files = Files::read([("ssl.certificate.location", &*path.display().to_string())]);
        let tell = |text: &str| {
            let mut errors = Errors::new();
            errors.book(TRANSPORT, super::told(&files, TRANSPORT, text.into()), &files, Instant::now());
            let mut given = Vec::new();
            errors.give(&mut given);
            given.remove(0)
        };
        let refused = tell(ALERT);
        assert_eq!(refused.kind, Kind::Authentication);
        assert!(refused.message.contains(&*path.display().to_string()), "{refused}");
        std::fs::write(&path, "the new one").unwrap();
        assert_eq!(tell(ALERT).kind, Kind::Fatal);
        assert_eq!(tell("Connect failed: Connection refused").kind, Kind::Transient);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn only_a_handshake_that_came_to_a_verdict_is_a_refusal() {
        let eof =
            "SSL handshake failed: error:0A000126:SSL routines::unexpected eof while reading (after 3ms)";
        let left = told(SSL, eof.into());
        assert_eq!(left.kind, Kind::Transient);
        assert!(left.message.contains("security.protocol"), "{left}");
        assert_eq!(told(TRANSPORT, ALERT.into()).kind, Kind::Authentication);
        assert_eq!(told(TRANSPORT, "Receive failed: Disconnected".into()).kind, Kind::Transient);
        let refused =
            told(SSL, "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed".into());
        assert_eq!(refused.kind, Kind::Authentication);
        let broke = "SASL SCRAM-SHA-512 mechanism handshake failed: Local: Broker transport failure: broker's \
                     supported mechanisms: (n/a) (after 0ms in state DOWN)";
        assert_eq!(told(AUTHENTICATION, broke.into()).kind, Kind::Transient);
        let unknown = "SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL mechanism: broker's \
                       supported mechanisms: SCRAM-SHA-512";
        assert_eq!(told(AUTHENTICATION, unknown.into()).kind, Kind::Authentication);
    }
}
