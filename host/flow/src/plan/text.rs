//! The text form of a plan: YAML that reads like the flow that it came from, with every name resolved and every default
//! filled in.
//!
//! It is stable: the first line says its version, keys keep their order and their names, and what is new is a new key.
//! Secrets print as `***`, configuration as written.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use loom_types::ErrorKind;

use super::{
    Allow, By, CallPlan, CollectPlan, ConsumerPlan, Delivery, NodeKind, NodePlan, OffsetReset, OnTrap,
    OutOfRange, OutputPlan, Partitioner, Plan, PluginLimits, PluginPlan, ProcessPlan, RuntimePlan, Secret,
    Security, Switch, Timestamp, Tombstones, Unrouted,
};
use crate::outline::Outline;

/// Of the form, not of the language.
const VERSION: u32 = 1;

/// The plan as text. `shown` takes secrets out of a text of the flow's.
pub(crate) fn text(plan: &Plan, shown: &dyn Fn(&str) -> String) -> String {
    Writer { plan, shown }.plan().to_yaml()
}

struct Writer<'p> {
    plan: &'p Plan,
    shown: &'p dyn Fn(&str) -> String,
}

/// Entries of a mapping, in their order.
type Entries = Vec<(String, Outline)>;

fn entry(key: &str, value: Outline) -> (String, Outline) {
    (key.to_owned(), value)
}

impl Writer<'_> {
    fn say(&self, text: &str) -> Outline {
        Outline::Text((self.shown)(text))
    }

    fn path(&self, path: &Path) -> Outline {
        self.say(&path.display().to_string())
    }

    fn list<'t>(&self, texts: impl IntoIterator<Item = &'t str>) -> Outline {
        Outline::List(texts.into_iter().map(|text| self.say(text)).collect())
    }

    fn plan(&self) -> Outline {
        let Plan { name, consumer, outputs, plugins, runtime, process, routes, unrouted, max_dropped, env } =
            self.plan;
        let named = |entries: Entries| Outline::Mapping(entries);
        let mut all = vec![
            entry("plan", Outline::word(VERSION)),
            entry("name", self.say(name)),
            entry("consumer", self.consumer(consumer)),
            entry("runtime", self::runtime(runtime)),
            entry(
                "plugins",
                named(
                    plugins.iter().map(|plugin| ((self.shown)(&plugin.name), self.plugin(plugin))).collect(),
                ),
            ),
            entry(
                "outputs",
                named(
                    outputs.iter().map(|output| ((self.shown)(&output.name), self.output(output))).collect(),
                ),
            ),
            entry("env", self.list(env.keys().map(String::as_str))),
            entry("process", self.process(process)),
            entry(
                "routes",
                named(
                    routes
                        .iter()
                        .map(|route| (route.path.to_string(), self.process(&route.process)))
                        .collect(),
                ),
            ),
            entry("unrouted", Outline::word(unrouted_word(*unrouted))),
        ];
        all.extend(max_dropped.map(|rate| entry("max_dropped", Outline::word(rate))));
        Outline::Mapping(all)
    }

    fn consumer(&self, consumer: &ConsumerPlan) -> Outline {
        let ConsumerPlan {
            name,
            brokers,
            group_id,
            topics,
            delivery,
            auto_offset_reset,
            offset_out_of_range,
            tombstones,
            batch_size,
            poll_backoff,
            commit_keepalive,
            security,
            extra,
        } = consumer;
        let mut entries = vec![
            entry("from", self.say(&format!("kafka.{name}"))),
            entry("brokers", self.list(brokers.iter().map(String::as_str))),
            entry("group_id", self.say(group_id)),
            entry("topics", self.list(topics.iter().map(|topic| &**topic))),
            entry("delivery", Outline::word(delivery_word(*delivery))),
            entry(
                "auto_offset_reset",
                Outline::word(match auto_offset_reset {
                    OffsetReset::Earliest => "earliest",
                    OffsetReset::Latest => "latest",
                }),
            ),
            entry(
                "offset_out_of_range",
                Outline::word(match offset_out_of_range {
                    OutOfRange::Reset => "reset",
                    OutOfRange::Fail => "fail",
                }),
            ),
            entry(
                "tombstones",
                Outline::word(match tombstones {
                    Tombstones::Skip => "skip",
                    Tombstones::Forward => "forward",
                }),
            ),
            entry("batch_size", Outline::word(batch_size)),
            entry("poll_backoff_ms", Outline::word(poll_backoff.as_millis())),
            entry("commit_keepalive_ms", Outline::word(commit_keepalive.as_millis())),
        ];
        entries.extend(self.client(security, extra));
        Outline::Mapping(entries)
    }

    /// What consumers and producers share; secrets are not told apart among `extra`, so no value is shown.
    fn client(&self, security: &Security, extra: &BTreeMap<String, Secret>) -> Entries {
        let mut entries = Vec::new();
        let Security { protocol, sasl_mechanism, sasl_username, sasl_password } = security;
        let shown =
            [("protocol", protocol), ("sasl_mechanism", sasl_mechanism), ("sasl_username", sasl_username)];
        let mut lines: Entries = shown
            .into_iter()
            .filter_map(|(key, value)| Some(entry(key, self.say(value.as_ref()?))))
            .collect();
        lines.extend(sasl_password.iter().map(|_| entry("sasl_password", hidden_value())));
        if !lines.is_empty() {
            entries.push(entry("security", Outline::Mapping(lines)));
        }
        if !extra.is_empty() {
            let extra = extra.keys().map(|key| (key.clone(), hidden_value())).collect();
            entries.push(entry("extra", Outline::Mapping(extra)));
        }
        entries
    }

    fn output(&self, output: &OutputPlan) -> Outline {
        let OutputPlan { name: _, topic, producer, brokers, security, compression, idempotence, extra } =
            output;
        let mut entries = vec![
            entry("topic", self.say(topic)),
            entry("producer", self.say(&format!("kafka.{producer}"))),
            entry("brokers", self.list(brokers.iter().map(String::as_str))),
            entry("idempotence", Outline::word(idempotence)),
        ];
        entries.extend(compression.iter().map(|compression| entry("compression", self.say(compression))));
        entries.extend(self.client(security, extra));
        Outline::Mapping(entries)
    }

    fn plugin(&self, plugin: &PluginPlan) -> Outline {
        let PluginPlan { name: _, component, digest, config: _, config_written, limits, breaker, allow } =
            plugin;
        let mut entries = vec![entry("component", self.path(component))];
        entries.extend(digest.iter().map(|digest| entry("digest", self.say(&format!("sha256:{digest}")))));
        entries.push(entry("config", Outline::json(config_written, self.shown)));
        let limits = self::limits(limits);
        if !limits.is_empty() {
            entries.push(entry("limits", Outline::Mapping(limits)));
        }
        entries.push(entry("breaker", Outline::word(if *breaker { "on" } else { "off" })));
        let allow = self.allow(allow);
        if !allow.is_empty() {
            entries.push(entry("allow", Outline::Mapping(allow)));
        }
        Outline::Mapping(entries)
    }

    /// Variables by name: their values are the environment's.
    fn allow(&self, allow: &Allow) -> Entries {
        let Allow { env, http, dirs } = allow;
        let mut entries = Vec::new();
        if !env.is_empty() {
            entries.push(entry("env", self.list(env.iter().map(|(name, _)| name.as_str()))));
        }
        if !http.is_empty() {
            let hosts = http.iter().map(|allowed| match allowed.host.contains(':') {
                true => format!("[{}]:{}", allowed.host, allowed.port),
                false => format!("{}:{}", allowed.host, allowed.port),
            });
            entries.push(entry("http", Outline::List(hosts.map(|host| self.say(&host)).collect())));
        }
        if !dirs.is_empty() {
            let dir = |dir: &super::AllowedDir| {
                Outline::Mapping(vec![
                    entry("host", self.path(&dir.host)),
                    entry("guest", self.say(&dir.guest)),
                    entry("mode", Outline::word(if dir.writable { "rw" } else { "ro" })),
                ])
            };
            entries.push(entry("dirs", Outline::List(dirs.iter().map(dir).collect())));
        }
        entries
    }

    /// The nodes of a branch that comes back to its node.
    fn in_place(&self, branch: &ProcessPlan) -> Outline {
        if branch.nodes.is_empty() {
            return Outline::word("pass");
        }
        Outline::List(branch.nodes.iter().map(|node| self.node(node)).collect())
    }

    /// The nodes; where the last is no terminal, what happens to the rows that come through it.
    fn process(&self, process: &ProcessPlan) -> Outline {
        let mut nodes: Vec<Outline> = process.nodes.iter().map(|node| self.node(node)).collect();
        if process.drains() {
            nodes.push(Outline::Mapping(vec![entry("implicit", Outline::word("drain"))]));
        }
        Outline::List(nodes)
    }

    fn node(&self, node: &NodePlan) -> Outline {
        let NodePlan { path, name, kind, errors } = node;
        let mut entries = vec![entry("node", Outline::Text(path.to_string()))];
        entries.extend(name.as_ref().map(|name| entry("name", self.say(name))));
        entries.extend(self.kind(kind));
        let routes: Vec<(ErrorKind, &str)> = ErrorKind::ALL
            .into_iter()
            .filter_map(|kind| Some((kind, &*self.plan.routes[errors[kind.index()]?.0].path)))
            .collect();
        let one = routes.first().filter(|(_, first)| {
            routes.len() == ErrorKind::ALL.len() && routes.iter().all(|(_, route)| route == first)
        });
        match one {
            Some((_, route)) => entries.push(entry("errors", Outline::Text((*route).to_owned()))),
            None if routes.is_empty() => {}
            None => {
                let routes = routes.into_iter();
                let routes = routes.map(|(kind, route)| entry(kind.name(), Outline::Text(route.to_owned())));
                entries.push(entry("errors", Outline::Mapping(routes.collect())));
            }
        }
        Outline::Mapping(entries)
    }

    fn kind(&self, kind: &NodeKind) -> Entries {
        let plugin = |id: &super::PluginId| self.say(&self.plan.plugins[id.0].name);
        let output = |id: &super::OutputId| self.say(&self.plan.outputs[id.0].name);
        match kind {
            NodeKind::Step(call) => self.call("step", call),
            NodeKind::Expand(call) => self.call("expand", call),
            NodeKind::Explode(call) => self.call("explode", call),
            NodeKind::Map(expr) => vec![entry("map", self.say(expr.source()))],
            NodeKind::BatchStep(call) => self.call("batch_step", call),
            NodeKind::BatchExpand(call) => self.call("batch_expand", call),
            NodeKind::Filter(predicate) => vec![entry("filter", self.by(predicate))],
            NodeKind::CollectBatch(collect) => vec![entry("collect_batch", self.collect(collect))],
            NodeKind::ForEach => vec![entry("for_each", Outline::word("null"))],
            NodeKind::Router(switch) => {
                vec![entry("router", self.switch(switch, &|branch| self.in_place(branch)))]
            }
            NodeKind::Fork(switch) => {
                vec![entry("fork", self.switch(switch, &|branch| self.process(branch)))]
            }
            NodeKind::Broadcast(branches) => {
                vec![entry(
                    "broadcast",
                    Outline::List(branches.iter().map(|branch| self.process(branch)).collect()),
                )]
            }
            NodeKind::ExpandRoutes { call, routes, default } => {
                let mut options = self.call("plugin", call).into_iter();
                let mut inside: Entries = options.next().into_iter().collect();
                let routes =
                    routes.iter().map(|(label, route)| ((self.shown)(label), self.process(route))).collect();
                inside.push(entry("routes", Outline::Mapping(routes)));
                inside.extend(default.iter().map(|default| entry("default", self.process(default))));
                std::iter::once(entry("expand_routes", Outline::Mapping(inside))).chain(options).collect()
            }
            NodeKind::IntoTopic { output: id, key, partitioner, dlq, timestamp } => {
                let mut entries = vec![entry("into_topic", output(id))];
                entries.extend(key.iter().map(|key| entry("key", self.by(key))));
                if let Some(Partitioner { plugin: id, repartition }) = partitioner {
                    entries.push(entry("partitioner", plugin(id)));
                    entries.push(entry("allow_repartition", Outline::word(repartition)));
                }
                entries.extend(dlq.iter().map(|dlq| entry("dlq", output(dlq))));
                entries.push(entry(
                    "timestamp",
                    Outline::word(match timestamp {
                        Timestamp::Source => "source",
                        Timestamp::Now => "now",
                    }),
                ));
                entries
            }
            NodeKind::IntoSink { plugin: id, timeout, retries, flush } => {
                let mut entries = vec![entry("into_sink", plugin(id))];
                entries.extend(timeout.map(|time| entry("timeout", duration(time))));
                entries.extend(retries.map(|retries| entry("retries", Outline::word(retries))));
                entries.push(entry(
                    "flush",
                    Outline::Mapping(vec![
                        entry("records", Outline::word(flush.records)),
                        entry("bytes", size(flush.bytes)),
                        entry("interval", duration(flush.interval)),
                    ]),
                ));
                entries
            }
            NodeKind::Drain => vec![entry("drain", Outline::word("null"))],
        }
    }

    fn call(&self, key: &str, call: &CallPlan) -> Entries {
        let CallPlan { plugin, timeout, retries, on_trap, concurrency, ordered } = call;
        let mut entries = vec![entry(key, self.say(&self.plan.plugins[plugin.0].name))];
        entries.extend(timeout.map(|time| entry("timeout", duration(time))));
        entries.extend(retries.map(|retries| entry("retries", Outline::word(retries))));
        entries.extend(concurrency.map(|calls| entry("concurrency", Outline::word(calls))));
        entries.push(entry("ordered", Outline::word(ordered)));
        entries.push(entry(
            "on_trap",
            Outline::word(match on_trap {
                OnTrap::Rerun => "rerun",
                OnTrap::FailBatch => "fail_batch",
            }),
        ));
        entries
    }

    fn collect(&self, collect: &CollectPlan) -> Outline {
        let CollectPlan { max_records, max_bytes, timeout, key } = collect;
        let mut entries = Vec::new();
        entries.extend(max_records.map(|records| entry("max_records", Outline::word(records))));
        entries.extend(max_bytes.map(|bytes| entry("max_bytes", size(bytes))));
        entries.extend(timeout.map(|time| entry("timeout_ms", Outline::word(time.as_millis()))));
        entries.extend(key.iter().map(|key| entry("key", self.by(key))));
        Outline::Mapping(entries)
    }

    fn by(&self, by: &By) -> Outline {
        match by {
            By::Expr(expr) => self.say(expr.source()),
            By::Plugin(id) => {
                Outline::Mapping(vec![entry("plugin", self.say(&self.plan.plugins[id.0].name))])
            }
        }
    }

    fn switch(&self, switch: &Switch, inner: &dyn Fn(&ProcessPlan) -> Outline) -> Outline {
        let (mut entries, default) = match switch {
            Switch::When { branches, default } => {
                let branch = |(condition, process): &(By, ProcessPlan)| {
                    Outline::Mapping(vec![entry("if", self.by(condition)), entry("process", inner(process))])
                };
                (vec![entry("when", Outline::List(branches.iter().map(branch).collect()))], default)
            }
            Switch::By { selector, branches, default } => {
                let branch = |(label, process): &(String, ProcessPlan)| ((self.shown)(label), inner(process));
                let branches = branches.iter().map(branch).collect();
                (vec![entry("by", self.by(selector)), entry("branches", Outline::Mapping(branches))], default)
            }
        };
        entries.extend(default.iter().map(|default| entry("default", inner(default))));
        Outline::Mapping(entries)
    }
}

fn runtime(runtime: &RuntimePlan) -> Outline {
    let RuntimePlan {
        startup_timeout,
        shutdown_timeout,
        commit_interval,
        lease_interval,
        max_outstanding_records,
        max_outstanding_bytes,
        prefetch,
    } = runtime;
    Outline::Mapping(vec![
        entry("startup_timeout", duration(*startup_timeout)),
        entry("shutdown_timeout", duration(*shutdown_timeout)),
        entry("commit_interval_ms", Outline::word(commit_interval.as_millis())),
        entry("lease_interval", duration(*lease_interval)),
        entry(
            "max_outstanding",
            Outline::Mapping(vec![
                entry("records", Outline::word(max_outstanding_records)),
                entry("bytes", size(*max_outstanding_bytes)),
            ]),
        ),
        entry("prefetch", size(*prefetch)),
    ])
}

/// Those that the flow sets; the others are the plugin host's.
fn limits(limits: &PluginLimits) -> Entries {
    let PluginLimits { memory, timeout, lifecycle, output, log } = limits;
    let all = [
        ("memory", memory.map(size)),
        ("timeout", timeout.map(duration)),
        ("lifecycle", lifecycle.map(duration)),
        ("output", output.map(size)),
        ("log", log.map(size)),
    ];
    all.into_iter().filter_map(|(key, value)| Some(entry(key, value?))).collect()
}

pub(crate) fn delivery_word(delivery: Delivery) -> &'static str {
    match delivery {
        Delivery::AtLeastOnce => "at_least_once",
        Delivery::AtMostOnce => "at_most_once",
    }
}

fn unrouted_word(unrouted: Unrouted) -> &'static str {
    match unrouted {
        Unrouted::Drop => "drop",
        Unrouted::Stop => "stop",
    }
}

fn hidden_value() -> Outline {
    Outline::Text("***".to_owned())
}

/// As the language writes it.
fn duration(duration: Duration) -> Outline {
    Outline::word(humantime::format_duration(duration))
}

fn size(bytes: u64) -> Outline {
    Outline::word(size_text(bytes))
}

/// As the language writes it, exactly.
pub(crate) fn size_text(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(unit, _)| bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes}B"), |(unit, name)| format!("{}{name}", bytes / unit))
}
