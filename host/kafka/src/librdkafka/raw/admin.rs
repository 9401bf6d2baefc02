//! Questions of the admin interface: what topics, groups and the cluster are, and what this client may do there.
//!
//! Each question has a queue of its own for its one answer, and copies all that it needs out of it.

use std::ffi::{CStr, c_char};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use loom_types::TopicId;
use rdkafka::bindings as c;

use super::calls;
use super::client::{Client, millis};
use super::code::{Code, take_error};
use super::event::Event;
use super::list::{List, Name, text};
use super::queue::Queue;

/// What this client may do with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::librdkafka) struct Operations(u32);

impl Operations {
    pub fn may_read(self) -> bool {
        self.has(c::rd_kafka_AclOperation_t::RD_KAFKA_ACL_OPERATION_READ)
    }

    pub fn may_write(self) -> bool {
        self.has(c::rd_kafka_AclOperation_t::RD_KAFKA_ACL_OPERATION_WRITE)
    }

    pub fn may_write_idempotently(self) -> bool {
        self.has(c::rd_kafka_AclOperation_t::RD_KAFKA_ACL_OPERATION_IDEMPOTENT_WRITE)
    }

    fn has(self, operation: c::rd_kafka_AclOperation_t) -> bool {
        self.0 & 1 << operation as u32 != 0
    }

    /// None where the broker does not say.
    ///
    /// # Safety
    /// `list` is null, or `count` operations lie there.
    unsafe fn read(list: *const c::rd_kafka_AclOperation_t, count: usize) -> Option<Operations> {
        if list.is_null() {
            return None;
        }
        let mut set = 0;
        for index in 0..count {
            // SAFETY: by the contract above; read as a number, since a broker may know more operations than the enum.
            let operation = unsafe { list.cast::<u32>().add(index).read() };
            set |= 1_u32.checked_shl(operation).unwrap_or(0);
        }
        Some(Operations(set))
    }
}

/// What DescribeTopics says of a topic.
#[derive(Clone, Copy, Debug)]
pub(in crate::librdkafka) struct TopicDescription {
    pub id: Option<TopicId>,
    pub operations: Option<Operations>,
}

/// What DescribeConsumerGroups says of a group.
#[derive(Clone, Debug)]
pub(in crate::librdkafka) struct GroupDescription {
    /// Client ids and hosts.
    pub members: Vec<(String, String)>,
    pub operations: Option<Operations>,
}

/// Topics' ids, and what this client may do with them, in the order asked; `broker` is asked, or the controller where
/// it is none. The inner error is the topic's own.
pub(in crate::librdkafka) fn describe_topics(
    client: &Arc<Client>,
    names: &[Name],
    broker: Option<i32>,
    timeout: Duration,
) -> Result<Vec<Result<TopicDescription, Code>>, Code> {
    let options = Options::new(client, c::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS, timeout)?;
    options.with_operations()?;
    options.at(broker)?;
    // librdkafka refuses to ask for the same topic twice.
    let mut pointers: Vec<*const c_char> = unique(names).into_iter().map(Name::as_ptr).collect();
    // SAFETY: there are that many NUL-terminated names, which are copied; what comes back is ours.
    let asked = unsafe { c::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len()) };
    let replies = Queue::new(client);
    // SAFETY: all are alive; the collection is copied, and freed once.
    unsafe {
        c::rd_kafka_DescribeTopics(client.ptr(), asked, options.ptr(), replies.ptr());
        c::rd_kafka_TopicCollection_destroy(asked);
    }
    let event = answer(&replies, timeout)?;
    // A topic that the answer lacks is not one that is missing.
    let mut answers: Vec<_> = names.iter().map(|_| Err(Code::BAD_MESSAGE)).collect();
    let mut count = 0;
    // SAFETY: the event is alive through all of this, and so is all that it points to; it is one of this question, since
    // the queue has no others.
    unsafe {
        let result = c::rd_kafka_event_DescribeTopics_result(event.ptr());
        if result.is_null() {
            return Err(Code::BAD_MESSAGE);
        }
        let topics = c::rd_kafka_DescribeTopics_result_topics(result, &mut count);
        for index in 0..count {
            let topic = *topics.add(index);
            let name = CStr::from_ptr(c::rd_kafka_TopicDescription_name(topic));
            let code = error_code(c::rd_kafka_TopicDescription_error(topic));
            let mut operations = 0;
            let list = c::rd_kafka_TopicDescription_authorized_operations(topic, &mut operations);
            let told = if code.is_error() {
                Err(code)
            } else {
                Ok(TopicDescription {
                    id: topic_id(c::rd_kafka_TopicDescription_topic_id(topic)),
                    operations: Operations::read(list, operations),
                })
            };
            for (place, _) in names.iter().enumerate().filter(|(_, asked)| asked.is(name)) {
                answers[place] = told;
            }
        }
    }
    Ok(answers)
}

/// Values of settings, in the order of the keys that were asked for; none where one is not told.
pub(in crate::librdkafka) type Values = Vec<Option<String>>;

/// A topic's values, or its own error with the broker's sentence.
pub(in crate::librdkafka) type TopicValues = Result<Values, (Code, String)>;

/// The values of topics' settings, in the order of `keys`, for each topic in the order asked; `broker` as above.
pub(in crate::librdkafka) fn topic_configs(
    client: &Arc<Client>,
    names: &[Name],
    keys: &[&str],
    broker: Option<i32>,
    timeout: Duration,
) -> Result<Vec<TopicValues>, Code> {
    let options = Options::new(client, c::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, timeout)?;
    options.at(broker)?;
    let kind = c::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_TOPIC;
    // SAFETY: the names are NUL-terminated and copied; what comes back is ours, freed below.
    let mut asked: Vec<_> = unique(names)
        .into_iter()
        .map(|name| unsafe { c::rd_kafka_ConfigResource_new(kind, name.as_ptr()) })
        .collect();
    let replies = Queue::new(client);
    // SAFETY: all are alive; the resources are copied, and freed once.
    unsafe {
        let (first, count) = (asked.as_mut_ptr(), asked.len());
        c::rd_kafka_DescribeConfigs(client.ptr(), first, count, options.ptr(), replies.ptr());
        c::rd_kafka_ConfigResource_destroy_array(first, count);
    }
    let event = answer(&replies, timeout)?;
    let missing = || Err((Code::BAD_MESSAGE, "the broker does not answer for it".to_owned()));
    let mut answers: Vec<_> = names.iter().map(|_| missing()).collect();
    let mut count = 0;
    // SAFETY: the event is alive through all of this, and so is all that it points to; it is one of this question.
    unsafe {
        let result = c::rd_kafka_event_DescribeConfigs_result(event.ptr());
        if result.is_null() {
            return Err(Code::BAD_MESSAGE);
        }
        let resources = c::rd_kafka_DescribeConfigs_result_resources(result, &mut count);
        for index in 0..count {
            let resource = *resources.add(index);
            let name = CStr::from_ptr(c::rd_kafka_ConfigResource_name(resource));
            let code = Code(calls::rd_kafka_ConfigResource_error(resource));
            let told = if code.is_error() {
                Err((code, text(c::rd_kafka_ConfigResource_error_string(resource)).into_owned()))
            } else {
                Ok(values(resource, keys))
            };
            for (place, _) in names.iter().enumerate().filter(|(_, asked)| asked.is(name)) {
                answers[place] = told.clone();
            }
        }
    }
    Ok(answers)
}

/// A group's live members, and what this client may do with it.
pub(in crate::librdkafka) fn describe_group(
    client: &Arc<Client>,
    group: &Name,
    timeout: Duration,
) -> Result<GroupDescription, Code> {
    let op = c::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS;
    let options = Options::new(client, op, timeout)?;
    options.with_operations()?;
    let replies = Queue::new(client);
    let mut names = [group.as_ptr()];
    // SAFETY: all are alive; the name is copied.
    unsafe {
        c::rd_kafka_DescribeConsumerGroups(client.ptr(), names.as_mut_ptr(), 1, options.ptr(), replies.ptr());
    }
    let event = answer(&replies, timeout)?;
    let mut count = 0;
    // SAFETY: the event is alive through all of this, and so is all that it points to; it is one of this question.
    unsafe {
        let result = c::rd_kafka_event_DescribeConsumerGroups_result(event.ptr());
        if result.is_null() {
            return Err(Code::BAD_MESSAGE);
        }
        let groups = c::rd_kafka_DescribeConsumerGroups_result_groups(result, &mut count);
        if count == 0 {
            return Err(Code::BAD_MESSAGE);
        }
        let group = *groups;
        let code = error_code(c::rd_kafka_ConsumerGroupDescription_error(group));
        if code.is_error() {
            return Err(code);
        }
        let members = (0..c::rd_kafka_ConsumerGroupDescription_member_count(group))
            .map(|index| {
                let member = c::rd_kafka_ConsumerGroupDescription_member(group, index);
                (
                    text(c::rd_kafka_MemberDescription_client_id(member)).into_owned(),
                    text(c::rd_kafka_MemberDescription_host(member)).into_owned(),
                )
            })
            .collect();
        let mut operations = 0;
        let list = c::rd_kafka_ConsumerGroupDescription_authorized_operations(group, &mut operations);
        Ok(GroupDescription { members, operations: Operations::read(list, operations) })
    }
}

/// What this client may do with the cluster; none where the broker does not say.
pub(in crate::librdkafka) fn cluster_operations(
    client: &Arc<Client>,
    timeout: Duration,
) -> Result<Option<Operations>, Code> {
    let op = c::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBECLUSTER;
    let options = Options::new(client, op, timeout)?;
    options.with_operations()?;
    let replies = Queue::new(client);
    // SAFETY: all are alive.
    unsafe { c::rd_kafka_DescribeCluster(client.ptr(), options.ptr(), replies.ptr()) };
    let event = answer(&replies, timeout)?;
    let mut count = 0;
    // SAFETY: the event is alive, and so is the list; it is one of this question.
    unsafe {
        let result = c::rd_kafka_event_DescribeCluster_result(event.ptr());
        if result.is_null() {
            return Err(Code::BAD_MESSAGE);
        }
        let list = c::rd_kafka_DescribeCluster_result_authorized_operations(result, &mut count);
        Ok(Operations::read(list, count))
    }
}

/// The offset after a log's last, whether or not it can be read yet: who asks as a reader of committed records is told
/// the last stable offset instead.
pub(in crate::librdkafka) fn log_end(
    client: &Arc<Client>,
    topic: &Name,
    partition: i32,
    timeout: Duration,
) -> Result<i64, Code> {
    // Its default is to ask as readers of uncommitted records do.
    let options = Options::new(client, c::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTOFFSETS, timeout)?;
    let mut asked = List::new(1);
    asked.push(topic, partition, c::rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_LATEST as i64, 0);
    let replies = Queue::new(client);
    // SAFETY: all are alive; the list is copied.
    unsafe { c::rd_kafka_ListOffsets(client.ptr(), asked.ptr(), options.ptr(), replies.ptr()) };
    let event = answer(&replies, timeout)?;
    let mut count = 0;
    // SAFETY: the event is alive through all of this, and so is all that it points to; it is one of this question. The code
    // is read as a number, since a broker's may be none of the enum's.
    unsafe {
        let result = c::rd_kafka_event_ListOffsets_result(event.ptr());
        if result.is_null() {
            return Err(Code::BAD_MESSAGE);
        }
        let infos = c::rd_kafka_ListOffsets_result_infos(result, &mut count);
        if count == 0 {
            return Err(Code::BAD_MESSAGE);
        }
        let told = c::rd_kafka_ListOffsetsResultInfo_topic_partition(*infos);
        let code = Code(std::ptr::addr_of!((*told).err).cast::<i32>().read());
        if code.is_error() { Err(code) } else { Ok((*told).offset) }
    }
}

/// Each name once.
fn unique(names: &[Name]) -> Vec<&Name> {
    let mut unique: Vec<&Name> = Vec::with_capacity(names.len());
    for name in names {
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    unique
}

/// The options of one question.
struct Options(NonNull<c::rd_kafka_AdminOptions_t>);

impl Options {
    fn new(client: &Client, op: c::rd_kafka_admin_op_t, timeout: Duration) -> Result<Options, Code> {
        // SAFETY: the client is alive; what comes back is ours.
        let options = unsafe { c::rd_kafka_AdminOptions_new(client.ptr(), op) };
        let options = Options(NonNull::new(options).ok_or(Code::BAD_MESSAGE)?);
        let mut why = [0 as c_char; 256];
        // SAFETY: the options are alive, and the buffer's length is given. librdkafka takes up to an hour.
        super::client::ok(unsafe {
            calls::rd_kafka_AdminOptions_set_request_timeout(
                options.ptr(),
                millis(timeout).clamp(1, 3_600_000),
                why.as_mut_ptr(),
                why.len(),
            )
        })?;
        Ok(options)
    }

    /// Asks for what the client may do, too.
    fn with_operations(&self) -> Result<(), Code> {
        // SAFETY: alive; an error object that comes back is ours.
        unsafe { take_error(c::rd_kafka_AdminOptions_set_include_authorized_operations(self.ptr(), 1)) }
    }

    /// Asks this broker.
    fn at(&self, broker: Option<i32>) -> Result<(), Code> {
        let Some(broker) = broker else { return Ok(()) };
        let mut why = [0 as c_char; 256];
        // SAFETY: the options are alive, and the buffer's length is given.
        super::client::ok(unsafe {
            calls::rd_kafka_AdminOptions_set_broker(self.ptr(), broker, why.as_mut_ptr(), why.len())
        })
    }

    fn ptr(&self) -> *mut c::rd_kafka_AdminOptions_t {
        self.0.as_ptr()
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: ours, and freed once.
        unsafe { c::rd_kafka_AdminOptions_destroy(self.ptr()) };
    }
}

/// The one answer that comes on a queue, or its error.
fn answer(replies: &Queue, timeout: Duration) -> Result<Event<'_>, Code> {
    // The client's own time-out answers first, but for its threads being late.
    let event = replies.poll(timeout + Duration::from_millis(500)).ok_or(Code::TIMED_OUT)?;
    let code = event.code();
    if code.is_error() { Err(code) } else { Ok(event) }
}

/// The code of an error object that stays its owner's; null is none.
///
/// # Safety
/// `error` is null or alive.
unsafe fn error_code(error: *const c::rd_kafka_error_t) -> Code {
    if error.is_null() {
        return Code::NONE;
    }
    // SAFETY: by the contract above.
    Code(unsafe { calls::rd_kafka_error_code(error) })
}

/// None for the id of all zeros, which stands for "none".
///
/// # Safety
/// `uuid` is null or alive.
unsafe fn topic_id(uuid: *const c::rd_kafka_Uuid_t) -> Option<TopicId> {
    if uuid.is_null() {
        return None;
    }
    // SAFETY: by the contract above.
    let (most, least) = unsafe {
        (c::rd_kafka_Uuid_most_significant_bits(uuid), c::rd_kafka_Uuid_least_significant_bits(uuid))
    };
    if (most, least) == (0, 0) {
        return None;
    }
    let bits = u128::from(most as u64) << 64 | u128::from(least as u64);
    Some(TopicId(bits.to_be_bytes()))
}

/// The values of some keys of a resource.
///
/// # Safety
/// `resource` is alive.
unsafe fn values(resource: *const c::rd_kafka_ConfigResource_t, keys: &[&str]) -> Values {
    let mut found = vec![None; keys.len()];
    let mut count = 0;
    // SAFETY: alive by the contract above, and so are its entries and their texts; a value may be null.
    unsafe {
        let entries = c::rd_kafka_ConfigResource_configs(resource, &mut count);
        for index in 0..count {
            let entry = *entries.add(index);
            let name = text(c::rd_kafka_ConfigEntry_name(entry));
            let value = c::rd_kafka_ConfigEntry_value(entry);
            if let (Some(place), false) = (keys.iter().position(|key| *key == name), value.is_null()) {
                found[place] = Some(text(value).into_owned());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use rdkafka::bindings as c;

    use super::Operations;

    #[test]
    fn operations_are_a_set_and_none_where_nothing_is_said() {
        let list = [3_u32, 12, 40];
        // SAFETY: there are three numbers.
        let some = unsafe { Operations::read(list.as_ptr().cast::<c::rd_kafka_AclOperation_t>(), 3) };
        let some = some.unwrap();
        assert!(some.may_read() && some.may_write_idempotently() && !some.may_write());
        // SAFETY: null is allowed, and so is a list of none.
        unsafe {
            assert_eq!(Operations::read(std::ptr::null(), 0), None);
            let none = Operations::read(list.as_ptr().cast::<c::rd_kafka_AclOperation_t>(), 0).unwrap();
            assert!(!none.may_read());
        }
    }
}
