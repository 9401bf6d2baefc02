//! Drills: the host, or its broker, is killed under load, over and over, and in the end every record is accounted for.
//!
//! Each source record says in its payload which partition it is of and which of that partition's records it is; since
//! nobody else writes there, that number is its offset. Its key names the partition, so that all of a partition's
//! records share one output partition. What is then checked of an output, by [`account`]:
//! - every record that was written is there: nothing is lost;
//! - a partition's records come in source order, and go back only where a new host began: order is kept, and a host that
//!   lives repeats nothing;
//! - where they go back, it is to an offset that was not committed when the old host died: only records above the last
//!   committed offset appear again.

mod account;
mod bounded;
mod broker_kills;
mod cluster_faults;
mod dice;
mod host_kills;
mod kept;
mod stage;
mod stuck;
mod tail;
mod writer;

pub use account::{Account, Death, Sighting, account};
pub use bounded::{CONSTANT, HeldFlow};
pub use broker_kills::{BrokerKills, BrokerReport};
pub use cluster_faults::{ClusterFaults, ClusterReport, Fault};
pub use host_kills::{HostKills, HostReport};
pub use kept::{KeptReport, KeptRows};
pub use stuck::{StuckRecord, StuckReport};
