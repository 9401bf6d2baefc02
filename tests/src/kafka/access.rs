//! How a flow reaches a broker: its addresses, and how it proves who it is.

use std::path::Path;

use super::Broker;

/// The keys of a consumer or producer that say where its broker is, and who asks.
#[derive(Clone, Debug)]
pub struct Access {
    brokers: Vec<String>,
    security: Vec<(String, String)>,
    extra: Vec<(String, String)>,
}

impl Access {
    /// Without any protection.
    pub fn plain(broker: &Broker) -> Self {
        Self::at(broker.address().split(',').map(str::to_owned).collect())
    }

    /// At these addresses, and nothing else said.
    pub fn at(brokers: Vec<String>) -> Self {
        Self { brokers, security: Vec::new(), extra: Vec::new() }
    }

    /// The same with a key of `security`.
    #[must_use]
    pub fn secure(mut self, key: &str, value: &str) -> Self {
        self.security.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The same with a key of `extra`.
    #[must_use]
    pub fn extra(mut self, key: &str, value: &str) -> Self {
        self.extra.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The same with an authority that is trusted.
    #[must_use]
    pub fn trusting(self, authority: &Path) -> Self {
        self.extra("ssl.ca.location", &authority.display().to_string())
    }

    /// The same with a protocol, a user and a password.
    #[must_use]
    pub fn user(self, protocol: &str, mechanism: &str, name: &str, password: &str) -> Self {
        self.secure("protocol", protocol)
            .secure("sasl_mechanism", mechanism)
            .secure("sasl_username", name)
            .secure("sasl_password", password)
    }

    /// The keys as YAML in one line, without braces: `brokers: […], security: {…}, extra: {…}`.
    pub fn keys(&self) -> String {
        // JSON's texts are YAML's.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let list = |entries: &[(String, String)]| {
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{key}: {}", quoted(value))).collect();
            entries.join(", ")
        };
        let brokers: Vec<String> = self.brokers.iter().map(|broker| quoted(broker)).collect();
        let mut keys = format!("brokers: [{}]", brokers.join(", "));
        for (name, entries) in [("security", &self.security), ("extra", &self.extra)] {
            if !entries.is_empty() {
                keys.push_str(&format!(", {name}: {{ {} }}", list(entries)));
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::Access;

    #[test]
    fn only_what_is_set_is_written() {
        let plain = Access::at(vec!["a:1".into(), "b:2".into()]);
        assert_eq!(plain.keys(), r#"brokers: ["a:1", "b:2"]"#);
        let safe = plain.secure("protocol", "SSL").trusting("ca.pem".as_ref());
        assert_eq!(
            safe.keys(),
            r#"brokers: ["a:1", "b:2"], security: { protocol: "SSL" }, extra: { ssl.ca.location: "ca.pem" }"#
        );
    }
}
