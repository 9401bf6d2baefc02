//! The status document as Prometheus text: base units, counters end in `_total`, labels are flow, topic, partition, node,
//! plugin, and the closed lists `ending` and `kind`.
//!
//! `loom_records_consumed_total` = `loom_records_registered_total` + `loom_records_skipped_total`, per partition.

use std::fmt;

use loom_runtime::FlowStatus;
use loom_runtime::status::{HistogramStatus, PartitionStatus};
use loom_types::{Ending, ErrorKind};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// The `Content-Type` of the text.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// The text of one scrape.
pub fn text(status: &FlowStatus) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(status.clone())));
    let mut text = String::new();
    // Memory takes every byte, and the encoder fails at nothing else.
    let _ = prometheus_text::encode(&mut text, &registry);
    text
}

/// One moment's numbers.
#[derive(Debug)]
struct Scrape(FlowStatus);

type Labels = Vec<(&'static str, String)>;

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Out { encoder, flow: self.0.flow.clone() };
        self.process(&mut out)?;
        self.partitions(&mut out)?;
        self.nodes(&mut out)?;
        self.outputs(&mut out)
    }
}

impl Scrape {
    fn process(&self, out: &mut Out<'_>) -> fmt::Result {
        let Scrape(status) = self;
        let one = |value| [(Labels::new(), value)];
        out.gauge("loom_ready", "Whether the flow does its work", one(f64::from(u8::from(status.ready))))?;
        out.gauge("loom_uptime_seconds", "Time since the process began", one(seconds(status.uptime_ms)))?;
        let plugins = status
            .plugins
            .iter()
            .map(|plugin| (vec![("plugin", plugin.name.clone()), ("digest", plugin.digest.clone())], 1.0));
        out.gauge("loom_plugin_info", "Plugins, with the SHA-256 of their files", plugins)?;
        let dropped = ErrorKind::ALL.map(|kind| {
            let rows = status.ledger.ended.get(Ending::Dropped(kind).name()).copied().unwrap_or_default();
            (vec![("kind", kind.name().to_owned())], rows)
        });
        out.counter("loom_rows_dropped", "Rows that failed, and that no route took", dropped)?;
        out.counter("loom_poll_cycles", "Poll cycles that took a record", [(Labels::new(), status.cycles)])?;
        let missing = status.missing_topics.iter().map(|topic| (vec![("topic", topic.clone())], 1.0));
        out.gauge("loom_input_topic_missing", "Input topics that are not there any more", missing)?;
        let added = status.added_partitions.iter().map(|added| {
            (vec![("topic", added.topic.clone()), ("partition", added.partition.to_string())], 1.0)
        });
        out.gauge(
            "loom_partition_added",
            "Partitions that were added and are not read until a restart",
            added,
        )?;
        out.counter("loom_restarts", "Restarts in place", [(Labels::new(), status.restarts)])?;
        out.histogram(
            "loom_record_resolution_seconds",
            "Time from a record's being read until it was resolved",
            [(Labels::new(), &status.resolution)],
        )?;
        let commits = &status.commits;
        out.counter("loom_commits", "Commit requests sent", [(Labels::new(), commits.requests)])?;
        out.counter(
            "loom_commit_failures",
            "Partitions whose commit failed, each time",
            [(Labels::new(), commits.failures)],
        )?;
        out.counter(
            "loom_offsets_set_from_outside",
            "Partitions whose committed offset somebody else set",
            [(Labels::new(), commits.set_from_outside)],
        )?;
        let failing = commits.failing_ms.unwrap_or_default();
        out.gauge(
            "loom_commits_failing_seconds",
            "How long commits have failed without a success",
            one(seconds(failing)),
        )
    }

    fn partitions(&self, out: &mut Out<'_>) -> fmt::Result {
        let each = || self.0.partitions.iter().map(|partition| (labels(partition), partition));
        let ledger =
            |count: fn(&PartitionStatus) -> u64| each().map(move |(labels, one)| (labels, count(one)));
        out.counter(
            "loom_records_consumed",
            "Records and tombstones that were read",
            ledger(|one| one.ledger.registered + one.ledger.skipped),
        )?;
        out.counter(
            "loom_records_registered",
            "Records that entered the flow",
            ledger(|one| one.ledger.registered),
        )?;
        out.counter(
            "loom_records_skipped",
            "Tombstones that were skipped",
            ledger(|one| one.ledger.skipped),
        )?;
        out.counter(
            "loom_records_repeated",
            "Records that a client gave out a second time, and that were ignored",
            ledger(|one| one.ledger.repeated),
        )?;
        out.counter("loom_records_resolved", "Records that are done", ledger(|one| one.ledger.resolved))?;
        out.counter(
            "loom_records_given_up",
            "Records that were unresolved at a restart in place, and are read again",
            ledger(|one| one.ledger.given_up),
        )?;
        out.counter(
            "loom_tokens_given_up",
            "Tokens in the flow at a restart in place",
            ledger(|one| one.ledger.given_up_tokens),
        )?;
        out.counter("loom_tokens_minted", "Tokens minted", ledger(|one| one.ledger.minted))?;
        out.counter("loom_tokens_consumed", "Tokens split or grouped", ledger(|one| one.ledger.consumed))?;
        let ended = each().flat_map(|(labels, one)| {
            one.ledger.ended.iter().map(move |(ending, rows)| {
                let mut labels = labels.clone();
                labels.push(("ending", ending.clone()));
                (labels, *rows)
            })
        });
        out.counter("loom_rows_ended", "Rows by how they ended", ended)?;

        let gauge = |value: fn(&PartitionStatus) -> Option<f64>| {
            each().filter_map(move |(labels, one)| Some((labels, value(one)?)))
        };
        out.gauge(
            "loom_records_outstanding",
            "Records that are read and not done",
            gauge(|one| Some(one.ledger.outstanding as f64)),
        )?;
        out.gauge("loom_outstanding_bytes", "Their bytes", gauge(|one| Some(one.outstanding_bytes as f64)))?;
        out.gauge("loom_tokens_live", "Tokens in the flow", gauge(|one| Some(one.ledger.live as f64)))?;
        out.gauge(
            "loom_partition_position_offset",
            "The next offset to read",
            gauge(|one| Some(one.position as f64)),
        )?;
        out.gauge(
            "loom_partition_committed_offset",
            "The committed offset",
            gauge(|one| one.committed.map(|offset| offset as f64)),
        )?;
        out.gauge(
            "loom_partition_end_offset",
            "The offset after the last record",
            gauge(|one| one.end.map(|offset| offset as f64)),
        )?;
        out.gauge(
            "loom_partition_lag_records",
            "The end less the committed offset",
            gauge(|one| one.lag.map(|lag| lag as f64)),
        )?;
        out.gauge(
            "loom_partition_oldest_seconds",
            "How long ago the oldest unresolved record was read; 0 when there is none",
            gauge(|one| Some(one.oldest.as_ref().map_or(0.0, |oldest| seconds(oldest.age_ms)))),
        )?;
        out.gauge(
            "loom_partition_stalled",
            "Whether there is data and no progress",
            gauge(|one| Some(f64::from(u8::from(one.stalled.is_some())))),
        )
    }

    fn nodes(&self, out: &mut Out<'_>) -> fmt::Result {
        let each = || {
            self.0.nodes.iter().map(|node| {
                let mut labels = vec![("node", node.node.clone())];
                labels.extend(node.name.as_ref().map(|name| ("name", name.clone())));
                labels.extend(node.plugin.as_ref().map(|plugin| ("plugin", plugin.name.clone())));
                (labels, node)
            })
        };
        out.counter(
            "loom_node_rows",
            "Rows that came to a node",
            each().map(|(labels, node)| (labels, node.rows)),
        )?;
        let errors = each().flat_map(|(labels, node)| {
            node.errors.iter().map(move |(kind, rows)| {
                let mut labels = labels.clone();
                labels.push(("kind", kind.clone()));
                (labels, *rows)
            })
        });
        out.counter("loom_node_errors", "Rows that failed at a node, routed or not", errors)?;
        let plugins = || each().filter(|(_, node)| node.plugin.is_some());
        out.counter(
            "loom_node_retries",
            "Rows that are to be tried again, each time",
            plugins().map(|(labels, node)| (labels, node.retries)),
        )?;
        let calls = each().filter_map(|(labels, node)| Some((labels, node.calls.as_ref()?)));
        out.histogram("loom_node_call_seconds", "Duration of calls of a node's plugin", calls)?;
        let expanders = || each().filter_map(|(labels, node)| Some((labels, node.expander?)));
        out.counter(
            "loom_node_rows_made",
            "Rows that a node made of the rows that came to it",
            expanders().map(|(labels, expander)| (labels, expander.made)),
        )?;
        out.counter(
            "loom_node_rows_defaulted",
            "Rows of types without a route of their own, which went to `default`",
            expanders().map(|(labels, expander)| (labels, expander.defaulted)),
        )?;
        out.gauge(
            "loom_node_waiting_rows",
            "Rows that wait at a node",
            plugins().map(|(labels, node)| (labels, node.waiting as f64)),
        )?;
        let breakers = each().filter_map(|(labels, node)| Some((labels, f64::from(node.breaker?.open))));
        out.gauge("loom_node_breaker_open", "Workers on which the node's breaker is open", breakers)?;
        let sinks = || each().filter_map(|(labels, node)| Some((labels, node.sink?)));
        out.gauge(
            "loom_sink_open_rows",
            "Rows that a sink has and has not completed",
            sinks().map(|(labels, sink)| (labels, sink.open as f64)),
        )?;
        out.counter(
            "loom_sink_flushes",
            "Flushes that succeeded",
            sinks().map(|(labels, sink)| (labels, sink.flushes)),
        )?;
        out.counter(
            "loom_sink_violations",
            "Tokens that a sink spoke of and that were not open",
            sinks().map(|(labels, sink)| (labels, sink.violations)),
        )
    }

    fn outputs(&self, out: &mut Out<'_>) -> fmt::Result {
        let each = || self.0.outputs.iter().map(|output| (vec![("topic", output.topic.clone())], output));
        out.counter(
            "loom_output_rows",
            "Rows that a topic acknowledged",
            each().map(|(labels, output)| (labels, output.acknowledged)),
        )?;
        out.counter(
            "loom_output_refused_rows",
            "Rows that were refused for good",
            each().map(|(labels, output)| (labels, output.refused)),
        )?;
        out.counter(
            "loom_output_resent_rows",
            "Rows that were refused and sent again, each time",
            each().map(|(labels, output)| (labels, output.resent)),
        )?;
        out.counter(
            "loom_output_past_retention_rows",
            "Rows whose time lies before all that the topic keeps",
            each().map(|(labels, output)| (labels, output.past_retention)),
        )?;
        out.gauge(
            "loom_output_pending_rows",
            "Rows that wait for room in the client's queue",
            each().map(|(labels, output)| (labels, output.pending as f64)),
        )?;
        out.gauge(
            "loom_output_in_flight_rows",
            "Rows sent and not acknowledged",
            each().map(|(labels, output)| (labels, output.in_flight as f64)),
        )?;
        out.gauge(
            "loom_output_waiting_seconds",
            "How long rows have waited without one acknowledgement, from ten seconds on",
            each().map(|(labels, output)| (labels, seconds(output.waiting_ms.unwrap_or_default()))),
        )
    }
}

/// What is written, each with the flow's name.
struct Out<'a> {
    encoder: DescriptorEncoder<'a>,
    flow: String,
}

impl Out<'_> {
    fn counter(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, u64)>,
    ) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, &sentence(help), None, MetricType::Counter)?;
        for (labels, value) in values {
            let labels = with_flow(&self.flow, labels);
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    fn histogram<'h>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, &'h HistogramStatus)>,
    ) -> fmt::Result {
        let mut metric =
            self.encoder.encode_descriptor(name, &sentence(help), None, MetricType::Histogram)?;
        for (labels, histogram) in values {
            // The encoder adds up what is in each bucket alone, and wants one for what is above the last bound.
            let mut below = 0;
            let mut buckets: Vec<(f64, u64)> = Vec::with_capacity(histogram.buckets.len() + 1);
            for bucket in &histogram.buckets {
                buckets.push((bucket.le_s, bucket.count - below));
                below = bucket.count;
            }
            buckets.push((f64::INFINITY, histogram.count - below));
            let labels = with_flow(&self.flow, labels);
            let mut family = metric.encode_family(&labels)?;
            family.encode_histogram::<NoLabelSet>(histogram.sum_s, histogram.count, &buckets, None)?;
        }
        Ok(())
    }

    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, &sentence(help), None, MetricType::Gauge)?;
        for (labels, value) in values {
            let labels = with_flow(&self.flow, labels);
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

fn sentence(help: &str) -> String {
    format!("{help}.")
}

fn with_flow(flow: &str, labels: Labels) -> Labels {
    std::iter::once(("flow", flow.to_owned())).chain(labels).collect()
}

fn labels(partition: &PartitionStatus) -> Labels {
    vec![("topic", partition.topic.clone()), ("partition", partition.partition.to_string())]
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use loom_runtime::FlowStatus;
    use loom_runtime::status::{AddedPartition, Bucket, HistogramStatus, NodeStatus};

    use super::text;

    #[test]
    fn every_kind_of_drop_has_a_count_from_the_start() {
        let mut status = FlowStatus { flow: "f".to_owned(), ..FlowStatus::default() };
        status.ledger.ended.insert("dropped(task)".to_owned(), 7);
        let text = text(&status);
        for line in [
            "loom_rows_dropped_total{flow=\"f\",kind=\"task\"} 7",
            "loom_rows_dropped_total{flow=\"f\",kind=\"wire\"} 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn histograms_have_their_buckets_added_up_and_named_nodes_their_name() {
        let bucket = |le_s, count| Bucket { le_s, count };
        let calls = HistogramStatus { buckets: vec![bucket(0.5, 2), bucket(1.0, 5)], count: 6, sum_s: 7.5 };
        let node = NodeStatus {
            node: "process[0]".to_owned(),
            name: Some("score".to_owned()),
            calls: Some(calls.clone()),
            ..NodeStatus::default()
        };
        let status = FlowStatus {
            flow: "f".to_owned(),
            nodes: vec![node],
            resolution: calls,
            ..FlowStatus::default()
        };
        let text = text(&status);
        let labels = "flow=\"f\",node=\"process[0]\",name=\"score\"";
        for line in [
            format!("loom_node_call_seconds_bucket{{{labels},le=\"1\"}} 5"),
            format!("loom_node_call_seconds_bucket{{{labels},le=\"+Inf\"}} 6"),
            format!("loom_node_call_seconds_sum{{{labels}}} 7.5"),
            "loom_record_resolution_seconds_bucket{flow=\"f\",le=\"0.5\"} 2".to_owned(),
            "loom_record_resolution_seconds_count{flow=\"f\"} 6".to_owned(),
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn topics_that_are_gone_and_partitions_that_were_added_are_named() {
        let status = FlowStatus {
            flow: "f".to_owned(),
            missing_topics: vec!["orders".to_owned()],
            added_partitions: vec![AddedPartition { topic: "in".to_owned(), partition: 3 }],
            ..FlowStatus::default()
        };
        let text = text(&status);
        for line in [
            "loom_input_topic_missing{flow=\"f\",topic=\"orders\"} 1.0",
            "loom_partition_added{flow=\"f\",topic=\"in\",partition=\"3\"} 1.0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
    }
}
