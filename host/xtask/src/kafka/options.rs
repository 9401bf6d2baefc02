//! What brokers may be started with.

/// What brokers may be started with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Further lines of `server.properties`; they win over ours.
    pub properties: Vec<(String, String)>,
    /// Listeners beside the plain one, which is always there.
    pub listeners: Vec<Listener>,
    /// Users that may log in with a password, by either SCRAM mechanism, from the first moment on.
    pub users: Vec<User>,
    /// Arguments of the Java machine; none = a gigabyte of heap, or less a broker in a cluster.
    pub java: Vec<String>,
}

/// One more address at which a broker is reached, each time on a free port.
#[derive(Clone, Debug, Default)]
pub struct Listener {
    /// Its name, in upper case.
    pub name: String,
    /// `SSL`, `SASL_SSL`, `SASL_PLAINTEXT` or `PLAINTEXT`.
    pub protocol: String,
    /// What is configured for it alone, without the prefix `listener.name.<name>.`.
    pub properties: Vec<(String, String)>,
}

/// A user with a password.
#[derive(Clone, Debug)]
pub struct User {
    /// The name; the principal is `User:<name>`.
    pub name: String,
    /// The password.
    pub password: String,
}

impl Options {
    /// The arguments of `StorageTool format` that make the users.
    pub(super) fn scram(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        for User { name, password } in &self.users {
            for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
                arguments.push("--add-scram".to_owned());
                arguments.push(format!("{mechanism}=[name={name},password={password}]"));
            }
        }
        arguments
    }

    /// The arguments of the Java machine, for one of so many brokers.
    pub(super) fn machine(&self, brokers: usize) -> Vec<String> {
        let ours: &[&str] = match brokers {
            1 => &["-Xmx1g"],
            // Several share a small machine: what the optimising compiler and a concurrent collector cost shows more
            // than what they bring.
            _ => &["-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
        };
        if self.java.is_empty() {
            ours.iter().map(|text| (*text).to_owned()).collect()
        } else {
            self.java.clone()
        }
    }
}
