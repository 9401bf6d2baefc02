//! What is documented of the codes that brokers show: to a start, and to `check --broker`.

pub(crate) mod broker_unreachable;
pub(crate) mod group_in_use;
pub(crate) mod not_authorized;
pub(crate) mod topic_missing;
