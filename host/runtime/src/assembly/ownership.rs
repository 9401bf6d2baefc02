//! Whether this host may work for the group at all: nobody else's consumers are in it, no other host owns its
//! partitions, and the rights that brokers tell of are there.

use loom_delivery::RunId;
use loom_delivery::lease::{Holder, Layout, Seen};
use loom_flow::{Code, Need, Plan};
use loom_kafka::{Broker, KafkaError, Kind, Rights, TopicInfo};
use loom_types::TopicPartition;

use super::topics::Patience;
use crate::Options;
use crate::failure::{AssemblyError, Status};
use crate::keeper::{LAST_WORDS, LeaseKeeper, describe, look, occupied, release_left};

/// How the lease stands at the start.
pub(super) struct Ownership {
    pub lease: LeaseKeeper,
    /// The run that owned the group before, whether it lives or not.
    pub predecessor: Option<RunId>,
}

/// Asks the broker about members, rights and the lease.
pub(super) fn check(
    plan: &Plan,
    broker: &dyn Broker,
    inputs: &[TopicInfo],
    options: &Options,
    patience: &mut Patience,
) -> Result<Ownership, Vec<AssemblyError>> {
    let group = &plan.consumer.group_id;
    no_members(group, broker, patience).map_err(|error| vec![error])?;
    let layout = Layout {
        processes: 1,
        workers: u32::try_from(options.workers).unwrap_or(u32::MAX),
        partitions: inputs.iter().map(|topic| topic.partitions).collect(),
    };
    let me = Holder { layout: Some(layout), ..options.identity.holder(options.take_over) };
    let place = place_of(plan);
    if !options.keeps_lease() {
        return Ok(Ownership { lease: LeaseKeeper::off(group, place, me), predecessor: None });
    }
    let rights = patience.ask("asking about rights", |timeout| broker.rights(timeout));
    let rights = rights.unwrap_or_else(|error| {
        tracing::debug!(reason = %error, "the broker does not tell of rights");
        Rights::default()
    });
    idempotent(plan, rights);
    let mut denied = (rights.owner_group == Some(false)).then(|| no_right(&format!("{group}.owner")));
    let mut seen = None;
    if denied.is_none() {
        let what = format!("reading the lease of group {group}.owner");
        let answer = patience.ask(&what, |timeout| match look(broker, &place, timeout) {
            Err(error) if error.kind == Kind::Authorization => Ok(Err(error)),
            other => other.map(Ok),
        });
        match answer.map_err(|error| vec![error])? {
            Ok(found) => seen = found,
            Err(error) => denied = Some(error),
        }
    }
    if let Some(error) = denied {
        let mut lease = LeaseKeeper::off(group, place, me);
        lease.turn_off(&error);
        return Ok(Ownership { lease, predecessor: None });
    }
    let predecessor = run_of(seen.as_ref());
    let lease = LeaseKeeper::new(group, place, me, seen);
    if let Some(holder) = lease.watched() {
        tracing::warn!(
            holder = describe(holder),
            seconds = (2 * plan.runtime.lease_interval).as_secs_f64(),
            "another host owned these partitions and did not say that it stopped: no offset is committed while its lease is \
             watched"
        );
    }
    Ok(Ownership { lease, predecessor })
}

/// Releases the lease that the last round of a run held on to, for the one that does not follow.
pub(super) fn release(plan: &Plan, broker: &dyn Broker, options: &Options) {
    if options.keeps_lease() {
        let me = options.identity.holder(options.take_over);
        release_left(broker, &place_of(plan), &me, LAST_WORDS);
    }
}

/// Where the entry of a process lies. Each has one: that of the first on the first partition, which stands for all, since two
/// hosts cannot own parts of a topic each.
pub(super) fn place_of(plan: &Plan) -> TopicPartition {
    TopicPartition::new(plan.consumer.topics[0].clone(), 0)
}

fn run_of(seen: Option<&Seen>) -> Option<RunId> {
    Some(seen?.holder.as_ref()?.run)
}

/// A group with live members refuses commits that are not its members'.
pub(super) fn no_members(
    group: &str,
    broker: &dyn Broker,
    patience: &mut Patience,
) -> Result<(), AssemblyError> {
    let what = format!("asking who is in group {group}");
    let members = patience.ask(&what, |timeout| match broker.members(timeout) {
        // Without the right to look, the commits will tell.
        Err(error) if error.kind == Kind::Authorization => {
            tracing::debug!(reason = %error, "no right to see the group's members");
            Ok(Vec::new())
        }
        other => other,
    })?;
    if members.is_empty() {
        return Ok(());
    }
    Err(AssemblyError {
        status: Status::Runtime,
        code: Some(Code::GroupInUse.as_str()),
        hint: None,
        about: Some(Need::Group),
        message: occupied(group, &members),
    })
}

/// Newer brokers allow idempotence to who may write; so a missing right is told, and decided by the first write.
fn idempotent(plan: &Plan, rights: Rights) {
    if rights.idempotent_write == Some(false) && plan.outputs.iter().any(|output| output.idempotence) {
        tracing::warn!(
            "the broker does not allow idempotent producers: where writing fails, give the right, or set \
             `producer: {{ idempotence: false }}`"
        );
    }
}

fn no_right(group: &str) -> KafkaError {
    let error = KafkaError {
        kind: Kind::Authorization,
        code: "GROUP_AUTHORIZATION_FAILED",
        message: "the broker does not list it among the operations that are allowed".to_owned(),
    };
    error.naming_right("Read", "", group)
}
