//! Every input and output topic must exist before a record flows; asking never creates one.

use std::time::Duration;

use loom_delivery::Backoff;
use loom_flow::plan::OutputPlan;
use loom_flow::{Code, Need, Plan};
use loom_kafka::{Broker, KafkaError, Kind, OutputInfo, TopicInfo};
use loom_types::{Moment, TopicPartition};

use crate::clock::Clock;
use crate::failure::AssemblyError;
use crate::settings::output_settings;
use crate::stop::Stop;

/// The first and the longest wait between two questions to a broker that cannot answer yet.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// How long a topic may be unknown at a start: one that was made just now is not known to every broker at once. A short
/// start-up time gives a part of itself.
const APPEARS_WITHIN: Duration = Duration::from_secs(5);

/// How long a broker, or a coordinator, may leave questions unanswered at a start.
pub(super) struct Patience {
    deadline: Moment,
    /// The moment after which a topic that is not there does not exist.
    appear: Moment,
    timeout: Duration,
    stop: Stop,
    clock: Box<dyn Clock>,
}

impl Patience {
    pub(super) fn new(timeout: Duration, stop: Stop, clock: Box<dyn Clock>) -> Self {
        let now = clock.now();
        let appear = now + APPEARS_WITHIN.min(timeout / 4);
        Patience { deadline: now + timeout, appear, timeout, stop, clock }
    }

    /// What is left for one question.
    pub(super) fn left(&self) -> Duration {
        self.deadline.since(self.clock.now()).max(Duration::from_millis(1))
    }

    /// Asks about topics until each answer stands: while a topic's own error may pass, and for a short while after the
    /// start while one is not known.
    pub(super) fn ask_topics<T>(
        &mut self,
        what: &str,
        mut question: impl FnMut(Duration) -> Result<Infos<T>, KafkaError>,
    ) -> Result<Infos<T>, AssemblyError> {
        let appear = self.appear;
        self.ask_at(what, |timeout, now| settled(question(timeout)?, now < appear))
    }

    /// Asks until there is an answer, while errors are such that another attempt may get one; `what` names the question
    /// in the log. Other errors end it at once.
    pub(super) fn ask<T>(
        &mut self,
        what: &str,
        mut question: impl FnMut(Duration) -> Result<T, KafkaError>,
    ) -> Result<T, AssemblyError> {
        self.ask_at(what, |timeout, _| question(timeout))
    }

    /// The same; the question is told when it is asked.
    fn ask_at<T>(
        &mut self,
        what: &str,
        mut question: impl FnMut(Duration, Moment) -> Result<T, KafkaError>,
    ) -> Result<T, AssemblyError> {
        let mut backoff = Backoff::new(WAITS.0, WAITS.1);
        loop {
            let error = match question(self.left().min(Duration::from_secs(10)), self.clock.now()) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if self.stop.is_requested() {
                return Err(AssemblyError::failed(format!("stopped while {what}: {error}")));
            }
            if !matches!(error.kind, Kind::Coordinator | Kind::Transient) {
                let refused = AssemblyError::failed(format!("{what} failed: {error}"));
                return Err(refused.at_broker(code_of(&error), Need::Brokers));
            }
            let wait = backoff.failed(self.clock.random());
            if self.clock.now() + wait >= self.deadline {
                let silent = AssemblyError::failed(format!(
                    "{what} failed for {:?} (runtime.startup_timeout), {} attempts: {error}",
                    self.timeout,
                    backoff.attempts()
                ));
                return Err(silent.at_broker(Code::BrokerUnreachable, Need::Brokers));
            }
            tracing::info!(attempt = backoff.attempts(), wait_ms = wait.as_millis() as u64, reason = %error, "{what}: trying again");
            self.sleep(wait);
        }
    }

    /// Sleeps, in pieces, so that a stop is not kept waiting.
    fn sleep(&mut self, wait: Duration) {
        let until = self.clock.now() + wait;
        while !self.stop.is_requested() {
            let left = until.since(self.clock.now());
            if left.is_zero() {
                return;
            }
            self.clock.sleep(left.min(Duration::from_millis(50)));
        }
    }
}

/// What is known of a flow's topics before it starts.
pub(super) struct Topics {
    /// By the plan's input topics.
    pub inputs: Vec<TopicInfo>,
    /// By the plan's outputs.
    pub outputs: Vec<OutputInfo>,
}

/// What is asked of all producers' brokers together.
pub(super) const ASKING_PRODUCERS: &str = "asking the producers' brokers about the output topics";

/// Looks all topics up.
pub(super) fn look_up(
    plan: &Plan,
    broker: &dyn Broker,
    patience: &mut Patience,
) -> Result<Topics, Vec<AssemblyError>> {
    let inputs = ask_inputs(plan, broker, patience)?;
    let outputs = output_settings(&plan.outputs, &[]);
    let written = patience
        .ask_topics(ASKING_PRODUCERS, |timeout| broker.output_topics(&outputs, timeout))
        .map_err(|error| vec![error])?;

    let mut unusable = Unusable::new(plan, broker);
    let found = unusable.of_inputs(inputs);
    let mut outputs = Vec::with_capacity(written.len());
    for (output, info) in plan.outputs.iter().zip(written) {
        match info {
            Ok(info) if info.may_write == Some(false) => {
                unusable.add(&output.topic, &role(output), &may_not_be_written(), need(output));
            }
            Ok(info) => {
                if let Err(error) = &info.described {
                    tracing::warn!(
                        output = &*output.topic,
                        reason = %error,
                        limit = info.max_message_bytes,
                        "the output topic's configuration is not told; records are judged by the default limit"
                    );
                }
                outputs.push(info);
            }
            Err(error) => unusable.add(&output.topic, &role(output), &error, need(output)),
        }
    }
    unusable.none_or(Topics { inputs: found, outputs })
}

/// Looks the input topics up, by the plan's order.
pub(super) fn inputs(
    plan: &Plan,
    broker: &dyn Broker,
    patience: &mut Patience,
) -> Result<Vec<TopicInfo>, Vec<AssemblyError>> {
    let infos = ask_inputs(plan, broker, patience)?;
    let mut unusable = Unusable::new(plan, broker);
    let found = unusable.of_inputs(infos);
    unusable.none_or(found)
}

/// Every partition of the input topics, with the index of its topic.
pub(super) fn partitions_of(plan: &Plan, topics: &[TopicInfo]) -> Vec<(u16, TopicPartition)> {
    let topics = plan.consumer.topics.iter().zip(topics).enumerate();
    let each = topics.flat_map(|(index, (topic, info))| {
        (0..info.partitions).map(move |number| (index as u16, TopicPartition::new(topic.clone(), number)))
    });
    each.collect()
}

fn ask_inputs(
    plan: &Plan,
    broker: &dyn Broker,
    patience: &mut Patience,
) -> Result<Infos<TopicInfo>, Vec<AssemblyError>> {
    let names: Vec<&str> = plan.consumer.topics.iter().map(|topic| &**topic).collect();
    let brokers = plan.consumer.brokers.join(", ");
    let what = format!("asking {brokers} (kafka.{}.brokers) about its topics", plan.consumer.name);
    patience.ask_topics(&what, |timeout| broker.topics(&names, timeout)).map_err(|error| vec![error])
}

/// The topics that cannot be used; all are told at once.
struct Unusable<'a> {
    plan: &'a Plan,
    broker: &'a dyn Broker,
    /// The topics that can be seen, once that was asked.
    known: Option<Vec<String>>,
    errors: Vec<AssemblyError>,
}

impl<'a> Unusable<'a> {
    fn new(plan: &'a Plan, broker: &'a dyn Broker) -> Self {
        Unusable { plan, broker, known: None, errors: Vec::new() }
    }

    /// Takes the input topics that can be used.
    fn of_inputs(&mut self, infos: Infos<TopicInfo>) -> Vec<TopicInfo> {
        let plan = self.plan;
        let mut found = Vec::with_capacity(infos.len());
        for (topic, info) in plan.consumer.topics.iter().zip(infos) {
            match info {
                Ok(info) => found.push(info),
                Err(error) => {
                    let role = format!("input topic (kafka.{}.topics)", plan.consumer.name);
                    self.add(topic, &role, &error, Need::Input(topic.to_string()));
                }
            }
        }
        found
    }

    fn add(&mut self, topic: &str, role: &str, error: &KafkaError, need: Need) {
        let ask = || self.broker.topic_names(Duration::from_secs(5)).unwrap_or_default();
        let known = self.known.get_or_insert_with(ask);
        // To write to what the flow reads would be a loop.
        let inputs = &self.plan.consumer.topics;
        let operation = if matches!(need, Need::Input(_)) { "Read" } else { "Write" };
        let error = &error.clone().naming_right(operation, topic, &self.plan.consumer.group_id);
        let known = known.iter().filter(|name| !inputs.iter().any(|input| **input == ***name));
        let mut refused = missing(topic, role, error, known);
        if error.kind == Kind::UnknownTopic {
            refused.hint = Some(how_to_make(topic, brokers_of(self.plan, &need)));
        }
        self.errors.push(refused.at_broker(code_of(error), need));
    }

    fn none_or<T>(self, found: T) -> Result<T, Vec<AssemblyError>> {
        if self.errors.is_empty() { Ok(found) } else { Err(self.errors) }
    }
}

/// The brokers that a topic is at.
fn brokers_of<'p>(plan: &'p Plan, need: &Need) -> &'p [String] {
    let output = match need {
        Need::Output(name) => plan.outputs.iter().find(|output| output.name == *name),
        _ => None,
    };
    output.map_or(&plan.consumer.brokers, |output| &output.brokers)
}

/// The command that makes a topic, with the tools that come with Kafka.
fn how_to_make(topic: &str, brokers: &[String]) -> String {
    let brokers = brokers.join(",");
    format!("make it: `kafka-topics.sh --bootstrap-server {brokers} --create --topic {topic}`")
}

fn need(output: &OutputPlan) -> Need {
    Need::Output(output.name.clone())
}

/// The issue that a broker's answer is.
fn code_of(error: &KafkaError) -> Code {
    match error.kind {
        Kind::UnknownTopic => Code::TopicMissing,
        Kind::Authorization => Code::NotAuthorized,
        Kind::GroupInUse => Code::GroupInUse,
        _ => Code::BrokerUnreachable,
    }
}

/// What a message calls an output's topic.
fn role(output: &OutputPlan) -> String {
    if *output.topic == *output.name {
        "output topic".to_owned()
    } else {
        format!("topic of output `{}`,", output.name)
    }
}

/// Found before the first record, not by it.
fn may_not_be_written() -> KafkaError {
    KafkaError {
        kind: Kind::Authorization,
        code: "TOPIC_AUTHORIZATION_FAILED",
        message: "the broker does not list the right to write to it".to_owned(),
    }
}

type Infos<T> = Vec<Result<T, KafkaError>>;

/// Answers in which a topic's own error may pass count as no answer. `appearing`: so do those of a topic that is not known.
fn settled<T>(infos: Infos<T>, appearing: bool) -> Result<Infos<T>, KafkaError> {
    let passing = infos.iter().find_map(|info| {
        info.as_ref().err().filter(|error| match error.kind {
            Kind::Transient | Kind::Coordinator => true,
            Kind::UnknownTopic => appearing,
            _ => false,
        })
    });
    match passing {
        Some(error) => Err(KafkaError { kind: Kind::Transient, ..error.clone() }),
        None => Ok(infos),
    }
}

fn missing<'a>(
    topic: &str,
    role: &str,
    error: &KafkaError,
    known: impl Iterator<Item = &'a String>,
) -> AssemblyError {
    if error.kind != Kind::UnknownTopic {
        return AssemblyError::failed(format!("{role} {topic} cannot be used: {error}"));
    }
    let mut near: Vec<(f64, &String)> = known
        // Brokers that are just learning of a topic may list it already.
        .filter(|name| *name != topic)
        .map(|name| (strsim::normalized_damerau_levenshtein(topic, name), name))
        .filter(|(score, _)| *score > 0.75)
        .collect();
    near.sort_by(|one, two| two.0.total_cmp(&one.0));
    let near: Vec<&str> = near.iter().take(3).map(|(_, name)| name.as_str()).collect();
    let hint = if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) };
    AssemblyError::failed(format!("{role} {topic} does not exist{hint} (loom-host never creates topics)"))
}
