//! A consumer that is a member of a group, as somebody else's would be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::Broker;

/// It is polled on a thread of its own until it is dropped, which leaves the group.
pub struct Member {
    leave: Arc<AtomicBool>,
    polls: Option<JoinHandle<()>>,
}

impl Broker {
    /// Subscribes to a topic as a member of a group. `protocol` is `classic`, or `consumer` for that of KIP-848.
    ///
    /// # Errors
    /// If no client can be made.
    pub fn join(&self, group: &str, topic: &str, client_id: &str, protocol: &str) -> Result<Member> {
        let mut config = self.client();
        config.set("group.id", group).set("client.id", client_id).set("group.protocol", protocol);
        let consumer: BaseConsumer = config.set("enable.auto.commit", "false").create()?;
        consumer.subscribe(&[topic])?;
        let leave = Arc::new(AtomicBool::new(false));
        let left = leave.clone();
        let polls = std::thread::spawn(move || {
            while !left.load(Ordering::Relaxed) {
                let _ = consumer.poll(Duration::from_millis(50));
            }
        });
        Ok(Member { leave, polls: Some(polls) })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave.store(true, Ordering::Relaxed);
        if let Some(polls) = self.polls.take() {
            // With its thread the consumer is closed; a panic there was told by itself.
            let _ = polls.join();
        }
    }
}
