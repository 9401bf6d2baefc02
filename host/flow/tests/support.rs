//! A world to compile in: variables, files, components and a Kafka client's settings, all made up.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use loom_flow::{
    ClientKind, ClientSettings, Code, CompileOptions, Compiled, ComponentFacts, Components, Environment,
    KafkaKeys, KeyRefusal, Mode, Plan, Role, Severity, SourceFile, compile_with,
};

/// A stopwatch that stands still while the machine does something else: the thread's time on a processor, where that can
/// be asked.
pub struct Stopwatch(Duration);

impl Stopwatch {
    pub fn start() -> Stopwatch {
        Stopwatch(on_processor())
    }

    pub fn took(&self) -> Duration {
        on_processor().saturating_sub(self.0)
    }
}

fn on_processor() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    let read = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = read.and_then(|text| text.split_whitespace().next()?.parse().ok());
    nanos.map_or_else(|| START.get_or_init(Instant::now).elapsed(), Duration::from_nanos)
}

/// What the flow sees of the world.
pub struct World {
    pub vars: BTreeMap<String, String>,
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    pub options: CompileOptions,
}

impl World {
    /// Nothing set, checking.
    pub fn new() -> World {
        World {
            vars: BTreeMap::new(),
            files: BTreeMap::new(),
            options: CompileOptions { mode: Mode::Check, require_env: false, plugins: true },
        }
    }

    pub fn mode(mut self, mode: Mode) -> World {
        self.options.mode = mode;
        self
    }

    pub fn var(mut self, name: &str, value: &str) -> World {
        self.vars.insert(name.to_owned(), value.to_owned());
        self
    }

    pub fn file(mut self, path: &str, bytes: &[u8]) -> World {
        self.files.insert(Path::new("flows").join(path), bytes.to_owned());
        self
    }

    pub fn compile(&self, text: &str) -> Compiled {
        self.compile_bytes(text.as_bytes())
    }

    pub fn compile_bytes(&self, bytes: &[u8]) -> Compiled {
        self.compile_with(bytes, &FileNames)
    }

    pub fn compile_with(&self, bytes: &[u8], components: &dyn Components) -> Compiled {
        self.compile_all(bytes, &[], components)
    }

    /// With overlays, each a name and a text.
    pub fn compile_layers(&self, bytes: &[u8], overlays: &[(&str, &str)]) -> Compiled {
        self.compile_all(bytes, overlays, &FileNames)
    }

    fn compile_all(&self, bytes: &[u8], overlays: &[(&str, &str)], components: &dyn Components) -> Compiled {
        let file = |name: &str, bytes: &[u8]| SourceFile {
            name: name.to_owned(),
            bytes: bytes.to_owned(),
            dir: "flows".into(),
        };
        let overlays: Vec<SourceFile> =
            overlays.iter().map(|(name, text)| file(name, text.as_bytes())).collect();
        let flow = file("flow.yaml", bytes);
        let compiled = compile_with(&flow, &overlays, self, components, &Client, self.options);
        // What a name with an unset variable means is not known, so that there may be neither a plan nor an error.
        let open = compiled.issues.iter().any(|issue| issue.code == Code::VariableUnset);
        assert!(
            compiled.plan.is_none() == (compiled.errors() > 0) || (compiled.plan.is_none() && open),
            "a plan is there exactly without errors: {compiled:?}"
        );
        compiled
    }

    /// The plan of a flow that must have no error.
    pub fn plan(&self, text: &str) -> Plan {
        let compiled = self.compile(text);
        match compiled.plan {
            Some(plan) => plan,
            None => panic!("{}", compiled.render(loom_flow::HumanStyle::default())),
        }
    }
}

impl Environment for World {
    fn var(&self, name: &str) -> Option<String> {
        self.vars.get(name).cloned()
    }

    fn file(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Components whose roles are the words of their file names: `step.wasm`, `step-predicate.wasm`. `untracked` is a
/// sink without the tracker's export, `broken` is no component, `foreign` one for another host.
pub struct FileNames;

impl Components for FileNames {
    fn facts(&self, path: &Path) -> Result<ComponentFacts, String> {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let mut facts = ComponentFacts { roles: BTreeSet::new(), tracked: false };
        for word in stem.split('-') {
            match word {
                "step" => drop(facts.roles.insert(Role::Step)),
                "predicate" => drop(facts.roles.insert(Role::Predicate)),
                "sink" => {
                    facts.roles.insert(Role::Sink);
                    facts.tracked = true;
                }
                "expander" => drop(facts.roles.insert(Role::Expand)),
                "typed" => drop(facts.roles.insert(Role::TypedExpander)),
                "batcher" => drop(facts.roles.insert(Role::BatchStep)),
                "gatherer" => drop(facts.roles.insert(Role::BatchExpand)),
                "selector" => drop(facts.roles.insert(Role::Selector)),
                "partitioner" => drop(facts.roles.insert(Role::Partitioner)),
                "untracked" => drop(facts.roles.insert(Role::Sink)),
                "broken" => return Err(format!("`{}` is not a WebAssembly component", path.display())),
                "foreign" => {
                    return Err("it imports `other:host/thing`, which this host does not have".to_owned());
                }
                _ => {}
            }
        }
        Ok(facts)
    }

    fn is_foreign(&self, path: &Path) -> bool {
        path.ends_with("foreign.wasm")
    }
}

/// The components of the codes' examples, by what they are for.
pub struct ExamplePlugins;

impl Components for ExamplePlugins {
    fn facts(&self, path: &Path) -> Result<ComponentFacts, String> {
        let role = match path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default() {
            "enrich" => Role::Step,
            "split" => Role::Expand,
            "score" => Role::BatchStep,
            "summary" => Role::BatchExpand,
            "vip" => Role::Predicate,
            "lines" => Role::TypedExpander,
            "warehouse" | "printer" => Role::Sink,
            "notes" => return Err(format!("`{}` is text, not a WebAssembly component", path.display())),
            "enrich-of-track-9" => {
                return Err("it exports `loom:plugin/step` of track 9; this host has track 0.1".to_owned());
            }
            other => panic!("the examples know no plugin `{other}`"),
        };
        Ok(ComponentFacts { roles: BTreeSet::from([role]), tracked: path.ends_with("warehouse.wasm") })
    }

    fn is_foreign(&self, path: &Path) -> bool {
        path.ends_with("enrich-of-track-9.wasm")
    }
}

/// A client that knows a few settings; the numeric ones refuse other values, and repeat them. A group is managed, LIFO
/// forbidden, nothing may be empty. It does not start where the least of a fetch is its most, or
/// where a key's file is not there.
pub struct Client;

impl KafkaKeys for Client {
    fn check(&self, _client: ClientKind, key: &str, value: &str) -> Result<(), KeyRefusal> {
        match key {
            "group.id" => Err(KeyRefusal::Managed(
                "the field `group_id` sets the group, and the host is no member of it".to_owned(),
            )),
            "queuing.strategy" => {
                Err(KeyRefusal::Forbidden("records would be written out of their order".to_owned()))
            }
            key if !self.known().contains(&key) => Err(KeyRefusal::Unknown),
            _ if value.is_empty() => Err(KeyRefusal::OutOfBounds("it is empty".to_owned())),
            "fetch.min.bytes" | "linger.ms" if value.parse::<u32>().is_err() => Err(KeyRefusal::Refused(
                format!("Invalid value \"{value}\" for configuration property \"{key}\""),
            )),
            _ => Ok(()),
        }
    }

    fn check_all(&self, settings: &ClientSettings<'_>) -> Result<(), String> {
        let of = |key: &str| settings.extra.iter().find(|(set, _)| *set == key).map(|(_, value)| *value);
        if of("fetch.min.bytes").is_some() && of("fetch.min.bytes") == of("fetch.max.bytes") {
            return Err("`fetch.max.bytes` must be > `fetch.min.bytes`".to_owned());
        }
        match of("ssl.key.location") {
            Some(file) if file.ends_with("no-such.pem") => Err(format!("ssl.key.location failed: {file}")),
            _ => Ok(()),
        }
    }

    fn known(&self) -> &[&str] {
        &[
            "fetch.max.bytes",
            "fetch.min.bytes",
            "linger.ms",
            "ssl.ca.location",
            "ssl.key.location",
            "ssl.key.password",
        ]
    }
}

/// A flow around a process, in at least once, with those plugins that it names, of: `s` a step, `p` a predicate, `k` a
/// sink, `u` an untracked one, `x` an expander, `t` a typed one, `b` a batch step, `bx` a batch expander.
pub fn around(process: &str) -> String {
    around_with(process, "")
}

/// As [`around`], with more at the top level.
pub fn around_with(process: &str, more: &str) -> String {
    let named = |name: &str| {
        let words = |text: &str| {
            text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == name)
        };
        words(process) || words(more)
    };
    let plugins: String = [
        ("s", "step"),
        ("p", "predicate"),
        ("k", "sink"),
        ("u", "untracked"),
        ("x", "expander"),
        ("t", "typed"),
        ("b", "batcher"),
        ("bx", "gatherer"),
    ]
    .iter()
    // A line each, so that places do not depend on what is used.
    .map(|(name, file)| match named(name) {
        true => format!("  {name}: {{ component: {file}.wasm }}\n"),
        false => format!("  # {name}\n"),
    })
    .collect();
    format!(
        "name: test
kafka:
  consumer: {{ brokers: [localhost:9092], group_id: g, topics: [in], delivery: at_least_once }}
  producer: {{ brokers: [localhost:9092] }}
plugins:
{plugins}process: {process}
{more}
"
    )
}

/// `CODE path` of every error, in the order of the file.
pub fn errors(compiled: &Compiled) -> Vec<String> {
    codes(compiled, Severity::Error)
}

/// `CODE path` of every warning, in the order of the file.
pub fn warnings(compiled: &Compiled) -> Vec<String> {
    codes(compiled, Severity::Warning)
}

fn codes(compiled: &Compiled, severity: Severity) -> Vec<String> {
    let of = compiled.issues.iter().filter(|issue| issue.severity == severity);
    of.map(|issue| format!("{} {}", issue.code, issue.path)).collect()
}
