//! Rows on their way to one topic: those that wait to be sent, those that are under way, and those that came back.
//!
//! - A row that the topic does not take by its configuration is not sent: see `limits.rs`. Where the configuration was
//!   not read just now it is read again first, and the queue waits for that.
//! - Brokers refuse batches. Rows of one that was refused are sent again in halves until the culprit stands alone: see
//!   `trials.rs`. Order across that is not promised.
//! - A topic that is not known is waited for while metadata settles: what came back is sent again, in order, until
//!   patience is used up.
//!
//! While rows have come back no other row of the queue is sent; so what comes back is bounded by what was under way.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use loom_delivery::{Accounts, Backoff, Mutation, Token, mutated};
use loom_kafka::{Ack, KafkaError, Kind, OutputIndex, Refusal, TopicSink};
use loom_types::{Batch, Moment, Moves, PartitionId};

use super::Counts;
use super::codec::Codec;
use super::known::Known;
use super::limits::{Limits, Objection};
use super::pending::Pending;
use super::retention::PastRetention;
use super::table::OutputTable;
use super::trials::{Back, Trials};
use crate::envelope::raw_form;
use crate::holdings::Seen;

/// How long a topic may be unknown before its rows are refused.
const UNKNOWN_PATIENCE: Duration = Duration::from_secs(60);

/// The first and the longest wait before rows are sent again, and before a topic's configuration is asked for again.
pub(super) const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// A single row that is called corrupt so often is refused: the code may also mean that bytes were damaged on their way.
const CORRUPT_TRIES: u32 = 3;

/// A row that its topic does not take.
#[derive(Debug)]
pub(super) struct Refused {
    pub index: OutputIndex,
    pub batch: Arc<Batch>,
    pub row: u32,
    pub token: Token,
    /// How often it was sent for itself; 1 where that was not even tried.
    pub attempts: u32,
    pub reason: String,
}

/// What an acknowledgement comes to.
pub(super) enum Answer {
    Written(Token),
    /// Nobody knows.
    Unknown(Token),
    Refused(Refused),
    /// The row waits here again.
    Kept,
}

/// See the module's description.
pub(super) struct Queue {
    topic: Arc<str>,
    codec: Option<Codec>,
    known: Known,
    /// The client makes no larger batch, single rows apart.
    largest_batch: usize,
    pending: VecDeque<Pending>,
    /// Entries of `pending` that were added since the last `send`.
    fresh: usize,
    /// Whether several nodes write here: then what they brought is put into the order of its source.
    pub shared: bool,
    in_flight: usize,
    acknowledged: u64,
    /// Rows that were refused for good.
    refused: u64,
    /// Rows that came back and are sent again, each time.
    pub resent: u64,
    past: PastRetention,
    /// Rows of refused batches.
    trials: Trials,
    /// Rows that are sent again together.
    returned: VecDeque<Back>,
    /// Nothing is sent before.
    due: Option<Moment>,
    backoff: Backoff,
    /// Since when the topic is unknown.
    unknown_since: Option<Moment>,
    /// What the brokers said last against a row or a question, for people.
    answer: Option<Arc<str>>,
}

impl Queue {
    pub(super) fn new(
        topic: Arc<str>,
        compression: Option<&str>,
        limits: Limits,
        largest_batch: usize,
    ) -> Self {
        Queue {
            topic,
            codec: compression.and_then(Codec::named),
            known: Known::new(limits),
            largest_batch,
            pending: VecDeque::new(),
            fresh: 0,
            shared: false,
            in_flight: 0,
            acknowledged: 0,
            refused: 0,
            resent: 0,
            past: PastRetention::default(),
            trials: Trials::default(),
            returned: VecDeque::new(),
            due: None,
            backoff: Backoff::new(WAITS.0, WAITS.1),
            unknown_since: None,
            answer: None,
        }
    }

    pub(super) fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    pub(super) fn push(&mut self, entry: Pending) {
        self.fresh += 1;
        self.pending.push_back(entry);
    }

    /// Looks at the times of the rows that came since the last `send`.
    pub(super) fn look_at_times(&mut self, wall_ms: i64) {
        if let Some(keeps) = self.known.limits().keeps() {
            let first = self.pending.len().saturating_sub(self.fresh);
            self.past.look(&self.topic, keeps, wall_ms, self.pending.iter().skip(first));
        }
    }

    /// Sends what can be sent now; rows that the topic does not take go to `out`.
    pub(super) fn send(
        &mut self,
        now: Moment,
        accounts: &Accounts,
        table: &OutputTable,
        writer: &mut dyn TopicSink,
        out: &mut Vec<Refused>,
    ) {
        let fresh = std::mem::take(&mut self.fresh);
        if fresh > 1 && self.shared {
            Pending::restore_order(&mut self.pending, fresh, accounts);
        }
        if self.due.is_some_and(|due| now < due) {
            return;
        }
        loop {
            if self.has_back() {
                if self.in_flight > 0 {
                    return;
                }
                self.due = None;
                self.send_trial(now, table, writer, out);
                if self.in_flight > 0 || !self.trials.is_empty() {
                    return;
                }
                self.rejoin(table);
            }
            self.send_pending(now, table, writer, out);
            // A raw form may be to be sent now.
            if self.in_flight > 0 || !self.has_back() {
                return;
            }
        }
    }

    fn has_back(&self) -> bool {
        !self.returned.is_empty() || !self.trials.is_empty()
    }

    /// Sends the next rows whose batch was refused, with nothing beside them.
    fn send_trial(
        &mut self,
        now: Moment,
        table: &OutputTable,
        writer: &mut dyn TopicSink,
        out: &mut Vec<Refused>,
    ) {
        while let Some(mut group) = self.trials.next() {
            let (mut sent, mut sends) = (0, 0);
            while let Some(back) = group.pop_front() {
                match self.known.limits().judge(&back.batch, back.row, self.codec) {
                    Err(_) if !self.known.may_object(now) => {
                        group.push_front(back);
                        break;
                    }
                    Err(objection) => self.object(objection, back, table, out),
                    Ok(()) => {
                        let stamp = table.route(back.index).stamp;
                        let mut token = VecDeque::from([back.token]);
                        sent += writer.send(back.index, &back.batch, &[back.row], stamp, &mut token);
                        sends = back.sends;
                        if let Some(token) = token.pop_front() {
                            group.push_front(Back { token, ..back });
                            break;
                        }
                    }
                }
            }
            let waits = !group.is_empty();
            self.trials.put_back(group);
            if sent > 0 {
                self.in_flight += sent;
                self.trials.begin(sent, sends);
                return;
            }
            if waits {
                return;
            }
        }
    }

    /// Puts what came back before all that waits, in its order.
    fn rejoin(&mut self, table: &OutputTable) {
        for back in std::mem::take(&mut self.returned).into_iter().rev() {
            let Back { index, batch, row, token, .. } = back;
            match self.pending.front_mut() {
                Some(front) if front.takes(index, &batch) => front.prepend(row, token),
                _ => {
                    let stamp = table.route(index).stamp;
                    self.pending.push_front(Pending::one(index, batch, row, token, stamp));
                }
            }
        }
    }

    fn send_pending(
        &mut self,
        now: Moment,
        table: &OutputTable,
        writer: &mut dyn TopicSink,
        out: &mut Vec<Refused>,
    ) {
        // The topic takes less than when the client was made: no more is under way than one batch may hold.
        let narrow = self.known.limits().max_bytes() < self.largest_batch;
        if narrow && self.in_flight > 0 {
            return;
        }
        while let Some(front) = self.pending.front_mut() {
            let objection = front.look(self.known.epoch(), self.known.limits(), self.codec);
            let ready = front.ready(narrow.then(|| self.known.limits().max_bytes()));
            if !ready.is_empty() {
                let wanted = ready.len();
                let accepted = front.send(ready, writer);
                self.in_flight += accepted;
                if accepted < wanted {
                    return;
                }
            }
            if front.is_done() {
                self.pending.pop_front();
            }
            if narrow && self.in_flight > 0 {
                return;
            }
            let Some(front) = self.pending.front_mut() else { return };
            let Some(objection) = objection.filter(|_| front.is_at_objection()) else { continue };
            if !self.known.may_object(now) {
                return;
            }
            let Some(front) = self.pending.front_mut() else { return };
            let (index, batch, row, token) = front.take_out();
            if front.is_done() {
                self.pending.pop_front();
            }
            self.object(objection, Back { index, batch, row, token, sends: 0 }, table, out);
            if self.has_back() {
                // Its raw form goes first.
                return;
            }
        }
    }

    /// Books what the configuration says against a row.
    fn object(&mut self, objection: Objection, back: Back, table: &OutputTable, out: &mut Vec<Refused>) {
        let size = matches!(objection, Objection::TooLarge { .. });
        let reason = format!("topic {} does not take the record: {objection}", self.topic);
        out.extend(self.refuse(back, reason, size, table));
    }

    /// A row that is refused; an envelope that is too large is sent in its raw form instead.
    fn refuse(&mut self, back: Back, reason: String, size: bool, table: &OutputTable) -> Option<Refused> {
        let Back { index, batch, row, token, sends } = back;
        if size
            && table.route(index).kind().is_some()
            && let Some(raw) = raw_form(&batch, row)
        {
            tracing::debug!(output = &*self.topic, reason, "an envelope is sent in its raw form");
            self.trials.again(Back { index, batch: Arc::new(raw), row: 0, token, sends });
            return None;
        }
        self.refused += 1;
        Some(Refused { index, batch, row, token, attempts: sends.max(1), reason })
    }

    /// Books what became of a row that was sent.
    pub(super) fn answered(
        &mut self,
        now: Moment,
        random: f64,
        index: OutputIndex,
        token: Token,
        ack: Ack,
        table: &OutputTable,
    ) -> Answer {
        self.in_flight -= 1;
        let (alone, first) = (self.trials.alone(), self.trials.is_empty());
        if self.in_flight == 0 {
            self.trials.end();
        }
        let Refusal { mut error, batch, row } = match ack {
            Ack::Written => {
                self.acknowledged += 1;
                self.backoff.reset();
                self.unknown_since = None;
                return Answer::Written(token);
            }
            Ack::Unknown => return Answer::Unknown(token),
            Ack::Refused(refusal) => refusal,
        };
        error = error.naming_right("Write", &self.topic, "");
        // In company it was not the row's own attempt.
        let sends = alone.map_or(0, |sends| sends + 1);
        self.answer = Some(error.to_string().into());
        let back = Back { index, batch, row, token, sends };
        if error.kind == Kind::UnknownTopic && self.is_worth_waiting(now, random, &error) {
            self.returned.push_back(back);
            return Answer::Kept;
        }
        if error.is_too_large() {
            self.known.want(now);
        }
        let of_the_topic =
            matches!(error.kind, Kind::UnknownTopic | Kind::Authorization | Kind::Authentication);
        if !of_the_topic && alone.is_none() && !mutated(Mutation::BatchIsTheCulprit) {
            if first {
                tracing::warn!(
                    output = &*self.topic,
                    reason = %error,
                    "a broker refused a batch: its records are sent again in halves until the culprit is found, and may change \
                     their order"
                );
            }
            self.trials.blame(back);
            return Answer::Kept;
        }
        if error.kind == Kind::Corrupt && back.sends < CORRUPT_TRIES {
            self.due = Some(now + self.backoff.failed(random));
            self.trials.again(back);
            return Answer::Kept;
        }
        self.backoff.reset();
        let reason = format!("topic {} refuses the record for good, {error}", self.topic);
        self.refuse(back, reason, error.is_too_large(), table).map_or(Answer::Kept, Answer::Refused)
    }

    /// Whether a topic that is not known may be known soon; if so, nothing is sent for a while.
    fn is_worth_waiting(&mut self, now: Moment, random: f64, error: &KafkaError) -> bool {
        let since = *self.unknown_since.get_or_insert(now);
        if now.since(since) >= UNKNOWN_PATIENCE {
            return false;
        }
        if self.returned.is_empty() {
            let wait = self.backoff.failed(random);
            self.due = Some(now + wait);
            tracing::warn!(
                output = &*self.topic,
                reason = %error,
                patience_s = UNKNOWN_PATIENCE.saturating_sub(now.since(since)).as_secs(),
                "the output topic is not known at the moment: its records wait"
            );
        }
        true
    }

    /// Takes a question that is to be asked now.
    pub(super) fn take_question(&mut self, now: Moment) -> bool {
        self.known.take_question(now)
    }

    /// What was told of the topic.
    pub(super) fn learned(&mut self, now: Moment, random: f64, answer: Result<Limits, KafkaError>) {
        match answer {
            Ok(limits) => self.known.learned(&self.topic, limits),
            Err(error) => {
                self.known.failed(&self.topic, &error, now, random);
                self.answer = Some(error.to_string().into());
            }
        }
    }

    /// When it has something to do though nothing came.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.due
            .filter(|_| self.has_back() && self.in_flight == 0)
            .into_iter()
            .chain(self.known.next_due())
            .min()
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            pending: self.tokens().count() as u64,
            in_flight: self.in_flight as u64,
            acknowledged: self.acknowledged,
            refused: self.refused,
            resent: self.resent,
            past_retention: self.past.rows(),
        }
    }

    /// Whether no row waits to be sent.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.trials.has_no_rows() && self.returned.is_empty()
    }

    /// The tokens of rows that wait to be sent.
    pub(super) fn tokens(&self) -> impl Iterator<Item = &Token> {
        let back = self.trials.rows().chain(&self.returned).map(|back| &back.token);
        self.pending.iter().flat_map(Pending::tokens).chain(back)
    }

    /// Shows every row that waits to be sent, to whoever counts what they keep.
    pub(super) fn show(&self, seen: &mut Seen) {
        self.pending.iter().for_each(|pending| pending.show(seen));
        for back in self.trials.rows().chain(&self.returned) {
            seen.row(back.token.partition(), &back.batch, back.row, false);
        }
    }

    /// Rows that were copied go on as their copies.
    pub(super) fn follow(&mut self, moves: &Moves) {
        self.pending.iter_mut().for_each(|pending| pending.follow(moves));
        for back in self.trials.rows_mut().chain(&mut self.returned) {
            moves.row(&mut back.batch, &mut back.row);
        }
    }

    /// The partitions that have rows waiting to be sent, with repetitions.
    pub(super) fn partitions(&self) -> impl Iterator<Item = PartitionId> {
        self.tokens().map(Token::partition)
    }

    /// What rows wait for here, where it is not room in the client's queue.
    pub(super) fn waits_for(&self) -> Option<&'static str> {
        if self.unknown_since.is_some() {
            return Some("brokers that know the topic");
        }
        if self.known.is_in_question() {
            return Some("the topic's configuration, which is read again");
        }
        self.has_back().then_some("verdicts on the parts of a batch that was refused")
    }

    /// What the brokers said last, where rows wait because of it.
    pub(super) fn answer(&self) -> Option<&str> {
        self.waits_for().and(self.answer.as_deref())
    }

    /// Gives up what came back and waits for time to pass, at a stop.
    pub(super) fn abandon_waits(&mut self) {
        if self.unknown_since.is_some() {
            self.give_up();
        }
    }

    /// Gives up every row that waits to be sent.
    pub(super) fn give_up(&mut self) {
        for entry in self.pending.drain(..) {
            entry.give_up();
        }
        for back in self.trials.drain().chain(self.returned.drain(..)) {
            back.token.give_up();
        }
        self.due = None;
    }
}
