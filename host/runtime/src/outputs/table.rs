//! Which outputs a worker's writer has: known before there is a writer.
//!
//! An output of the writer is a topic together with the node that writes there and the ending of its rows, so that an
//! acknowledgement alone says how its row ended, or whose failure it is.

use std::collections::BTreeMap;

use loom_flow::plan::OutputId;
use loom_kafka::{OutputIndex, OutputSettings, Stamp};
use loom_types::{Ending, ErrorKind};

use crate::nodes::NodeId;

/// Rows of one node that go to one output and end in one way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub output: OutputId,
    pub node: NodeId,
    pub ending: Ending,
    /// The output is the node's `dlq`: its first choice refused these rows.
    pub dead_letter: bool,
    pub stamp: Stamp,
}

impl Route {
    /// The kind under which the rows entered an error route; none in the main process.
    pub(crate) fn kind(&self) -> Option<ErrorKind> {
        match self.ending {
            Ending::ErrorRoute(kind) => Some(kind),
            _ => None,
        }
    }
}

type Key = (OutputId, NodeId, Ending, bool);

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputTable {
    routes: Vec<Route>,
    index: BTreeMap<Key, OutputIndex>,
}

impl OutputTable {
    /// Adds rows of a node to its first choice: with the record's time, or as the flow says.
    pub(crate) fn add(&mut self, output: OutputId, node: NodeId, ending: Ending, stamp: Stamp) {
        self.insert(Route { output, node, ending, dead_letter: false, stamp });
    }

    /// Adds rows that a node's first choice refused.
    pub(crate) fn add_dead_letters(&mut self, output: OutputId, node: NodeId, ending: Ending) {
        self.insert(Route { output, node, ending, dead_letter: true, stamp: Stamp::Now });
    }

    fn insert(&mut self, route: Route) {
        // An error row carries the time of its failure: with the record's own, an old backlog's errors would be past the
        // topic's retention on arrival.
        let stamp = if route.kind().is_some() { Stamp::Now } else { route.stamp };
        let key = (route.output, route.node, route.ending, route.dead_letter);
        self.index.insert(key, OutputIndex(self.routes.len()));
        self.routes.push(Route { stamp, ..route });
    }

    /// Panics where the node did not register this output when the flow was lowered.
    pub(super) fn find(
        &self,
        output: OutputId,
        node: NodeId,
        ending: Ending,
        dead_letter: bool,
    ) -> OutputIndex {
        match self.index.get(&(output, node, ending, dead_letter)) {
            Some(index) => *index,
            None => unreachable!("every writing node registers its outputs when the flow is lowered"),
        }
    }

    pub(super) fn route(&self, index: OutputIndex) -> &Route {
        &self.routes[index.0]
    }

    pub(super) fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// What the writer is built from.
    pub(crate) fn settings(&self, outputs: &[OutputSettings]) -> Vec<OutputSettings> {
        self.routes.iter().map(|route| outputs[route.output.0].clone()).collect()
    }
}
