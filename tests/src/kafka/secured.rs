//! Brokers with protected listeners, users with passwords, and rights that can be given and taken.
//!
//! The plain listener stays as it is, for the tests themselves: whoever comes through it, or through TLS without a user,
//! may do anything. A user with a password may do nothing that was not allowed.

use std::path::PathBuf;

use anyhow::{Context, Result};
use xtask::kafka::{Listener, Options, User, tool};

use super::{Access, Broker};
use crate::host::Folder;
use crate::tls::{Authority, Identity, Validity};

/// The user that there is.
pub const USER: &str = "loom";
/// The user's password.
pub const PASSWORD: &str = "open sesame";

/// The name in the certificate of a client that may do anything.
const CLIENT: &str = "loom-client";

/// Brokers with protected listeners.
pub struct Secured {
    /// The brokers.
    pub broker: Broker,
    authority: Authority,
    folder: Folder,
}

impl Secured {
    /// Starts so many. None where no Kafka can be had.
    ///
    /// # Errors
    /// If they do not start.
    pub fn start(brokers: usize) -> Result<Option<Self>> {
        let (authority, folder) = (Authority::new("loom test authority")?, Folder::new()?);
        let keep = |name: &str, text: &str| folder.write(name, text);
        keep("ca.pem", &authority.certificate()?)?;
        keep("other.pem", &Authority::new("another authority")?.certificate()?)?;
        let good = keep("broker.pem", &authority.issue("broker", Validity::Now)?.both())?;
        let expired = keep("expired.pem", &authority.issue("broker", Validity::Expired)?.both())?;
        let (good, expired) = (good.display().to_string(), expired.display().to_string());
        let ca = folder.join("ca.pem").display().to_string();

        let listener = |name: &str, protocol: &str, properties: &[(&str, &str)]| Listener {
            name: name.to_owned(),
            protocol: protocol.to_owned(),
            properties: properties.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        };
        let tls = [("ssl.keystore.type", "PEM"), ("ssl.keystore.location", good.as_str())];
        let mutual = [
            ("ssl.client.auth", "required"),
            ("ssl.truststore.type", "PEM"),
            ("ssl.truststore.location", ca.as_str()),
        ];
        let login = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
        let passwords = [
            ("sasl.enabled.mechanisms", "SCRAM-SHA-256,SCRAM-SHA-512"),
            ("scram-sha-256.sasl.jaas.config", login),
            ("scram-sha-512.sasl.jaas.config", login),
        ];
        let options = Options {
            listeners: vec![
                listener("TLS", "SSL", &tls),
                listener("EXPIRED", "SSL", &[tls[0], ("ssl.keystore.location", expired.as_str())]),
                listener("MUTUAL", "SSL", &[&tls[..], &mutual[..]].concat()),
                listener("SASL", "SASL_SSL", &[&tls[..], &passwords[..]].concat()),
                listener("OPEN", "SASL_PLAINTEXT", &passwords),
            ],
            users: vec![User { name: USER.into(), password: PASSWORD.into() }],
            properties: vec![
                (
                    "authorizer.class.name".into(),
                    "org.apache.kafka.metadata.authorizer.StandardAuthorizer".into(),
                ),
                ("super.users".into(), format!("User:ANONYMOUS;User:CN={CLIENT}")),
            ],
            java: Vec::new(),
        };
        let Some(broker) = Broker::own_with(brokers, &options)? else { return Ok(None) };
        Ok(Some(Self { broker, authority, folder }))
    }

    /// The certificate of the authority that signed the brokers'.
    pub fn authority(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// The certificate of one that did not.
    pub fn other_authority(&self) -> PathBuf {
        self.folder.join("other.pem")
    }

    /// A certificate for a client that may do anything.
    ///
    /// # Errors
    /// What the cryptographic library says.
    pub fn client(&self, validity: Validity) -> Result<Identity> {
        self.authority.issue(CLIENT, validity)
    }

    /// A listener: `TLS`, `EXPIRED`, `MUTUAL` (the client needs a certificate), `SASL` (a password within TLS) or `OPEN` (a
    /// password, in the open).
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn at(&self, listener: &str) -> Result<Access> {
        Ok(Access::at(self.broker.listener(listener)?))
    }

    /// As a flow should do it: the user's password within TLS, checked against the right authority.
    ///
    /// # Errors
    /// None, as long as the listeners are these.
    pub fn safely(&self) -> Result<Access> {
        let access = self.at("SASL")?.user("SASL_SSL", "SCRAM-SHA-512", USER, PASSWORD);
        Ok(access.trusting(&self.authority()))
    }

    /// Lets the user do everything with topics and groups whose names begin so.
    ///
    /// # Errors
    /// If Kafka's tool fails.
    pub fn allow(&self, prefix: &str) -> Result<()> {
        self.rights(&[
            "--add",
            "--allow-principal",
            &format!("User:{USER}"),
            "--operation",
            "All",
            "--topic",
            prefix,
            "--group",
            prefix,
            "--resource-pattern-type",
            "prefixed",
        ])
    }

    /// Denies the user an operation on one topic or group, whatever else is allowed. `kind` is `topic` or `group`.
    ///
    /// # Errors
    /// If Kafka's tool fails.
    pub fn deny(&self, operation: &str, kind: &str, name: &str) -> Result<()> {
        self.denial("--add", operation, kind, name)
    }

    /// Takes a denial back.
    ///
    /// # Errors
    /// If Kafka's tool fails.
    pub fn permit(&self, operation: &str, kind: &str, name: &str) -> Result<()> {
        self.denial("--remove", operation, kind, name)
    }

    fn denial(&self, what: &str, operation: &str, kind: &str, name: &str) -> Result<()> {
        let (principal, kind) = (format!("User:{USER}"), format!("--{kind}"));
        let mut arguments = vec![what, "--deny-principal", &principal, "--operation", operation, &kind, name];
        if what == "--remove" {
            arguments.push("--force");
        }
        self.rights(&arguments)
    }

    fn rights(&self, arguments: &[&str]) -> Result<()> {
        let jars = self.broker.jars.as_ref().context("Kafka's tools need Java and Maven")?;
        let address = self.broker.address();
        let arguments = [&["--bootstrap-server", &address], arguments].concat();
        tool(jars, "org.apache.kafka.tools.AclCommand", &arguments)?;
        Ok(())
    }
}
