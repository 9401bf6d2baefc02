//! `graph`: where records go in a flow, drawn. Nothing is started, and no plugin is looked into.

use loom_flow::GraphFormat;

use crate::args::{Drawing, GraphArgs};
use crate::flow_file;
use crate::report;
use crate::show;
use crate::status::Status;
use crate::terminal;

/// Draws the flow; one with errors is not drawn, and they are told.
pub fn graph(args: &GraphArgs) -> Status {
    let layers = match flow_file::layers(&args.flow, &args.settings) {
        Ok(layers) => layers,
        Err(issue) => {
            report::unreadable(&issue);
            return Status::Flow;
        }
    };
    let compiled = layers.compile_to_show();
    let format = match args.format {
        Drawing::Text => GraphFormat::Text { unicode: terminal::takes_unicode() },
        Drawing::Mermaid => GraphFormat::Mermaid,
        Drawing::Dot => GraphFormat::Dot,
    };
    match compiled.graph(format) {
        Some(drawn) if args.format == Drawing::Text => show::print(&drawn),
        Some(drawn) => show::print_exact(&drawn),
        None => {
            report::beside(&compiled);
            Status::Flow
        }
    }
}
