//! Understanding: from the tree to what the flow says, every key of the language known and every leaf typed.
//!
//! Nothing here compares one part of the flow with another; that is what `checks` does, over the values of this
//! module.

mod address;
mod cx;
mod errors;
mod exprs;
pub(crate) mod fields;
mod foreign;
mod hosts;
mod kafka;
mod nodes;
mod plugins;
mod process;
mod runtime;
mod switch;
pub(crate) mod values;
mod walk;

pub(crate) use address::canonical;
pub(crate) use cx::Cx;
pub(crate) use errors::{ErrorsSpec, unrouted};
pub(crate) use exprs::{Choice, ExprSpec};
pub use fields::nearest;
pub(crate) use kafka::{ConsumerSpec, ExtraSpec, KafkaSpec, ProducerSpec, extra_map};
pub(crate) use plugins::{ComponentSpec, PluginSpec};
pub(crate) use process::{CallOptions, IntoTopic, Kind, NodeSpec, ProcessSpec};
pub(crate) use switch::{Branches, Default as SwitchDefault, SwitchSpec};
pub(crate) use values::Text;
pub(crate) use walk::{Seat, Seated, inner, nodes, plugin_refs, processes};

use std::sync::Arc;

use fields::{Field, Fields};

use crate::grammar;
use crate::issue::Code;
use crate::plan::RuntimePlan;
use crate::reader::{Content, Node};
use crate::report::{Place, Problem};

/// A flow as written.
#[derive(Debug)]
pub(crate) struct FlowSpec {
    pub(crate) name: Option<Text>,
    /// The consumer's name; none for `consumer`.
    pub(crate) source: Option<Text>,
    /// None if there is no such section, or it was not understood.
    pub(crate) kafka: Option<KafkaSpec>,
    /// Whether the section is there at all.
    pub(crate) has_kafka: bool,
    pub(crate) runtime: RuntimePlan,
    pub(crate) plugins: Vec<PluginSpec>,
    pub(crate) process: Option<ProcessSpec>,
    pub(crate) errors: Option<ErrorsSpec>,
    /// The whole file, for what is missing.
    pub(crate) place: Place,
}

impl FlowSpec {
    /// The consumer that the flow reads.
    pub(crate) fn consumer(&self) -> Option<&ConsumerSpec> {
        let named = self.source.as_ref().filter(|source| source.value != "consumer");
        self.kafka.as_ref()?.consumers.iter().find(|consumer| match named {
            Some(source) => consumer.named && consumer.name == source.value,
            None => !consumer.named,
        })
    }
}

/// Understands a tree.
pub(crate) fn flow(cx: &mut Cx<'_>, root: &Node) -> Option<FlowSpec> {
    let path: Arc<str> = Arc::from("");
    // The first key stands for the file: a span over all of it would make every excerpt the whole flow.
    let span = match &root.content {
        Content::Mapping(entries) => entries.first().map_or(root.span, |entry| entry.key.span),
        _ => root.span,
    };
    let place = Place { span, path };
    let Content::Mapping(entries) = &root.content else {
        let problem = Problem::error(Code::FileInvalid, format!("a flow is a mapping, not {}", root.what()))
            .hint("a flow needs at least `name`, `kafka` and `process`");
        cx.push(&place, problem);
        return None;
    };
    let mut fields = Fields::new(entries, place.clone(), &grammar::FLOW);
    let name = fields.need(cx, "name").and_then(|field| values::name(cx, &field));
    let source = fields.take("source").and_then(|field| values::name(cx, &field));
    let kafka_field = fields.take("kafka");
    let has_kafka = kafka_field.is_some();
    let kafka = kafka_field.and_then(|field| kafka::kafka(cx, &field));
    let runtime_field = fields.take("runtime");
    let runtime = runtime::runtime(cx, runtime_field);
    let plugins = fields.take("plugins").map(|field| plugins::plugins(cx, &field)).unwrap_or_default();
    let process = fields.need(cx, "process").and_then(|field| top_process(cx, &field));
    let errors = fields.take("errors").and_then(|field| errors::errors(cx, &field, true));
    fields.finish(cx, "a flow");
    Some(FlowSpec { name, source, kafka, has_kafka, runtime, plugins, process, errors, place })
}

fn top_process(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<ProcessSpec> {
    let process = process::process(cx, field)?;
    if process.nodes.is_empty() {
        let problem = Problem::error(Code::ValueInvalid, "`process` has no nodes")
            .hint("a process ends in a terminal, such as `- into_topic: NAME`");
        cx.push(&process.place, problem);
        return None;
    }
    Some(process)
}
