//! A predicate: is this the order of an important customer?

use std::sync::OnceLock;

use exports::loom::plugin::{predicate, setup};
use loom::plugin::types::{Failure, Message};
use serde::Deserialize;

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package example:vip;
        world vip {
            include loom:plugin/predicate-plugin@0.1.0;
            include loom:plugin/configured@0.1.0;
        }
    ",
    generate_all,
});

/// `config:` of the plugin in flow.yaml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The tiers whose customers are important.
    tiers: Vec<String>,
}

/// All that this plugin reads of an order.
#[derive(Deserialize)]
struct Order {
    #[serde(default)]
    tier: String,
}

/// Set once by `configure`, which the host calls before the first record.
static CONFIG: OnceLock<Config> = OnceLock::new();

struct Vip;
export!(Vip);

impl setup::Guest for Vip {
    fn configure(config: String) -> Result<(), String> {
        let config: Config = serde_json::from_str(&config).map_err(|e| format!("config: {e}"))?;
        CONFIG.set(config).map_err(|_| "configured twice".to_owned())
    }
}

impl predicate::Guest for Vip {
    fn test(message: Message) -> Result<bool, Failure> {
        let payload = message.payload.as_deref().unwrap_or_default();
        let order: Order =
            serde_json::from_slice(payload).map_err(|e| Failure::Reject(format!("not an order: {e}")))?;
        Ok(CONFIG.get().is_some_and(|config| config.tiers.contains(&order.tier)))
    }
}
