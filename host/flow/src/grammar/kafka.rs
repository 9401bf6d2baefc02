//! `kafka`: consumers, producers, and how both reach their brokers.

use super::{COUNT, Key, LONGEST_MS, Mapping, NAME, TEXTS, Together, Value};

pub(super) static KAFKA: Mapping = Mapping::new(
    "kafka",
    "Brokers, topics and groups.",
    &[
        Key::new(
            "consumer",
            Value::Mapping(&CONSUMER),
            "What the flow reads, unless `source` names another.",
        )
        .example("{ brokers: [\"localhost:9092\"], group_id: orders, topics: [orders.in] }"),
        Key::new(
            "consumers",
            Value::Named { of: &Value::Mapping(&CONSUMER), least: 0 },
            "Further consumers by name; `source` chooses the one that the flow reads.",
        ),
        Key::new(
            "producer",
            Value::Mapping(&PRODUCER),
            "Serves every output that has no entry under `producers`.",
        )
        .example("{ brokers: [\"localhost:9092\"] }"),
        Key::new(
            "producers",
            Value::Named { of: &Value::Mapping(&PRODUCER), least: 0 },
            "Producers of single outputs, by the outputs' logical names.",
        )
        .example("{ audit: { brokers: [\"audit:9092\"], topic: audit.v2 } }"),
    ],
);

const BROKERS: Key = Key::new(
    "brokers",
    Value::List { of: &Value::Text, least: 1 },
    "Addresses, `host:port` each; one text may hold several with commas between.",
)
.required()
.example("[\"${KAFKA_BROKERS:-localhost:9092}\"]");

const SECURITY: Key = Key::new(
    "security",
    Value::Mapping(&SECURITY_KEYS),
    "Protocol and login. TLS files go into `extra`, as `ssl.ca.location`.",
)
.example("{ protocol: SASL_SSL, sasl_mechanism: SCRAM-SHA-512, sasl_username: u, sasl_password: \"${file:/run/secrets/kafka}\" }");

const EXTRA: Key = Key::new(
    "extra",
    Value::Named { of: &Value::Text, least: 0 },
    "Any other setting of librdkafka. What the host itself manages is refused here.",
)
.example("{ fetch.min.bytes: 1 }");

static CONSUMER: Mapping = Mapping::new(
    "consumer",
    "What the flow reads, and how.",
    &[
        BROKERS,
        Key::new(
            "group_id",
            NAME,
            "The consumer group that stores the offsets. One name a service: a name per pod loses its offsets with the pod.",
        )
        .required()
        .example("orders-service"),
        Key::new("topics", TEXTS, "Topics that are read; several feed one process.").required().example("[orders.in]"),
        Key::new(
            "poll_backoff_ms",
            Value::Whole { least: 1, most: LONGEST_MS },
            "The longest sleep in milliseconds when there is nothing to read; new records wake earlier.",
        )
        .default("50"),
        Key::new(
            "commit_keepalive_ms",
            Value::Whole { least: 1, most: LONGEST_MS },
            "A position whose last successful commit is older than so many milliseconds is committed again.",
        )
        .default("1800000"),
        Key::new(
            "delivery",
            Value::Words(&["at_least_once", "at_most_once"]),
            "When offsets are committed. `at_least_once`: after everything that came of a record is durably written. \
             Without it a flow runs at most once, and a crash loses records.",
        )
        .example("at_least_once"),
        Key::new(
            "enable_auto_commit",
            Value::Boolean,
            "Deprecated: write `delivery: at_most_once` for `true`, `delivery: at_least_once` for `false`.",
        )
        .deprecated(),
        Key::new(
            "auto_offset_reset",
            Value::Words(&["earliest", "latest"]),
            "Where a topic starts that the group has no offset for.",
        )
        .default("earliest"),
        Key::new(
            "offset_out_of_range",
            Value::Words(&["reset", "fail"]),
            "A committed offset that the partition no longer has: `reset` goes on with a warning, `fail` refuses.",
        )
        .default("reset"),
        Key::new(
            "tombstones",
            Value::Words(&["skip", "forward"]),
            "Records without payload: left out, or passed on.",
        )
        .default("skip"),
        Key::new("batch_size", COUNT, "Records of one poll cycle, at most.").default("500"),
        SECURITY,
        EXTRA,
        Key::new(
            "poll_timeout_ms",
            Value::Whole { least: 0, most: LONGEST_MS },
            "Deprecated, without effect: `poll_backoff_ms` bounds the sleep after an empty poll.",
        )
        .deprecated(),
    ],
);

static PRODUCER: Mapping = Mapping::new(
    "producer",
    "Where outputs are written, and how.",
    &[
        BROKERS,
        Key::new("topic", NAME, "The topic; without it the output's logical name.").example("audit.v2"),
        SECURITY,
        Key::new(
            "compression",
            Value::Words(&["none", "gzip", "snappy", "lz4", "zstd"]),
            "How batches are packed; without it the client's own default.",
        )
        .example("zstd"),
        Key::new(
            "idempotence",
            Value::Boolean,
            "`false` is for brokers that refuse it; order then costs having one request in flight.",
        )
        .default("true"),
        EXTRA,
    ],
);

static SECURITY_KEYS: Mapping = Mapping {
    name: "security",
    doc: "How to reach brokers safely.",
    keys: &[
        Key::new(
            "protocol",
            Value::Words(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
            "The protocol of the listener.",
        )
        .example("SASL_SSL"),
        Key::new(
            "sasl_mechanism",
            Value::Words(&["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]),
            "How to log in.",
        )
        .example("SCRAM-SHA-512"),
        Key::new("sasl_username", Value::Name, "The user.").example("\"${KAFKA_USER}\""),
        Key::new("sasl_password", Value::Name, "The password. Never printed.")
            .example("\"${file:/run/secrets/kafka}\""),
    ],
    forms: &[],
    some: &[],
    together: Some(Together {
        key: "protocol",
        with: &["SASL_PLAINTEXT", "SASL_SSL"],
        without: &["PLAINTEXT", "SSL"],
        keys: &["sasl_mechanism", "sasl_username", "sasl_password"],
    }),
};
