//! Flow language: YAML to a checked plan.
//!
//! [`compile`] reads a flow file once, into a tree with positions, and goes through named phases: read, understand
//! (every key of the language, with interpolation of its leaves), check (each rule a file under `checks/`), and lower
//! to a [`Plan`]. Every phase adds to one list of issues and none stops at the first; there is a plan when no issue is an
//! error.
//!
//! What must not be here: a Kafka client, a component engine, threads, the process's environment. What the compiler
//! asks of them are the traits [`Environment`], [`Components`] and [`KafkaKeys`].

mod ask;
pub mod cases;
mod checks;
mod entry;
pub mod expr;
mod grammar;
mod graph;
mod interpolate;
mod issue;
mod likely;
mod lower;
mod needs;
mod outline;
pub mod plan;
mod reader;
mod render;
mod report;
mod schema;
mod secrets;
mod slips;
mod spec;
mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use ask::{
    ClientKind, ClientSettings, ComponentFacts, Components, Environment, KafkaKeys, KeyRefusal, Role,
};
pub use entry::{Entry, Raised};
pub use graph::GraphFormat;
pub use issue::{Code, Domain, Issue, Severity, Stretch};
pub use needs::Need;
pub use plan::Plan;
pub use render::{HumanStyle, counts, to_json};
pub use schema::{case_schema, schema};
pub use spec::nearest;

use likely::Form;
use reader::Part;
use report::{Problem, Report};
use secrets::Secrets;
use spec::Cx;
use text::{Span, Text};

/// A flow file or an overlay, read.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Its name as the user gave it; issues carry it.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The folder that relative paths in the flow are beside. Of an overlay it is not used: what it says is said in the
    /// flow.
    pub dir: PathBuf,
}

/// What the flow is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// To say what is wrong. A variable that is not set is a warning, and the plan keeps the reference as written.
    Check,
    /// To run. A variable that is not set is an error.
    Run,
    /// To run without Kafka. As [`Mode::Run`], and `kafka.*.security` is never resolved and left out of the plan.
    Dev,
}

/// How to compile.
#[derive(Clone, Copy, Debug)]
pub struct CompileOptions {
    /// What for.
    pub mode: Mode,
    /// Whether a variable that is not set is an error under [`Mode::Check`] too.
    pub require_env: bool,
    /// Whether to ask [`Components`] about the plugins that the flow uses.
    pub plugins: bool,
}

/// The outcome of [`compile`].
pub struct Compiled {
    /// The checked flow. None if an issue is an error; and, under [`Mode::Check`], if which consumer, plugin or producer a
    /// place means depends on a variable that is not set.
    pub plan: Option<Plan>,
    /// Every problem, in the order of the file.
    pub issues: Vec<Issue>,
    /// The files' names and their texts for excerpts, secrets masked.
    excerpts: Vec<(String, String)>,
    secrets: Secrets,
    /// Where the flow says what it needs of its brokers.
    needs: BTreeMap<Need, needs::Said>,
}

impl Compiled {
    /// How many issues are errors.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.issues.iter().filter(|issue| issue.severity == Severity::Error).count()
    }

    /// How many issues are warnings.
    #[must_use]
    pub fn warnings(&self) -> usize {
        self.issues.len() - self.errors()
    }

    /// Whose fault the errors are, for the exit status of `run` and `dev`: the flow's before its pairing's; none if
    /// there is no error.
    #[must_use]
    pub fn blame(&self) -> Option<Domain> {
        let errors = self.issues.iter().filter(|issue| issue.severity == Severity::Error);
        let domains: Vec<Domain> = errors.map(|issue| issue.code.domain()).collect();
        if domains.contains(&Domain::Flow) { Some(Domain::Flow) } else { domains.first().copied() }
    }

    /// The issues for people, each with its excerpt; empty if there is none.
    #[must_use]
    pub fn render(&self, style: HumanStyle) -> String {
        render::human(&self.issues, &self.excerpts, style)
    }

    /// The plan's text form, secrets out: YAML with every name resolved and every default filled in. None if there is no plan.
    #[must_use]
    pub fn plan_text(&self) -> Option<String> {
        Some(plan::text::text(self.plan.as_ref()?, &|text| self.redact(text)))
    }

    /// The flow drawn, secrets out. None if there is no plan.
    #[must_use]
    pub fn graph(&self, format: GraphFormat) -> Option<String> {
        Some(graph::draw(self.plan.as_ref()?, format, &|text| self.redact(text)))
    }

    /// A text of somebody else's (a client's error, a log line) without secrets: what came from files, what came from
    /// the environment into `security`, `extra`, plugin configuration and grants, and what expressions read of it.
    /// Addresses and names stay, so that an error can say which broker is not there.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        self.secrets.redact(text)
    }

    /// As [`Compiled::redact`], without the secrets of any of these flows.
    #[must_use]
    pub fn redact_all(flows: &[Compiled], text: &str) -> String {
        Secrets::redact_all(flows.iter().map(|flow| &flow.secrets), text)
    }
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled")
            .field("plan", &self.plan)
            .field("issues", &self.issues)
            .finish_non_exhaustive()
    }
}

/// Compiles a flow. Never panics, whatever the bytes are.
#[must_use]
pub fn compile(
    source: &SourceFile,
    env: &dyn Environment,
    components: &dyn Components,
    keys: &dyn KafkaKeys,
    options: CompileOptions,
) -> Compiled {
    compile_with(source, &[], env, components, keys, options)
}

/// Compiles a flow with overlays over it, the later over the earlier: mappings merge by key, `null` deletes, and all else
/// is replaced. An issue is in the file that says what is wrong. Never panics, whatever the bytes are.
#[must_use]
pub fn compile_with(
    source: &SourceFile,
    overlays: &[SourceFile],
    env: &dyn Environment,
    components: &dyn Components,
    keys: &dyn KafkaKeys,
    options: CompileOptions,
) -> Compiled {
    let (files, not_text): (Vec<_>, Vec<_>) = std::iter::once(source)
        .chain(overlays)
        .map(|file| {
            let (text, not_text) = Text::decode(&file.bytes);
            ((file.name.clone(), text), not_text)
        })
        .unzip();
    let mut report = Report::new(files);
    let mut root = None;
    for (file, bad) in (0..).zip(not_text) {
        if let Some(bad) = bad {
            let problem = Problem::error(Code::FileInvalid, bad.message).maybe_hint(bad.hint);
            report.push_at(Span::at(file, bad.at), "", problem);
        } else if file == 0 {
            root = reader::read(&mut report, file, Part::Flow);
        } else if let Some(over) = reader::read(&mut report, file, Part::Overlay) {
            root = root.map(|root| reader::overlay(root, over, &mut report));
        }
    }
    let Some(root) = root else { return unread(report) };
    let mut cx = Cx {
        report: &mut report,
        env,
        dir: &source.dir,
        options,
        outside: Secrets::default(),
        secrets: Secrets::default(),
        masks: Vec::new(),
        expression_env: BTreeMap::new(),
    };
    let flow = spec::flow(&mut cx, &root);
    let Cx { outside, secrets, masks, expression_env, .. } = cx;
    if let Some(flow) = &flow {
        checks::check(flow, &mut report, &outside, components, keys, options);
    }
    let needs = flow.as_ref().map(|flow| needs::needs(flow, &report)).unwrap_or_default();
    let plan = flow.filter(|_| !report.has_errors()).and_then(|flow| lower::lower(&flow, expression_env));
    Compiled { needs, ..finish(report, plan, secrets, masks, Form::Read) }
}

/// The outcome for a flow that has no tree, where no secret is known for one.
fn unread(report: Report) -> Compiled {
    finish(report, None, Secrets::default(), Vec::new(), Form::Unread)
}

/// `masks`: what is known to be secret.
fn finish(report: Report, plan: Option<Plan>, secrets: Secrets, masks: Vec<Span>, form: Form) -> Compiled {
    let masked = (0..).zip(report.files()).map(|(file, (name, text))| {
        let mut here: Vec<Span> = masks.iter().copied().filter(|span| span.file == file).collect();
        here.extend(likely::secrets(text, file, form));
        (name.clone(), text.masked(&here))
    });
    let excerpts = masked.collect();
    Compiled { plan, issues: report.finish(), excerpts, secrets, needs: BTreeMap::new() }
}
