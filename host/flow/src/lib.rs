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
mod checks;
mod entry;
pub mod expr;
mod grammar;
mod interpolate;
mod issue;
mod lower;
pub mod plan;
mod reader;
mod render;
mod report;
mod schema;
mod spec;
mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use ask::{ClientKind, ComponentFacts, Components, Environment, KafkaKeys, KeyRefusal, Role};
pub use entry::{Entry, Raised};
pub use issue::{Code, Domain, Issue, Severity, Stretch};
pub use plan::Plan;
pub use render::{HumanStyle, counts, to_json};
pub use schema::schema;

use interpolate::Secrets;
use report::{Problem, Report};
use spec::Cx;
use text::{Span, Text};

/// A flow file, read.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Its name as the user gave it; issues carry it.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The folder that relative paths in the flow are beside.
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
    /// The file's text for excerpts, secrets masked.
    excerpt: String,
    file: String,
    secrets: Secrets,
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
        render::human(&self.issues, &self.file, &self.excerpt, style)
    }

    /// A text of somebody else's (a client's error, a log line) without secrets: what came from files, what came from
    /// the environment into `security`, `extra`, plugin configuration and grants, and what expressions read of it.
    /// Addresses and names stay, so that an error can say which broker is not there.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        self.secrets.redact(text)
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
    let (text, not_text) = Text::decode(&source.bytes);
    let mut report = Report::new(&source.name, text);
    if let Some(bad) = not_text {
        let problem = Problem::error(Code::FileInvalid, bad.message).maybe_hint(bad.hint);
        report.push_at(Span { start: bad.at, end: bad.at }, "", problem);
        return unread(report, &source.name);
    }
    let Some(root) = reader::read(&mut report) else {
        return unread(report, &source.name);
    };
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
    let plan = flow.filter(|_| !report.has_errors()).and_then(|flow| lower::lower(&flow, expression_env));
    finish(report, &source.name, plan, secrets, &masks)
}

/// The outcome for a file that has no tree, where no secret is known for one.
fn unread(report: Report, file: &str) -> Compiled {
    let masks = report.text().likely_secrets();
    finish(report, file, None, Secrets::default(), &masks)
}

fn finish(report: Report, file: &str, plan: Option<Plan>, secrets: Secrets, masks: &[Span]) -> Compiled {
    let excerpt = report.text().masked(masks);
    Compiled { plan, issues: report.finish(), excerpt, file: file.to_owned(), secrets }
}
