//! The files that a client proves itself with: its certificate and key, and the authorities that it trusts.
//!
//! librdkafka reads them when a client starts and never again. So a client whose certificate has run out is refused for
//! good, whatever its file holds by then; a new client reads what is there. Whether that differs from what this one has
//! read decides, at a refusal, whether a new client may help.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use openssl::asn1::{Asn1Time, Asn1TimeRef};
use openssl::x509::X509;

/// The keys whose values are files, that of the client's certificate first.
const KEYS: [&str; 5] =
    [CERTIFICATE, "ssl.key.location", "ssl.keystore.location", "ssl.ca.location", "ssl.crl.location"];

const CERTIFICATE: &str = "ssl.certificate.location";

/// What a client has read.
#[derive(Debug, Default)]
pub(super) struct Files(Vec<File>);

#[derive(Debug)]
struct File {
    key: &'static str,
    path: PathBuf,
    /// Of what it held; none where it could not be read.
    digest: Option<u64>,
}

impl Files {
    /// Notes what the files of these settings hold now; other settings are passed over.
    pub(super) fn read<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Files {
        let file = |(key, path): (&str, &str)| {
            let key = KEYS.into_iter().find(|known| *known == key)?;
            Some(File { key, path: path.into(), digest: digest(path.as_ref()) })
        };
        Files(settings.into_iter().filter_map(file).collect())
    }

    /// Whether one of them holds something else than what was read. One that cannot be read now counts as unchanged: a
    /// new client could not read it either.
    pub(super) fn are_replaced(&self) -> bool {
        self.0.iter().any(|file| digest(&file.path).is_some_and(|now| file.digest != Some(now)))
    }

    /// The client's certificate, for people: its file, the key that names it, and until when it holds.
    pub(super) fn certificate(&self) -> Option<String> {
        let file = self.0.iter().find(|file| file.key == CERTIFICATE);
        let file = file.or_else(|| self.0.iter().find(|file| file.key == "ssl.keystore.location"))?;
        let name = format!("{} ({})", file.path.display(), file.key);
        Some(match leaf(&file.path) {
            Some(leaf) if is_over(leaf.not_after()) => {
                format!("{name}, which expired on {}", leaf.not_after())
            }
            Some(leaf) => format!("{name}, which is valid until {}", leaf.not_after()),
            None => name,
        })
    }

    /// The file of the client's certificate, where it is one that can be looked into.
    pub(super) fn certificate_file(&self) -> Option<&Path> {
        self.0.iter().find(|file| file.key == CERTIFICATE).map(|file| &*file.path)
    }
}

/// Of what a file holds.
fn digest(path: &Path) -> Option<u64> {
    let content = std::fs::read(path).ok()?;
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    Some(hasher.finish())
}

/// The first certificate of a file, which is the client's own.
pub(super) fn leaf(path: &Path) -> Option<X509> {
    X509::from_pem(&std::fs::read(path).ok()?).ok()
}

fn is_over(end: &Asn1TimeRef) -> bool {
    Asn1Time::days_from_now(0).is_ok_and(|now| end < &*now)
}

#[cfg(test)]
mod tests {
    use super::Files;

    #[test]
    fn only_another_content_is_a_replacement() {
        let folder = std::env::temp_dir().join(format!("loom-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name).display().to_string();
        let (certificate, ca) = (path("c.pem"), path("ca.pem"));
        std::fs::write(&certificate, "one").unwrap();
        let settings =
            [("ssl.certificate.location", &*certificate), ("ssl.ca.location", &*ca), ("client.id", &*ca)];
        let files = Files::read(settings);
        assert!(!files.are_replaced());
        std::fs::write(&certificate, "one").unwrap();
        assert!(!files.are_replaced(), "written anew with the same");
        std::fs::remove_file(&certificate).unwrap();
        assert!(!files.are_replaced(), "gone");
        std::fs::write(&certificate, "two").unwrap();
        assert!(files.are_replaced());
        let files = Files::read(settings);
        std::fs::write(&ca, "an authority").unwrap();
        assert!(files.are_replaced(), "it was not there before");
        let named = files.certificate().unwrap();
        assert!(named.contains(&certificate) && named.contains("ssl.certificate.location"), "{named}");
        assert_eq!(Files::read([("ssl.ca.location", "probe")]).certificate(), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
