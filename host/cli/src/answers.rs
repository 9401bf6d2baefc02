//! What the flow compiler asks of others, answered: the process's environment, the plugins' files, the Kafka client.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::LazyLock;

use loom_flow::plan::Security;
use loom_flow::{
    ClientKind, ClientSettings, ComponentFacts, Components, Environment, KafkaKeys, KeyRefusal, Role,
};
use loom_kafka::{ConsumerSettings, CredentialSettings, ProducerSettings, Sensitive, librdkafka};
use loom_plugin::{Facts, FactsError, read_facts};

use crate::flow_file::{nearest_hint, words};

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
                Some(nearest_hint(path, &source, is_component).unwrap_or_else(|| beside.to_owned()))
            }
            _ => None,
        }
    }

    fn is_foreign(&self, path: &Path) -> bool {
        read_facts(path).is_err_and(|error| !error.is_bad_file())
    }
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
    use loom_flow::{ClientKind, KafkaKeys, KeyRefusal};

    use super::ClientKeys;

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
