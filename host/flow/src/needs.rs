//! What a flow needs of its brokers and of its process, and where it says so: for those who ask, and want to point at the
//! place.

use std::collections::BTreeMap;

use crate::report::{Place, Report};
use crate::spec::{FlowSpec, IntoTopic, Kind, nodes, processes};
use crate::{Code, Compiled, HumanStyle, Issue, Severity, Stretch};

/// Something that a flow needs of its brokers, or of its process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// The brokers of its consumer.
    Brokers,
    /// A topic that it reads.
    Input(String),
    /// An output, by its logical name.
    Output(String),
    /// Its group.
    Group,
    /// A node that one worker alone can run, by its path.
    Keyed(String),
}

/// Where something is said.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    file: String,
    at: Stretch,
    path: String,
}

/// The places of what a flow needs; the first, where it is said several times.
pub(crate) fn needs(flow: &FlowSpec, report: &Report) -> BTreeMap<Need, Said> {
    let mut all = BTreeMap::new();
    let mut add = |need: Need, place: &Place| {
        let (file, text) = &report.files()[usize::from(place.span.file)];
        let said = Said { file: file.clone(), at: text.stretch(place.span), path: place.path.to_string() };
        all.entry(need).or_insert(said);
    };
    if let Some(consumer) = flow.consumer() {
        add(Need::Brokers, &consumer.place);
        if let Some(group) = &consumer.group_id {
            add(Need::Group, &group.place);
        }
        for topic in consumer.topics.iter().flat_map(|topics| &topics.value) {
            add(Need::Input(topic.value.clone()), &topic.place);
        }
    }
    for (node, _) in nodes(&processes(flow)) {
        if let Kind::CollectBatch { key: Some(_), .. } = &node.kind {
            add(Need::Keyed(node.place.path.to_string()), &node.place);
        }
        if let Kind::IntoTopic(IntoTopic { output, dlq, .. }) = &node.kind {
            for output in output.iter().chain(dlq) {
                add(Need::Output(output.value.clone()), &output.place);
            }
        }
    }
    all
}

impl Compiled {
    /// Problems that a broker, or the process, showed, each at the place of what it is about, and the same for people. What was
    /// found in the flow before is not among them.
    #[must_use]
    pub fn placed(
        &mut self,
        problems: &[(Need, Code, String, Option<String>)],
        style: HumanStyle,
    ) -> (Vec<Issue>, String) {
        let before = std::mem::take(&mut self.issues);
        for (need, code, message, hint) in problems {
            self.add(need, *code, message, hint.clone());
        }
        let text = self.render(style);
        (std::mem::replace(&mut self.issues, before), text)
    }

    /// Adds a problem that only a broker, or the process, shows, at the place of what it is about.
    pub fn add(&mut self, need: &Need, code: Code, message: &str, hint: Option<String>) {
        let whole = Said {
            file: self.excerpts.first().map(|(file, _)| file.clone()).unwrap_or_default(),
            at: Stretch { line: 1, column: 1, offset: 0, len: 0 },
            path: String::new(),
        };
        let Said { file, at, path } = self.needs.get(need).unwrap_or(&whole).clone();
        let message = self.redact(message);
        let issue = Issue { severity: Severity::Error, code, message, file, at, related: None, path, hint };
        self.issues.push(issue);
        let order: Vec<String> = self.excerpts.iter().map(|(file, _)| file.clone()).collect();
        let place = |issue: &Issue| order.iter().position(|file| *file == issue.file);
        self.issues.sort_by_key(|issue| (place(issue), issue.at.offset));
    }
}
