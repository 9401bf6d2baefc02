//! What flow.yaml grants: environment variables by name, folders, hosts. Everything else is denied.
//!
//! Folders are opened by wasmtime-wasi, whose path resolution keeps `..`, absolute paths and links inside the folder.
//! A grant that cannot be given is found when the plugin is loaded, not when a record needs it.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

/// What a plugin may use. Printing it shows the names of variables, never their values.
#[derive(Clone, Default)]
pub struct Grants {
    /// Environment variables, with the values that the plugin sees.
    pub env: Vec<(String, String)>,
    /// Folders.
    pub dirs: Vec<DirGrant>,
    /// Hosts that it may send HTTP requests to.
    pub http: Vec<HostGrant>,
}

/// A host, or a family of hosts, on one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostGrant {
    host: HostPattern,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    Address(IpAddr),
    Name(String),
    /// Every name that ends so; with its dot, or empty for every name.
    Below(String),
}

impl HostGrant {
    /// Of a name, an address (IPv6 without brackets), `*.` and the end of a name, or `*`.
    #[must_use]
    pub fn new(host: &str, port: u16) -> Self {
        let host = host.to_ascii_lowercase();
        let host = match (host.parse(), host.strip_prefix('*')) {
            (Ok(address), _) => HostPattern::Address(address),
            (_, Some(end)) => HostPattern::Below(end.to_owned()),
            (_, None) => HostPattern::Name(host),
        };
        HostGrant { host, port }
    }

    /// Whether this grants a host as a request names it: none if not, else whether it names that host literally, so that
    /// its address may be private.
    pub(crate) fn covers(&self, host: &str, port: u16) -> Option<bool> {
        if port != self.port {
            return None;
        }
        let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let address = address.parse::<IpAddr>().ok();
        match (&self.host, address) {
            (HostPattern::Address(granted), Some(asked)) => (*granted == asked).then_some(true),
            // A dot at the end only says that the name is whole.
            (HostPattern::Name(granted), None) => {
                granted.eq_ignore_ascii_case(host.strip_suffix('.').unwrap_or(host)).then_some(true)
            }
            (HostPattern::Below(end), None) => {
                let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
                (host.ends_with(end.as_str()) && host.len() > end.len()).then_some(false)
            }
            // A family of names grants no address that is written out, but the one of all names does.
            (HostPattern::Below(end), Some(_)) => end.is_empty().then_some(false),
            (HostPattern::Address(_), None) | (HostPattern::Name(_), Some(_)) => None,
        }
    }
}

/// One folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirGrant {
    /// Where it is.
    pub host: PathBuf,
    /// Its path in the guest.
    pub guest: String,
    /// What may be done in it.
    pub mode: DirMode,
}

/// What may be done in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirMode {
    /// Reading and listing.
    ReadOnly,
    /// Everything.
    ReadWrite,
}

/// A grant that cannot be given.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    /// The folder is not there.
    #[error("the granted folder {} does not exist: create it, or take it out of `allow.dirs`", .host.display())]
    Missing {
        /// The folder.
        host: PathBuf,
    },
    /// The path is no folder.
    #[error("the granted path {} is a file: `allow.dirs` grants folders", .host.display())]
    NotAFolder {
        /// The path.
        host: PathBuf,
    },
    /// The folder is granted for writing and cannot be written.
    #[error("the granted folder {} cannot be written ({source}): grant it with `mode: ro`, or make it writable", .host.display())]
    NotWritable {
        /// The folder.
        host: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The folder cannot be read, or asked about.
    #[error("the granted folder {} cannot be opened: {source}", .host.display())]
    Closed {
        /// The folder.
        host: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

impl std::fmt::Debug for Grants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("Grants")
            .field("env", &names)
            .field("dirs", &self.dirs)
            .field("http", &self.http)
            .finish()
    }
}

impl Grants {
    /// Whether every grant can be given now.
    pub fn check(&self) -> Result<(), GrantError> {
        self.dirs.iter().try_for_each(DirGrant::check)
    }

    pub(crate) fn give(&self, builder: &mut WasiCtxBuilder) -> Result<(), GrantError> {
        builder.envs(&self.env);
        for dir in &self.dirs {
            let perms = match dir.mode {
                DirMode::ReadOnly => FsPerms::ReadOnly,
                DirMode::ReadWrite => FsPerms::ReadWrite,
            };
            builder
                .preopened_dir(&dir.host, &dir.guest, perms)
                .map_err(|error| GrantError::Closed { host: dir.host.clone(), source: io_error(error) })?;
        }
        Ok(())
    }
}

fn io_error(error: wasmtime::Error) -> std::io::Error {
    error.downcast().unwrap_or_else(|error| std::io::Error::other(error.to_string()))
}

impl DirGrant {
    fn check(&self) -> Result<(), GrantError> {
        let host = || self.host.clone();
        let meta = match std::fs::metadata(&self.host) {
            Ok(meta) => meta,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(GrantError::Missing { host: host() });
            }
            Err(source) => return Err(GrantError::Closed { host: host(), source }),
        };
        if !meta.is_dir() {
            return Err(GrantError::NotAFolder { host: host() });
        }
        ask(&self.host, Access::READ_OK | Access::EXEC_OK)
            .map_err(|source| GrantError::Closed { host: host(), source })?;
        if self.mode == DirMode::ReadWrite {
            // Asks the system, which knows of read-only mounts too, and leaves no trace in the folder.
            ask(&self.host, Access::WRITE_OK)
                .map_err(|source| GrantError::NotWritable { host: host(), source })?;
        }
        Ok(())
    }
}

fn ask(path: &Path, what: Access) -> std::io::Result<()> {
    access(path, what).map_err(std::io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::{DirGrant, DirMode, GrantError, Grants};

    #[test]
    fn printing_shows_no_value_of_the_environment() {
        let grants = Grants { env: vec![("TOKEN".to_owned(), "s3cret".to_owned())], ..Grants::default() };
        let text = format!("{grants:?}");
        assert!(text.contains("TOKEN") && !text.contains("s3cret"), "{text}");
    }

    #[test]
    fn a_host_is_covered_literally_or_by_a_family_of_names() {
        let covers = |granted: &str, asked: &str| super::HostGrant::new(granted, 443).covers(asked, 443);
        for (granted, asked, covered) in [
            ("api.example.com", "api.example.com", Some(true)),
            ("api.example.com", "API.example.com.", Some(true)),
            ("api.example.com", "example.com", None),
            ("api.example.com", "x.api.example.com", None),
            ("*.example.com", "api.example.com", Some(false)),
            ("*.example.com", "a.b.Example.com", Some(false)),
            ("*.example.com", "example.com", None),
            ("*.example.com", "badexample.com", None),
            ("*.example.com", "1.2.3.4", None),
            ("*", "anything.test", Some(false)),
            ("*", "1.2.3.4", Some(false)),
            ("10.0.0.5", "10.0.0.5", Some(true)),
            ("10.0.0.5", "10.0.0.6", None),
            ("::1", "[::1]", Some(true)),
            ("::1", "[0:0:0:0:0:0:0:1]", Some(true)),
        ] {
            assert_eq!(covers(granted, asked), covered, "{granted} {asked}");
        }
        assert_eq!(super::HostGrant::new("api.example.com", 443).covers("api.example.com", 80), None);
    }

    fn grant(host: &std::path::Path, mode: DirMode) -> Grants {
        Grants {
            dirs: vec![DirGrant { host: host.to_owned(), guest: "/d".to_owned(), mode }],
            ..Grants::default()
        }
    }

    #[test]
    fn what_cannot_be_given_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        assert!(grant(dir.path(), DirMode::ReadWrite).check().is_ok());
        let file = dir.path().join("file");
        std::fs::write(&file, b"").unwrap();
        assert!(matches!(grant(&file, DirMode::ReadOnly).check(), Err(GrantError::NotAFolder { .. })));
        let missing = dir.path().join("missing");
        assert!(matches!(grant(&missing, DirMode::ReadOnly).check(), Err(GrantError::Missing { .. })));
    }
}
