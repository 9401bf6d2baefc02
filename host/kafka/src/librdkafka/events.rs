//! What a client says about itself on its own queue: errors that belong to no record and no partition.

use std::time::{Duration, Instant};

use super::classify::kind;
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
            _ => KafkaError { kind: kind(code), code: code.name(), message: event.text().into_owned() },
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

/// How long an error may explain others. librdkafka repeats the same one every 30 seconds at most.
const FRESH: Duration = Duration::from_secs(60);

const ALL_BROKERS_DOWN: Code = Code(-187);
