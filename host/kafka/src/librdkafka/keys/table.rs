//! The table itself: which rule holds for which keys, and why.

use super::Group;
use super::Rule::{Between, Free, Managed, Refused};
use super::Side::{self, Both, Consumer, Producer};

const fn group(side: Side, rule: super::Rule, why: &'static str, keys: &'static str) -> Group {
    Group { side, rule, why, keys }
}

const NO_MEMBER: &str = "the host is no member of the group, so that it would do nothing";
const WAITED_OUT: &str = "the host waits for an outage to end";
const SOON: &str =
    "an outage that is over has to be noticed soon, and brokers that are away not be asked without a pause";
const UNUSED: &str = "the client does not use it any more";
const OLD_BROKERS: &str =
    "the client would treat brokers as ones from before 0.11, and leave out records' headers";
const FUNCTION: &str = "it stands for a function or a pointer of a program, which no file can hold";
const LOGIN: &str = "the host logs in with `PLAIN` or `SCRAM` alone, by the fields under `security`";
const LINES: &str = "the host reads the client's lines for its own messages";
const FOREIGN_CODE: &str = "it loads code into the host";
const INTERNAL: &str = "it is the client's own, for its tests and for libraries around it";

/// Where a key is there for both clients with different rules, each side has a group.
pub(super) const GROUPS: &[Group] = &[
    // Who is asked, and as whom.
    group(Both, Managed, "the field `brokers` sets it", "bootstrap.servers metadata.broker.list"),
    group(Both, Free, "it is a name for brokers' logs and quotas", "client.id"),
    group(Both, Free, "it chooses copies that are near", "client.rack"),
    group(Both, Managed, "the field `security.protocol` sets it", "security.protocol"),
    group(
        Both,
        Managed,
        "the fields under `security` set it",
        "sasl.mechanism sasl.mechanisms sasl.password sasl.username",
    ),
    group(
        Both,
        Refused,
        LOGIN,
        "enable.sasl.oauthbearer.unsecure.jwt enable_sasl_queue https.ca.location https.ca.pem \
         sasl.jaas.config sasl.kerberos.keytab sasl.kerberos.kinit.cmd \
         sasl.kerberos.min.time.before.relogin sasl.kerberos.principal sasl.kerberos.service.name \
         sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud \
         sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss \
         sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds \
         sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file \
         sasl.oauthbearer.assertion.jwt.template.file sasl.oauthbearer.assertion.private.key.file \
         sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.private.key.pem \
         sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret \
         sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.config \
         sasl.oauthbearer.extensions sasl.oauthbearer.grant.type \
         sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method sasl.oauthbearer.scope \
         sasl.oauthbearer.token.endpoint.url",
    ),
    group(
        Both,
        Free,
        "it says how TLS is spoken and whom to trust; the client tries it at its start",
        "enable.ssl.certificate.verification ssl.ca.location ssl.ca.pem ssl.certificate.location \
         ssl.certificate.pem ssl.cipher.suites ssl.crl.location ssl.curves.list \
         ssl.endpoint.identification.algorithm ssl.key.location ssl.key.password ssl.key.pem \
         ssl.keystore.location ssl.keystore.password ssl.providers ssl.sigalgs.list",
    ),
    group(
        Both,
        Refused,
        "it is for Windows alone: name the authorities' file in `ssl.ca.location`",
        "ssl.ca.certificate.stores",
    ),
    group(
        Both,
        Refused,
        "it is for Java's stores: write the certificates as PEM, and name the file in `ssl.ca.location`",
        "ssl.truststore.location",
    ),
    group(Both, Refused, FOREIGN_CODE, "plugin.library.paths ssl.engine.id ssl.engine.location"),
    // Connections, requests and outages.
    group(
        Both,
        Free,
        "it tunes connections, which are made again whatever it is",
        "api.version.request.timeout.ms broker.address.family broker.address.ttl connections.max.idle.ms \
         socket.connection.setup.timeout.ms socket.keepalive.enable socket.nagle.disable \
         socket.receive.buffer.bytes socket.send.buffer.bytes",
    ),
    group(
        Both,
        Between(1_000, 300_000),
        "no broker answers at once, and one that hangs must be given up",
        "socket.timeout.ms",
    ),
    group(
        Both,
        Refused,
        "an answer that comes too late would be taken for that of the next request",
        "socket.max.fails",
    ),
    group(
        Both,
        Between(10, 60_000),
        SOON,
        "reconnect.backoff.max.ms reconnect.backoff.ms retry.backoff.max.ms retry.backoff.ms",
    ),
    group(
        Both,
        Refused,
        "it is for Kerberos, and asks name servers while everything else waits",
        "client.dns.lookup",
    ),
    group(
        Both,
        Refused,
        "a cluster whose brokers have all moved would never be found again",
        "metadata.recovery.strategy",
    ),
    group(
        Both,
        Free,
        "it is how soon a cluster that has moved is looked for",
        "metadata.recovery.rebootstrap.trigger.ms",
    ),
    group(Both, Refused, OLD_BROKERS, "api.version.fallback.ms api.version.request broker.version.fallback"),
    group(
        Consumer,
        Between(5, 1_000_000),
        "commits and signs of life would wait behind a fetch",
        "max.in.flight max.in.flight.requests.per.connection",
    ),
    group(
        Producer,
        Between(1, 5),
        "records keep their order, with `idempotence` for up to 5 requests, without for one",
        "max.in.flight max.in.flight.requests.per.connection",
    ),
    group(Both, Free, "it is from which size on records are sent without a copy", "message.copy.max.bytes"),
    group(
        Consumer,
        Between(100_000_000, 2_147_483_647),
        "a batch that unpacks to more than this could never be read",
        "receive.message.max.bytes",
    ),
    group(
        Producer,
        Between(1_000_000, 2_147_483_647),
        "answers about large clusters have to fit",
        "receive.message.max.bytes",
    ),
    // Topics and what is known of them.
    group(Both, Managed, "asking for a topic never creates it", "allow.auto.create.topics"),
    group(Both, Managed, "the host waits for topics that are not there", "topic.metadata.propagation.max.ms"),
    group(
        Both,
        Between(1_000, 3_600_000),
        "what changes in a cluster has to be noticed, and not be asked for all the time",
        "topic.metadata.refresh.interval.ms",
    ),
    group(
        Both,
        Between(10_000, 86_400_000),
        "topics would be forgotten while they are written to",
        "metadata.max.age.ms",
    ),
    group(
        Both,
        Free,
        "it is how often a new leader is asked for, and for how many topics at once",
        "topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.sparse",
    ),
    group(Both, Refused, "topics of the flow would seem not to exist", "topic.blacklist"),
    // Reading.
    group(
        Consumer,
        Managed,
        "the field `group_id` sets the group, and the host is no member of it",
        "group.id",
    ),
    group(
        Consumer,
        Refused,
        NO_MEMBER,
        "group.instance.id group.protocol group.protocol.type group.remote.assignor \
         heartbeat.interval.ms max.poll.interval.ms partition.assignment.strategy session.timeout.ms",
    ),
    group(
        Consumer,
        Managed,
        "the field `delivery` decides when offsets are committed",
        "auto.commit.enable enable.auto.commit enable.auto.offset.store",
    ),
    group(
        Consumer,
        Managed,
        "`runtime.commit_interval_ms` is the time between two commits, in both modes",
        "auto.commit.interval.ms",
    ),
    group(
        Consumer,
        Managed,
        "offsets are stored at the brokers, by the host",
        "offset.store.method offset.store.path offset.store.sync.interval.ms",
    ),
    group(Consumer, Managed, "the field `auto_offset_reset` sets it", "auto.offset.reset"),
    group(Consumer, Managed, "what a transaction has not committed is never read", "isolation.level"),
    group(Consumer, Managed, "the host needs it as it is", "enable.partition.eof"),
    group(Consumer, Free, "it finds batches that a disk has spoilt", "check.crcs"),
    group(
        Consumer,
        Free,
        "it is how often the group's broker is looked for",
        "coordinator.query.interval.ms",
    ),
    group(
        Consumer,
        Free,
        "it stands in for this client's share of `runtime.prefetch`, at a queue for each partition",
        "queued.max.messages.kbytes queued.min.messages fetch.max.bytes fetch.message.max.bytes \
         max.partition.fetch.bytes message.max.bytes",
    ),
    group(Consumer, Free, "a fetch that waits for so much ends at `fetch.wait.max.ms`", "fetch.min.bytes"),
    group(
        Consumer,
        Between(1, 10_000),
        "a partition's records wait so long behind an empty one, and brokers are not to be asked without \
         a pause",
        "fetch.wait.max.ms",
    ),
    group(
        Consumer,
        Between(0, 10_000),
        "a partition that was full is read on only then",
        "fetch.queue.backoff.ms",
    ),
    group(Consumer, Between(10, 60_000), SOON, "fetch.error.backoff.ms"),
    group(
        Consumer,
        Refused,
        "the host reads queues, so that it would do nothing",
        "consume.callback.max.messages",
    ),
    // Writing.
    group(Producer, Managed, "the host needs every acknowledgement", "acks request.required.acks"),
    group(
        Producer,
        Managed,
        "the host needs a report of every record, or nothing would ever be committed",
        "delivery.report.only.error",
    ),
    group(
        Producer,
        Managed,
        WAITED_OUT,
        "delivery.timeout.ms message.send.max.retries message.timeout.ms retries",
    ),
    group(Producer, Managed, "the field `idempotence` sets it", "enable.idempotence"),
    group(
        Producer,
        Refused,
        "one record that a topic refuses would end the producer",
        "enable.gapless.guarantee",
    ),
    group(Producer, Refused, "records would be written out of their order", "queuing.strategy"),
    group(Producer, Managed, "the host partitions as Kafka's Java clients do", "partitioner partitioner_cb"),
    group(Producer, Managed, "the field `compression` sets it", "compression.codec compression.type"),
    group(Producer, Free, "it is how hard `compression` tries", "compression.level"),
    group(Producer, Managed, "the host does not use transactions", "transaction.timeout.ms transactional.id"),
    group(
        Producer,
        Between(67_108_864, 1_000_000_000),
        "the topic's own limit decides what is too large, not the client's",
        "message.max.bytes",
    ),
    group(
        Producer,
        Between(65_536, 1_048_576),
        "a record that is larger than the queue could never be written; the host bounds the queue further, \
         within `runtime.max_outstanding`",
        "queue.buffering.max.kbytes",
    ),
    group(
        Producer,
        Between(1, 1_000_000),
        "the host bounds the queue further, within `runtime.max_outstanding`",
        "queue.buffering.max.messages",
    ),
    group(
        Producer,
        Free,
        "it trades delay for larger batches; a stop sends what waits",
        "batch.num.messages batch.size linger.ms queue.buffering.backpressure.threshold \
         queue.buffering.max.ms sticky.partitioning.linger.ms",
    ),
    group(
        Producer,
        Between(1_000, 900_000),
        "a leader has to hear from the copies before it may acknowledge",
        "request.timeout.ms",
    ),
    // What the client says and counts.
    group(Both, Free, "it makes the client say more, in the host's log", "debug"),
    group(Both, Managed, LINES, "log.connection.close log.thread.name log_level"),
    group(Both, Refused, "nobody would read that queue, and it would grow", "log.queue"),
    group(Both, Refused, "nobody reads them: the host has metrics of its own", "statistics.interval.ms"),
    group(Both, Free, "it is for brokers that ask for clients' metrics", "enable.metrics.push"),
    group(Both, Managed, "the host asks for the events that it reads", "enabled_events"),
    // What is no setting of a flow.
    group(
        Both,
        Refused,
        UNUSED,
        "metadata.request.timeout.ms reconnect.backoff.jitter.ms socket.blocking.max.ms \
         topic.metadata.refresh.fast.cnt",
    ),
    group(Producer, Refused, UNUSED, "produce.offset.report"),
    group(Both, Refused, "it says what the client was built with", "builtin.features"),
    group(Both, Refused, "clients of one process would all draw the same numbers", "enable.random.seed"),
    group(Both, Refused, "signals of the process are the host's", "internal.termination.signal"),
    group(
        Both,
        Refused,
        "it puts a cluster in memory in the place of the brokers, and records would be gone with it",
        "test.mock.broker.rtt test.mock.num.brokers",
    ),
    group(
        Both,
        Refused,
        INTERNAL,
        "client.software.name client.software.version enable.sparse.connections \
         ut_handle_ProduceResponse",
    ),
    group(
        Both,
        Refused,
        FUNCTION,
        "background_event_cb closesocket_cb connect_cb default_topic_conf error_cb interceptors log_cb \
         oauthbearer_token_refresh_cb opaque open_cb resolve_cb socket_cb ssl.certificate.verify_cb \
         ssl_ca ssl_certificate ssl_engine_callback_data ssl_key stats_cb throttle_cb",
    ),
    group(Consumer, Refused, FUNCTION, "consume_cb offset_commit_cb rebalance_cb"),
    group(Producer, Refused, FUNCTION, "dr_cb dr_msg_cb msg_order_cmp"),
];
