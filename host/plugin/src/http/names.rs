//! Names and their addresses: looked up by us, judged, and remembered for a while.
//!
//! Invariants:
//! - an address of [`AddressClass::Never`] is given to nobody;
//! - a private address is given only for a name that is granted literally;
//! - a name that led to public addresses at first never leads to private ones later, whatever its servers say.

use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loom_types::AddressClass;
use tokio::time::Instant;

use super::SendError;

/// How long a look-up holds; services move, and resolvers keep answers no longer.
const HOLDS: Duration = Duration::from_secs(60);

/// How long a look-up may take.
const LOOK_UP: Duration = Duration::from_secs(10);

/// Names that are remembered, at most: wildcards let a guest ask for as many as it likes.
const REMEMBERED: usize = 1024;

/// The answer of a look-up.
pub(super) type Answer = Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send>>;

/// Asks for a name's addresses.
pub(super) type LookUp = Arc<dyn Fn(String) -> Answer + Send + Sync>;

/// The system's own look-up.
pub(super) fn system() -> LookUp {
    Arc::new(|name| {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    })
}

/// The names of one plugin's grants.
pub(super) struct Names {
    look_up: LookUp,
    known: Mutex<HashMap<String, Known>>,
}

#[derive(Clone)]
struct Known {
    addresses: Vec<IpAddr>,
    until: Instant,
    /// The first look-up led to private addresses.
    private: bool,
    literal: bool,
}

impl Names {
    pub(super) fn new(look_up: LookUp) -> Self {
        Names { look_up, known: Mutex::default() }
    }

    /// The addresses that a granted host may be reached at, in the order to try. `literal`: it is granted by its own name.
    pub(super) async fn addresses(&self, host: &str, literal: bool) -> Result<Vec<IpAddr>, SendError> {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return may_go(vec![address], literal).map_err(|why| prohibited(host, why));
        }
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let known = self.known(&name);
        if let Some(known) = known.as_ref().filter(|known| Instant::now() < known.until) {
            return Ok(known.addresses.clone());
        }
        let found = tokio::time::timeout(LOOK_UP, (self.look_up)(name.clone())).await;
        let found = match (found, known) {
            (Ok(Ok(found)), _) if !found.is_empty() => found,
            // Name servers have outages too; where the name led before is as good as it was.
            (_, Some(known)) => return Ok(known.addresses),
            (Err(_), None) => {
                return Err(SendError::LookUp(format!("looking up {name} took longer than {LOOK_UP:?}")));
            }
            (Ok(Ok(_)), None) => return Err(SendError::LookUp(format!("{name} has no address"))),
            (Ok(Err(error)), None) => return Err(SendError::LookUp(format!("{name}: {error}"))),
        };
        let before = self.known(&name).map(|known| known.private);
        let private_too = literal && before != Some(false);
        let addresses = may_go(found, private_too).map_err(|why| {
            let why = if literal && !private_too && why == PRIVATE { MOVED } else { why };
            prohibited(host, why)
        })?;
        let private = addresses.iter().any(|address| AddressClass::of(*address) == AddressClass::Private);
        self.remember(
            name,
            Known {
                addresses: addresses.clone(),
                until: Instant::now() + HOLDS,
                private: before.unwrap_or(private),
                literal,
            },
        );
        Ok(addresses)
    }

    /// None of a name's addresses can be connected to: the next request looks it up again.
    pub(super) fn failed(&self, host: &str) {
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        if let Some(known) = self.all().get_mut(&name) {
            known.until = Instant::now();
        }
    }

    fn known(&self, name: &str) -> Option<Known> {
        self.all().get(name).cloned()
    }

    fn remember(&self, name: String, known: Known) {
        let mut all = self.all();
        if all.len() >= REMEMBERED && !all.contains_key(&name) {
            // Names of wildcards never lead to private addresses, so nothing is to be remembered of them.
            all.retain(|_, known| known.literal);
        }
        all.insert(name, known);
    }

    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const NEVER: &str = "it leads to link-local addresses or a metadata service, which plugins never reach";
const PRIVATE: &str =
    "it leads to private addresses, and a wildcard grants public ones only: grant the name itself";
const MOVED: &str = "it led to public addresses before, and to private ones now";

fn prohibited(host: &str, why: &str) -> SendError {
    SendError::Prohibited { host: host.to_owned(), why: why.to_owned() }
}

/// Those of the addresses that may be connected to; why there are none.
fn may_go(mut addresses: Vec<IpAddr>, private_too: bool) -> Result<Vec<IpAddr>, &'static str> {
    let private = addresses.iter().any(|address| AddressClass::of(*address) == AddressClass::Private);
    addresses.retain(|address| match AddressClass::of(*address) {
        AddressClass::Public => true,
        AddressClass::Private => private_too,
        AddressClass::Never => false,
    });
    if !addresses.is_empty() {
        return Ok(addresses);
    }
    Err(if private { PRIVATE } else { NEVER })
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names").field("known", &self.all().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::{Arc, Mutex};

    use super::{Names, SendError};

    /// What the name servers say; an error where nothing.
    type Says = Arc<Mutex<Vec<&'static str>>>;

    fn names(says: &Says) -> Names {
        let says = says.clone();
        Names::new(Arc::new(move |_| {
            let addresses: Vec<IpAddr> =
                says.lock().unwrap().iter().map(|text| text.parse().unwrap()).collect();
            Box::pin(async move {
                if addresses.is_empty() { Err(std::io::ErrorKind::TimedOut.into()) } else { Ok(addresses) }
            })
        }))
    }

    fn told(result: Result<Vec<IpAddr>, SendError>) -> Result<Vec<String>, String> {
        result.map(|list| list.iter().map(ToString::to_string).collect()).map_err(|error| error.to_string())
    }

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(test);
    }

    #[test]
    fn a_name_is_judged_by_where_it_leads_and_how_it_is_granted() {
        run(async {
            for (says, literal, expected) in [
                (&["1.1.1.1"][..], false, Ok(vec!["1.1.1.1"])),
                (&["10.0.0.1"], true, Ok(vec!["10.0.0.1"])),
                (&["10.0.0.1"], false, Err("a wildcard grants public ones only")),
                (&["10.0.0.1", "1.1.1.1"], false, Ok(vec!["1.1.1.1"])),
                (&["169.254.169.254"], true, Err("which plugins never reach")),
                (&["::ffff:169.254.169.254", "10.0.0.1"], true, Ok(vec!["10.0.0.1"])),
                (&[], true, Err("timed out")),
            ] {
                let found =
                    told(names(&Arc::new(Mutex::new(says.to_vec()))).addresses("api.test", literal).await);
                match expected {
                    Ok(addresses) => assert_eq!(found.unwrap(), addresses),
                    Err(why) => assert!(found.as_ref().unwrap_err().contains(why), "{found:?}"),
                }
            }
        });
    }

    #[test]
    fn a_public_name_does_not_become_private_and_a_look_up_holds_for_a_while() {
        run(async {
            let says: Says = Arc::new(Mutex::new(vec!["1.1.1.1"]));
            let names = names(&says);
            assert_eq!(told(names.addresses("api.test", true).await).unwrap(), ["1.1.1.1"]);
            *says.lock().unwrap() = vec!["127.0.0.1"];
            assert_eq!(told(names.addresses("API.test.", true).await).unwrap(), ["1.1.1.1"]);
            // As after its time.
            names.failed("api.test");
            assert!(told(names.addresses("api.test", true).await).unwrap_err().contains("private ones now"));
            *says.lock().unwrap() = vec!["8.8.8.8"];
            assert_eq!(told(names.addresses("api.test", true).await).unwrap(), ["8.8.8.8"]);
            *says.lock().unwrap() = vec!["9.9.9.9"];
            names.failed("api.test");
            assert_eq!(told(names.addresses("api.test", true).await).unwrap(), ["9.9.9.9"]);
            *says.lock().unwrap() = Vec::new();
            names.failed("api.test");
            assert_eq!(
                told(names.addresses("api.test", true).await).unwrap(),
                ["9.9.9.9"],
                "an outage of names"
            );
        });
    }

    #[test]
    fn written_addresses_are_not_looked_up() {
        run(async {
            let names = names(&Arc::default());
            assert_eq!(told(names.addresses("[::1]", true).await).unwrap(), ["::1"]);
            assert_eq!(told(names.addresses("127.0.0.1", true).await).unwrap(), ["127.0.0.1"]);
            assert!(names.addresses("127.0.0.1", false).await.is_err());
            assert!(names.addresses("169.254.169.254", true).await.is_err());
        });
    }
}
