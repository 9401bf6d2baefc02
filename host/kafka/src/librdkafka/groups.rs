//! Offsets of groups, asked for and set outside of workers.
//!
//! A client belongs to one group, so each group has one: the flow's own is asked through the client that answers all
//! questions, that of the lease gets one on first use.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use loom_types::{CommitOffset, TopicPartition};

use super::classify::{error, group_kind};
use super::commits::codes;
use super::raw::{self, Client, Code, EventKind, List, Queue};
use super::{Asked, asker, name};
use crate::error::{KafkaError, Kind};
use crate::facts::{Committed, Group, GroupEntry, Member, Rights};
use crate::settings::{ConsumerSettings, ProducerSettings};

/// How long a producer that is not said to be allowed to write idempotently has to find out: its brokers refuse it as
/// soon as it is connected, and say nothing where they do not.
const REFUSED_WITHIN: Duration = Duration::from_secs(1);

/// The groups of one flow.
pub(super) struct Groups {
    settings: ConsumerSettings,
    owner: OnceLock<Asked>,
}

impl Groups {
    pub(super) fn new(settings: ConsumerSettings) -> Groups {
        Groups { settings, owner: OnceLock::new() }
    }

    /// The client of a group; `input` is the one of the flow's own.
    fn client<'a>(&'a self, group: Group, input: &'a Asked) -> Result<&'a Asked, KafkaError> {
        if group == Group::Input {
            return Ok(input);
        }
        if let Some(owner) = self.owner.get() {
            return Ok(owner);
        }
        let settings = ConsumerSettings { group_id: self.settings.group(group), ..self.settings.clone() };
        // Of two that are made at once, one is dropped again.
        let asked = asker(settings)?;
        Ok(self.owner.get_or_init(|| asked))
    }

    pub(super) fn committed(
        &self,
        group: Group,
        input: &Asked,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Result<Option<Committed>, KafkaError>>, KafkaError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let (asked, of) = (self.client(group, input)?, self.settings.group(group));
        let mut list = List::new(partitions.len());
        for (tag, partition) in partitions.iter().enumerate() {
            list.push(&name(&partition.topic)?, partition.partition, -1, tag);
        }
        raw::committed(&asked.client(), &mut list, timeout).map_err(|code| {
            let doing = format!("fetching the offsets of group `{of}`");
            asked.explained(error(group_kind(code), code, doing)).naming_right(
                "Read",
                &partitions[0].topic,
                &of,
            )
        })?;
        let mut answers: Vec<_> = partitions.iter().map(|_| Ok(None)).collect();
        for entry in list.iter() {
            let Some(answer) = answers.get_mut(entry.tag) else { continue };
            if entry.code.is_error() {
                let place = &partitions[entry.tag];
                let doing = format!("fetching the offset of group `{of}` for {place}");
                let failed = error(group_kind(entry.code), entry.code, doing);
                *answer = Err(failed.naming_right("Read", &place.topic, &of));
            } else if entry.offset >= 0 {
                *answer = Ok(Some(Committed {
                    offset: CommitOffset(entry.offset),
                    metadata: String::from_utf8_lossy(entry.metadata).into_owned(),
                    leader_epoch: entry.leader_epoch,
                }));
            }
        }
        Ok(answers)
    }

    pub(super) fn commit(
        &self,
        group: Group,
        input: &Asked,
        entries: &[GroupEntry],
        timeout: Duration,
    ) -> Result<Vec<Result<(), KafkaError>>, KafkaError> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let (asked, of) = (self.client(group, input)?, self.settings.group(group));
        let mut list = List::new(entries.len());
        for (tag, entry) in entries.iter().enumerate() {
            let (topic, number) = (name(&entry.partition.topic)?, entry.partition.partition);
            list.push_with(&topic, number, entry.offset.0, tag, &entry.metadata, entry.leader_epoch);
        }
        let failed = |code: Code| {
            let doing = format!("committing {} offsets of group `{of}`", entries.len());
            let failed = asked.explained(error(group_kind(code), code, doing));
            failed.naming_right("Read", &entries[0].partition.topic, &of)
        };
        let client = asked.client();
        let replies = Queue::new(&client);
        client.commit(&list, &replies, 0).map_err(failed)?;
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = replies.poll(left).ok_or_else(|| failed(Code::TIMED_OUT))?;
            if event.kind() != EventKind::Committed {
                continue;
            }
            let results = codes(&event, entries.len()).into_iter().zip(entries).map(|(code, entry)| {
                if !code.is_error() {
                    return Ok(());
                }
                let doing = format!("committing the offset of group `{of}` for {}", entry.partition);
                let failed = error(group_kind(code), code, doing);
                Err(failed.naming_right("Read", &entry.partition.topic, &of))
            });
            return Ok(results.collect());
        }
    }

    pub(super) fn members(&self, input: &Asked, timeout: Duration) -> Result<Vec<Member>, KafkaError> {
        let group = self.settings.group(Group::Input);
        let told = self.describe(input, &group, timeout)?;
        Ok(told.members.into_iter().map(|(client_id, host)| Member { client_id, host }).collect())
    }

    fn describe(
        &self,
        input: &Asked,
        group: &str,
        timeout: Duration,
    ) -> Result<raw::GroupDescription, KafkaError> {
        let c_name = name(group)?;
        raw::describe_group(&input.client(), &c_name, timeout).map_err(|code| {
            let failed = error(group_kind(code), code, format!("asking about group `{group}`"));
            input.explained(failed).naming_right("Read", "", group)
        })
    }

    /// What is said of the owner group and of idempotent writes, by the producers that were asked about their topics.
    pub(super) fn rights(
        &self,
        input: &Asked,
        producers: &[(Arc<ProducerSettings>, Arc<Client>)],
        timeout: Duration,
    ) -> Result<Rights, KafkaError> {
        let owner_group = match self.describe(input, &self.settings.group(Group::Owner), timeout) {
            Ok(told) => told.operations.map(raw::Operations::may_read),
            Err(error) if error.kind == Kind::Authorization => Some(false),
            Err(error) if matches!(error.kind, Kind::Transient | Kind::Coordinator) => return Err(error),
            // An older broker, or one that does not describe groups.
            Err(_) => None,
        };
        let mut idempotent_write = None;
        for (settings, client) in producers.iter().filter(|(settings, _)| settings.idempotence) {
            match idempotent(client, timeout) {
                Some(false) => {
                    tracing::debug!(target: "kafka", brokers = ?settings.brokers, "idempotent writes are refused");
                    idempotent_write = Some(false);
                    break;
                }
                told => idempotent_write = idempotent_write.or(told),
            }
        }
        Ok(Rights { idempotent_write, owner_group })
    }
}

/// Whether a producer may write idempotently. The right is in no list where the right to write to a topic brings it
/// along, so the refusal that the producer itself got is what counts.
fn idempotent(client: &Arc<Client>, timeout: Duration) -> Option<bool> {
    let refused = || client.fatal().is_some_and(|(code, _)| code == Code::CLUSTER_AUTHORIZATION_FAILED);
    let listed = raw::cluster_operations(client, timeout).ok().flatten();
    if listed.is_some_and(raw::Operations::may_write_idempotently) {
        return Some(true);
    }
    let deadline = Instant::now() + timeout.min(REFUSED_WITHIN);
    while !refused() {
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(false)
}
