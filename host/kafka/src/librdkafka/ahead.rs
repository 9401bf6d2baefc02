//! Warns ahead of clients' certificates that run out: brokers refuse them from then on at every new connection.
//!
//! What counts is what the files hold, since the flow begins anew with that when a certificate is refused. A file is looked
//! into when its client starts, when its certificate's last day begins, and otherwise once a day; and told of each time, from
//! that last day on until it is renewed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use openssl::asn1::{Asn1Time, Asn1TimeRef};

use super::files::{Files, leaf};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The certificates' files, and when each is looked into next.
    next: Mutex<BTreeMap<PathBuf, SystemTime>>,
}

impl Ahead {
    /// A client with these files starts. What it shares with an earlier one is not told again.
    pub(super) fn watch(&self, files: &Files) {
        let Some(file) = files.certificate_file() else { return };
        self.next.lock().unwrap_or_else(PoisonError::into_inner).entry(file.to_owned()).or_insert(UNIX_EPOCH);
        self.look();
    }

    /// Looks into what is due.
    pub(super) fn look(&self) {
        for (file, until) in self.ending(SystemTime::now()) {
            tracing::warn!(
                target: "kafka",
                file = %file.display(),
                until,
                "the client's certificate is valid for less than a day, or has expired: renew its file; brokers refuse it \
                 from then on, and the flow begins anew with what the file holds by then"
            );
        }
    }

    /// The files that are due now and whose certificates end within a day, with when they do, for people.
    fn ending(&self, now: SystemTime) -> Vec<(PathBuf, String)> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let due = next.iter_mut().filter(|(_, at)| **at <= now);
        due.filter_map(|(file, at)| {
            *at = now + DAY;
            let (end, text) = end(file)?;
            match end.duration_since(now) {
                Ok(left) if left > DAY => {
                    *at = (*at).min(end - DAY);
                    None
                }
                _ => Some((file.clone(), text)),
            }
        })
        .collect()
    }
}

/// Until when a file's certificate is valid, also for people. None where there is none in it.
fn end(file: &Path) -> Option<(SystemTime, String)> {
    let leaf = leaf(file)?;
    let end = moment(leaf.not_after())?;
    Some((end, leaf.not_after().to_string()))
}

/// None before 1970.
fn moment(time: &Asn1TimeRef) -> Option<SystemTime> {
    let since = Asn1Time::from_unix(0).ok()?.diff(time).ok()?;
    let seconds = i64::from(since.days) * 86_400 + i64::from(since.secs);
    UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use openssl::asn1::Asn1Time;
    use openssl::hash::MessageDigest;
    use openssl::pkey::PKey;
    use openssl::x509::X509;

    use super::{Ahead, Files};

    /// Writes a certificate that ends at this hour, counted from an arbitrary one.
    fn issue(file: &Path, until: u64) {
        let key = PKey::generate_ed25519().unwrap();
        let mut certificate = X509::builder().unwrap();
        let seconds = at(until).duration_since(UNIX_EPOCH).unwrap().as_secs();
        certificate.set_not_before(&Asn1Time::from_unix(0).unwrap()).unwrap();
        certificate.set_not_after(&Asn1Time::from_unix(seconds as i64).unwrap()).unwrap();
        certificate.set_pubkey(&key).unwrap();
        certificate.sign(&key, MessageDigest::null()).unwrap();
        std::fs::write(file, certificate.build().to_pem().unwrap()).unwrap();
    }

    fn at(hour: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000 + hour * 3600)
    }

    #[test]
    fn the_last_day_of_a_certificate_is_told_when_it_begins_and_daily_until_the_file_is_renewed() {
        let file = std::env::temp_dir().join(format!("loom-ahead-{}.pem", std::process::id()));
        issue(&file, 100);
        let ahead = Ahead::default();
        ahead.next.lock().unwrap().insert(file.clone(), UNIX_EPOCH);
        let told = |from: u64, until: u64| -> Vec<u64> {
            (from..until).filter(|hour| !ahead.ending(at(*hour)).is_empty()).collect()
        };
        // Its last day begins at 76, and no daily look falls on that.
        assert_eq!(told(0, 130), [76, 100, 124]);
        issue(&file, 1000);
        assert_eq!(told(130, 980), [976]);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(told(980, 1100), [0; 0], "what is not there has no end");
    }

    #[test]
    fn a_file_is_watched_once_and_what_is_no_certificate_is_passed_over() {
        let file = std::env::temp_dir().join(format!("loom-ahead-none-{}.pem", std::process::id()));
        std::fs::write(&file, "none").unwrap();
        let settings = [("ssl.certificate.location", file.to_str().unwrap()), ("ssl.ca.location", "ca.pem")];
        let files = Files::read(settings);
        let ahead = Ahead::default();
        ahead.watch(&files);
        ahead.watch(&files);
        ahead.watch(&Files::read([("ssl.ca.location", "ca.pem")]));
        assert_eq!(ahead.next.lock().unwrap().len(), 1);
        std::fs::remove_file(&file).unwrap();
    }
}
