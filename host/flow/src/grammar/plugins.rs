//! `plugins`: components, their configuration, bounds and grants.

use super::{Key, Mapping, NAME, NAMES, Value};

pub(super) static PLUGIN: Mapping = Mapping::new(
    "plugin",
    "A WebAssembly component. Used in two nodes, it has instances of its own in each.",
    &[
        Key::new("component", NAME, "The component's file; a relative path is beside the flow file.")
            .required()
            .example("plugins/enrich.wasm"),
        Key::new("digest", Value::Text, "The file must be this one: `sha256:` and 64 hexadecimal digits.")
            .example("sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"),
        Key::new("config", Value::Any, "Anything; the plugin gets it as JSON.").example("{ currency: EUR }"),
        Key::new("limits", Value::Mapping(&LIMITS), "Bounds of the plugin's calls.")
            .example("{ memory: 256MiB, timeout: 250ms }"),
        Key::new(
            "breaker",
            Value::Words(&["on", "off"]),
            "Whether a hundred rows in a row that trapped hold the node, until a probe succeeds.",
        )
        .default("on"),
        Key::new("allow", Value::Mapping(&ALLOW), "What the plugin may use; nothing without it.")
            .example("{ env: [REGION], http: [\"api.example.com:443\"] }"),
    ],
);

static LIMITS: Mapping = Mapping::new(
    "limits",
    "Bounds of a plugin's calls.",
    &[
        Key::new("memory", Value::Size, "Memory of one instance.").default("256MiB"),
        Key::new("timeout", Value::Duration, "Time of one call.").default("250ms"),
        Key::new("lifecycle", Value::Duration, "Time of `configure`, `flush` and `close`.").default("30s"),
        Key::new("output", Value::Size, "What one call may hand to the host.").default("64MiB"),
        Key::new("log", Value::Size, "Log lines a second; those above are left out and counted.")
            .default("1MiB"),
    ],
);

static ALLOW: Mapping = Mapping::new(
    "allow",
    "What a plugin may use.",
    &[
        Key::new("env", NAMES, "Variables of the host's environment, by name.").example("[REGION]"),
        Key::new("http", NAMES, "Hosts with ports that it may send HTTP requests to.")
            .example("[\"api.example.com:443\"]"),
        Key::new("tcp", NAMES, "Hosts with ports that it may connect to.").example("[\"db:5432\"]").later(),
        Key::new(
            "dirs",
            Value::List { of: &Value::Mapping(&DIR), least: 0 },
            "Folders that it may read, or write.",
        )
        .example("[{ host: ./ref, guest: /ref, mode: ro }]"),
    ],
);

static DIR: Mapping = Mapping::new(
    "dir",
    "A folder that a plugin may use.",
    &[
        Key::new("host", NAME, "Where it is; a relative path is beside the flow file.")
            .required()
            .example("./ref"),
        Key::new("guest", NAME, "The absolute path at which the plugin sees it.").required().example("/ref"),
        Key::new("mode", Value::Words(&["ro", "rw"]), "To read, or to read and write.").default("ro"),
    ],
);
