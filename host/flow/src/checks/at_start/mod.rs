//! What is documented of the codes that only a start raises: the flow is right, its pairing with this runtime is not.

pub(crate) mod delivery_keyed_multiprocess;
pub(crate) mod plugin_config_invalid;
