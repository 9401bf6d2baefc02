//! One suite for every implementation of the contract: each check shows one of its promises, on a broker that a
//! [`Fixture`] stands for. The memory broker runs it in this crate's tests, a real Kafka in the end-to-end tests.
//!
//! A check knows the broker only through the contract and the fixture, and waits for nothing but wakers: a wake-up that
//! is lost fails it.

mod ends;
mod facts;
pub(crate) mod harness;
mod memory;
mod offsets;
mod reading;
mod unset;
mod wakes;
mod writing;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

pub use memory::{MEMBER, MemoryFixture};

use crate::contract::Broker;
use crate::memory::{Record, TopicConfig};
use crate::settings::ConsumerSettings;

/// A broker under test, and what only its owner can do to it.
pub trait Fixture {
    /// Bootstrap addresses, for settings.
    fn addresses(&self) -> Vec<String>;

    /// A client.
    fn broker(&self, consumer: ConsumerSettings) -> Box<dyn Broker>;

    /// A name that nothing has used, beginning with `prefix`: for groups and for topics that must not exist.
    fn fresh_name(&self, prefix: &str) -> String;

    /// Makes a topic with a fresh name, ready to be used.
    fn create_topic(&self, partitions: i32) -> String;

    /// Appends records to a partition, in order; returns when they are written.
    fn produce(&self, topic: &str, partition: i32, records: &[Record]);

    /// The same in a transaction that is then committed or aborted. Either way its end takes an offset.
    fn produce_in_transaction(&self, topic: &str, partition: i32, records: &[Record], commit: bool);

    /// Deletes a topic and makes it again.
    fn recreate_topic(&self, topic: &str, partitions: i32);

    /// Sets a topic's configuration.
    fn configure_topic(&self, topic: &str, config: TopicConfig);

    /// A consumer with the client id [`MEMBER`] joins a group, and leaves it when what comes back is called.
    fn join_group<'a>(&'a self, group: &str, topic: &str) -> Box<dyn FnOnce() + 'a>;

    /// Removes the records below an offset, as retention does.
    fn delete_before(&self, topic: &str, partition: i32, offset: i64);

    /// Lets time pass for the broker's clients.
    fn pass_time(&self, time: Duration);

    /// The wall clock of the broker's clients, in milliseconds since 1970-01-01 UTC.
    fn now_ms(&self) -> i64;

    /// How long an event may take before it counts as missing.
    fn patience(&self) -> Duration;
}

/// One promise of the contract; panics where it is broken.
pub type Check = fn(&dyn Fixture);

/// Every check, by name.
pub const CHECKS: &[(&str, Check)] = &[
    ("records_come_in_offset_order_each_once", reading::records_come_in_offset_order_each_once),
    ("all_parts_of_a_record_pass_untouched", reading::all_parts_of_a_record_pass_untouched),
    ("a_take_keeps_to_its_budget", reading::a_take_keeps_to_its_budget),
    ("headers_count_towards_a_budget", reading::headers_count_towards_a_budget),
    ("reading_starts_at_the_given_offset", reading::reading_starts_at_the_given_offset),
    ("a_seek_goes_on_elsewhere", reading::a_seek_goes_on_elsewhere),
    ("a_position_out_of_range_waits_for_a_seek", reading::a_position_out_of_range_waits_for_a_seek),
    ("two_topics_keep_their_places", reading::two_topics_keep_their_places),
    ("tombstones_are_skipped_and_counted", reading::tombstones_are_skipped_and_counted),
    ("tombstones_are_forwarded_when_asked_for", reading::tombstones_are_forwarded_when_asked_for),
    ("the_next_record_wakes", wakes::the_next_record_wakes),
    ("the_end_comes_behind_the_records", ends::the_end_comes_behind_the_records),
    ("an_empty_partition_says_its_end", ends::an_empty_partition_says_its_end),
    ("a_tail_of_control_records_moves_the_end", ends::a_tail_of_control_records_moves_the_end),
    ("gaps_are_passed", ends::gaps_are_passed),
    ("a_tail_of_tombstones_moves_the_position", ends::a_tail_of_tombstones_moves_the_position),
    ("topics_are_told_in_the_order_asked", facts::topics_are_told_in_the_order_asked),
    ("asking_creates_no_topic", facts::asking_creates_no_topic),
    ("a_topic_made_again_has_another_id", facts::a_topic_made_again_has_another_id),
    ("an_output_s_limits_are_told", facts::an_output_s_limits_are_told),
    ("rights_are_told", facts::rights_are_told),
    ("a_time_finds_the_first_offset_from_it_on", facts::a_time_finds_the_first_offset_from_it_on),
    ("bounds_follow_the_log", facts::bounds_follow_the_log),
    ("a_new_group_has_no_offsets", offsets::a_new_group_has_no_offsets),
    ("commits_are_answered_once_and_read_back", offsets::commits_are_answered_once_and_read_back),
    ("epochs_are_read_committed_and_read_back", offsets::epochs_are_read_committed_and_read_back),
    ("groups_are_written_from_outside", offsets::groups_are_written_from_outside),
    ("a_group_with_members_refuses_commits", offsets::a_group_with_members_refuses_commits),
    ("a_commit_can_go_back", offsets::a_commit_can_go_back),
    ("a_guarded_commit_leaves_what_others_set", offsets::a_guarded_commit_leaves_what_others_set),
    ("a_client_commits_nothing_itself", offsets::a_client_commits_nothing_itself),
    ("rows_are_written_in_the_order_sent", writing::rows_are_written_in_the_order_sent),
    ("all_parts_of_a_row_are_written", writing::all_parts_of_a_row_are_written),
    ("what_may_seem_unset_is_read_as_it_is", unset::what_may_seem_unset_is_read_as_it_is),
    ("what_may_seem_unset_is_written_as_it_is", unset::what_may_seem_unset_is_written_as_it_is),
    ("a_time_below_0_is_none", unset::a_time_below_0_is_none),
    ("selected_rows_are_written", writing::selected_rows_are_written),
    ("a_key_finds_the_partition_of_kafka_s_default", writing::a_key_finds_the_partition_of_kafka_s_default),
    ("a_full_queue_accepts_a_part", writing::a_full_queue_accepts_a_part),
    ("acknowledgements_wake", wakes::acknowledgements_wake),
    ("a_row_that_is_too_large_comes_back", writing::a_row_that_is_too_large_comes_back),
    ("a_flush_sends_what_is_held_back", writing::a_flush_sends_what_is_held_back),
    ("a_queue_takes_so_many_bytes", writing::a_queue_takes_so_many_bytes),
    ("a_row_comes_back_as_its_copy", writing::a_row_comes_back_as_its_copy),
    ("close_gives_every_token_back", writing::close_gives_every_token_back),
];

/// Runs every check, prints how long each took, and panics with the names of those that failed; what they said stands
/// before it.
pub fn run(fixture: &dyn Fixture) {
    let mut failed = Vec::new();
    for (name, check) in CHECKS {
        let start = Instant::now();
        let kept = catch_unwind(AssertUnwindSafe(|| check(fixture))).is_ok();
        println!("{name}: {} after {:?}", if kept { "kept" } else { "broken" }, start.elapsed());
        if !kept {
            failed.push(*name);
        }
    }
    assert!(failed.is_empty(), "{} of {} checks failed: {}", failed.len(), CHECKS.len(), failed.join(", "));
}

#[cfg(test)]
mod tests {
    use super::{MemoryFixture, run};

    #[test]
    fn the_memory_broker_keeps_every_promise() {
        run(&MemoryFixture::default());
    }
}
