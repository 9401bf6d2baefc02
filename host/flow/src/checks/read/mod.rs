//! What is documented of the codes that reading a flow raises: the text, its keys, its leaves and its expressions. They
//! are raised in many places of `reader` and `spec`, so their entries stand here, beside those of the checks.

pub(crate) mod conflicting_keys;
pub(crate) mod deprecated;
pub(crate) mod duplicate_key;
pub(crate) mod expression_invalid;
pub(crate) mod expression_quoting;
pub(crate) mod file_invalid;
pub(crate) mod fork_selector_missing;
pub(crate) mod interpolation_invalid;
pub(crate) mod missing_key;
pub(crate) mod node_invalid;
pub(crate) mod not_available;
pub(crate) mod unknown_key;
pub(crate) mod value_invalid;
pub(crate) mod variable_unset;
pub(crate) mod wrong_type;
