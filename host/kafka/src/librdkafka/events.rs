//! What a client says about itself on its own queue: errors that belong to no record and no partition.

use std::time::{Duration, Instant};

use super::classify::kind;
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
                KafkaError { kind: Kind::Fatal, code: cause.name(), message: why }
            }
            _ => told(code, event.text().into_owned()),
        };
        let now = Instant::now();
        let whole = code == ALL_BROKERS_DOWN;
        let refused = self.cause().is_some_and(|cause| cause.kind == Kind::Authentication);
        if !whole && (!refused || error.kind == Kind::Authentication) {
            self.cause = Some((now, error.clone()));
        }
        if error.kind == Kind::Fatal || self.limiter.admit(code.0, now).is_some() {
            self.new.push(error);
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
fn told(code: Code, text: String) -> KafkaError {
    if code == SSL && text.contains("unexpected eof") {
        let message = format!(
            "{text}: the connection was closed in the middle of the TLS handshake. Does the listener speak TLS \
             (security.protocol)?"
        );
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
    let kind =
        if ALERTS.iter().any(|alert| text.contains(alert)) { Kind::Authentication } else { kind(code) };
    KafkaError { kind, code: code.name(), message: text }
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
    use super::{AUTHENTICATION, Code, SSL, told};
    use crate::error::Kind;

    const TRANSPORT: Code = Code(-195);

    #[test]
    fn only_a_handshake_that_came_to_a_verdict_is_a_refusal() {
        let eof =
            "SSL handshake failed: error:0A000126:SSL routines::unexpected eof while reading (after 3ms)";
        let left = told(SSL, eof.into());
        assert_eq!(left.kind, Kind::Transient);
        assert!(left.message.contains("security.protocol"), "{left}");
        let alert = "Receive failed: SSL routines::sslv3 alert certificate expired: SSL alert number 45";
        assert_eq!(told(TRANSPORT, alert.into()).kind, Kind::Authentication);
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
