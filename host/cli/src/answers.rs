//! What the flow compiler asks of others, answered: the process's environment, the plugins' files, the Kafka client.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use loom_flow::plan::Security;
use loom_flow::{
    ClientKind, ClientSettings, ComponentFacts, Components, Environment, KafkaKeys, KeyRefusal, Role,
};
use loom_kafka::{ConsumerSettings, CredentialSettings, ProducerSettings, Sensitive, librdkafka};
use loom_plugin::{Facts, FactsError, read_facts};

use crate::flow_file::{dangling, nearest_hint, words};

/// No secret or certificate is larger; it bounds what an endless file can take.
const MAX_FILE: u64 = 1 << 20;

/// The environment that this process was started in.
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn var(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut read = || File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes);
        read().map_err(|error| io::Error::new(error.kind(), words(&error)))?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(io::Error::other(format!("it is larger than {} KiB", MAX_FILE >> 10)));
        }
        Ok(bytes)
    }
}

/// The plugins' files, read without compiling them.
pub struct PluginFiles;

impl Components for PluginFiles {
    fn facts(&self, path: &Path) -> Result<ComponentFacts, String> {
        read_facts(path).map(|facts| of_component(&facts)).map_err(|error| why_no_plugin(&error))
    }

    fn hint(&self, path: &Path) -> Option<String> {
        match read_facts(path) {
            Err(FactsError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                let beside = "build the plugin, or name its file: a path is beside the flow file";
                let built = build_command(&dangling(path).unwrap_or_else(|| path.to_owned()));
                let near = nearest_hint(path, &source, is_component).filter(|_| {
                    // A folder of outputs that is not there is made by the build.
                    built.is_none() || dangling(path).is_some()
                });
                match (near, built) {
                    (Some(near), Some(built)) => Some(format!("{near}; {built}")),
                    (near, built) => near.or(built).or_else(|| Some(beside.to_owned())),
                }
            }
            _ => None,
        }
    }

    fn is_foreign(&self, path: &Path) -> bool {
        read_facts(path).is_err_and(|error| !error.is_bad_file())
    }
}

/// How a component is built whose file is among cargo's outputs: below a folder `target`.
fn build_command(path: &Path) -> Option<String> {
    let parts: Vec<_> = path.iter().collect();
    let target = parts.iter().rposition(|part| *part == "target")?;
    let below = &parts[target + 1..];
    let is_output = |part: &str| part.starts_with("wasm32") || matches!(part, "release" | "debug");
    below.iter().filter_map(|part| part.to_str()).find(|part| is_output(part))?;
    let release = if below.iter().any(|part| *part == "debug") { "" } else { " --release" };
    let triple = below.iter().filter_map(|part| part.to_str()).find(|part| part.starts_with("wasm32"));
    let triple = triple.unwrap_or("wasm32-wasip2");
    let manifest = parts[..target].iter().collect::<PathBuf>().join("Cargo.toml");
    let beside = match manifest.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        None => String::new(),
        Some(_) => format!(" --manifest-path {}", manifest.display()),
    };
    Some(format!("build it: `cargo build{release} --target {triple}{beside}`"))
}

fn is_component(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "wasm")
}

/// Why a file is no plugin of this host, with the system's errors in plain words.
pub fn why_no_plugin(error: &FactsError) -> String {
    match error {
        FactsError::Unreadable { file, source } => {
            format!("cannot read {}: {}", file.display(), words(source))
        }
        other => other.to_string(),
    }
}

fn of_component(facts: &Facts) -> ComponentFacts {
    let roles = [
        (facts.roles.is_step(), Role::Step),
        (facts.roles.is_expander(), Role::Expand),
        (facts.roles.batch_step, Role::BatchStep),
        (facts.roles.batch_expand, Role::BatchExpand),
        (facts.roles.typed_expand, Role::TypedExpander),
        (facts.roles.is_predicate(), Role::Predicate),
        (facts.roles.selector, Role::Selector),
        (facts.roles.partitioner, Role::Partitioner),
        (facts.roles.sink, Role::Sink),
    ];
    ComponentFacts {
        roles: roles.into_iter().filter_map(|(is, role)| is.then_some(role)).collect(),
        tracked: facts.roles.tracked,
    }
}

/// The settings that librdkafka has and takes, and those that the host leaves to a flow.
pub struct ClientKeys;

impl KafkaKeys for ClientKeys {
    fn check(&self, client: ClientKind, key: &str, value: &str) -> Result<(), KeyRefusal> {
        let client = match client {
            ClientKind::Consumer => librdkafka::ClientKind::Consumer,
            ClientKind::Producer => librdkafka::ClientKind::Producer,
        };
        librdkafka::check_key(client, key, value).map_err(|refusal| match refusal {
            librdkafka::KeyRefusal::Unknown => KeyRefusal::Unknown,
            librdkafka::KeyRefusal::Managed(why) => KeyRefusal::Managed(why.to_owned()),
            librdkafka::KeyRefusal::Forbidden(why) => KeyRefusal::Forbidden(why.to_owned()),
            librdkafka::KeyRefusal::OutOfBounds(why) => KeyRefusal::OutOfBounds(why),
            librdkafka::KeyRefusal::ByClient(why) => KeyRefusal::Refused(why),
        })
    }

    fn check_all(&self, settings: &ClientSettings<'_>) -> Result<(), String> {
        let extra = settings.extra.iter();
        let extra = extra.map(|(key, value)| ((*key).to_owned(), Sensitive((*value).to_owned()))).collect();
        let credentials = credentials(settings.security);
        match settings.client {
            ClientKind::Consumer => librdkafka::try_consumer(&ConsumerSettings {
                // Neither is asked: a client that is tried speaks to nobody.
                brokers: Vec::new(),
                group_id: "check".to_owned(),
                credentials,
                forward_tombstones: false,
                prefetch: settings.prefetch,
                poll_backoff: settings.poll_backoff,
                extra,
            }),
            ClientKind::Producer => librdkafka::try_producer(&ProducerSettings {
                brokers: Vec::new(),
                credentials,
                compression: settings.compression.map(str::to_owned),
                idempotence: settings.idempotence,
                largest_batch: None,
                extra,
            }),
        }
    }

    fn known(&self) -> &[&str] {
        static KEYS: LazyLock<Vec<&str>> = LazyLock::new(librdkafka::settable_keys);
        &KEYS
    }
}

/// The same for those who only look at a flow: no client is tried, since its files need not be on this machine.
pub struct KeysAlone;

impl KafkaKeys for KeysAlone {
    fn check(&self, client: ClientKind, key: &str, value: &str) -> Result<(), KeyRefusal> {
        ClientKeys.check(client, key, value)
    }

    fn known(&self) -> &[&str] {
        ClientKeys.known()
    }
}

fn credentials(security: &Security) -> CredentialSettings {
    CredentialSettings {
        protocol: security.protocol.clone(),
        sasl_mechanism: security.sasl_mechanism.clone(),
        sasl_username: security.sasl_username.clone(),
        sasl_password: security.sasl_password.as_ref().map(|password| Sensitive(password.0.clone())),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use loom_flow::{ClientKind, Components, KafkaKeys, KeyRefusal};

    use super::{ClientKeys, PluginFiles, build_command};

    #[test]
    fn a_component_among_the_outputs_of_a_build_is_told_with_the_build() {
        let built = |path: &str| build_command(Path::new(path));
        assert_eq!(
            built("flows/plugins/total/target/wasm32-wasip2/release/total.wasm").as_deref(),
            Some(
                "build it: `cargo build --release --target wasm32-wasip2 --manifest-path \
                 flows/plugins/total/Cargo.toml`"
            )
        );
        assert_eq!(
            built("target/wasm32-wasip1/debug/x.wasm").as_deref(),
            Some("build it: `cargo build --target wasm32-wasip1`")
        );
        assert_eq!([built("plugins/targets/x.wasm"), built("target/plugins/x.wasm")], [None, None]);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_not_what_is_meant() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("enrich.wasm");
        std::os::unix::fs::symlink("../out/target/wasm32-wasip2/release/enrich.wasm", &link).expect("a link");
        let hint = PluginFiles.hint(&link).expect("a hint");
        assert!(hint.contains("is a link to") && !hint.contains("did you mean"), "{hint}");
        assert!(hint.contains("cargo build --release --target wasm32-wasip2"), "{hint}");
        // Nor is it for a name that is near.
        let near = PluginFiles.hint(&folder.path().join("enrch.wasm")).expect("a hint");
        assert!(!near.contains("did you mean"), "{near}");
    }

    #[test]
    fn each_refusal_of_a_setting_is_told_from_the_others() {
        let check = |key, value| ClientKeys.check(ClientKind::Producer, key, value);
        assert_eq!(check("linger.ms", "3"), Ok(()));
        assert_eq!(check("linger.mss", "3"), Err(KeyRefusal::Unknown));
        assert!(
            matches!(check("linger.ms", "soon"), Err(KeyRefusal::Refused(why)) if why.contains("linger.ms"))
        );
        assert!(matches!(check("acks", "1"), Err(KeyRefusal::Managed(_))));
        assert!(matches!(check("queuing.strategy", "lifo"), Err(KeyRefusal::Forbidden(_))));
        assert!(matches!(check("queue.buffering.max.kbytes", "1"), Err(KeyRefusal::OutOfBounds(_))));
        assert!(ClientKeys.known().contains(&"linger.ms") && !ClientKeys.known().contains(&"acks"));
    }
}
