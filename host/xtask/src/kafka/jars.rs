//! Kafka's jars: fetched with Maven, once a version, into the user's cache.
//!
//! Invariant: the folder under its final name is complete. Maven writes into a folder of another name, which is renamed
//! at the end; a lock file lets one process fetch while others wait for it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::programs::{find, output};

/// The version of Apache Kafka that tests run against.
pub const VERSION: &str = "4.1.1";

/// The programs that are needed and not there: `java` always, `mvn` only as long as the jars are not in the cache.
pub fn missing_programs() -> Vec<&'static str> {
    let fetched = folder().is_dir();
    let needed = [("java", true), ("mvn", !fetched)];
    needed
        .into_iter()
        .filter(|(name, needed)| *needed && find(name).is_none())
        .map(|(name, _)| name)
        .collect()
}

/// How to come by the programs that `missing_programs` names.
pub fn advice(missing: &[&str]) -> String {
    format!(
        "the tests with a real Kafka need {}, which {} not on the path.\n\
         Install a Java runtime of version 17 or later and Maven (on Debian: apt-get install \
         openjdk-17-jre-headless maven), or name a broker that runs already: LOOM_TEST_KAFKA=host:port",
        missing.join(" and "),
        if missing.len() == 1 { "is" } else { "are" },
    )
}

/// The folder that holds the jars, or will.
fn folder() -> PathBuf {
    cache().join(format!("kafka-{VERSION}"))
}

fn cache() -> PathBuf {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    variable("XDG_CACHE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(std::env::temp_dir)
        .join("loom-host-tests")
}

/// The folder with the jars; fetches them when they are not there. `say` is told when that begins, since it may take a
/// minute.
pub fn ensure(say: impl Fn(&str)) -> Result<PathBuf> {
    let folder = folder();
    if folder.is_dir() {
        return Ok(folder);
    }
    let cache = cache();
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let lock = cache.join(format!("kafka-{VERSION}.lock"));
    let lock = File::create(&lock).with_context(|| format!("cannot write {}", lock.display()))?;
    // Released when the file is closed, also by a process that dies.
    lock.lock().context("cannot lock the cache of Kafka's jars")?;
    if !folder.is_dir() {
        say(&format!("Fetching Apache Kafka {VERSION} (54 MB) into {}", folder.display()));
        fetch(&cache, &folder)?;
    }
    Ok(folder)
}

/// Runs Maven. The caller holds the lock, so that what an earlier attempt left behind can be removed.
fn fetch(cache: &Path, folder: &Path) -> Result<()> {
    let work = cache.join(format!("kafka-{VERSION}.part"));
    if work.exists() {
        fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    }
    fs::create_dir_all(&work)?;
    fs::write(work.join("pom.xml"), pom())?;
    let mut maven = Command::new("mvn");
    maven.current_dir(&work).args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs"]);
    output(&mut maven).context("Maven could not fetch Apache Kafka")?;
    fs::rename(work.join("libs"), folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))
}

fn pom() -> String {
    let dependency = |artifact: &str| {
        format!(
            "<dependency><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId>\
             <version>{VERSION}</version></dependency>"
        )
    };
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
         <groupId>loom</groupId><artifactId>kafka-for-tests</artifactId><version>1</version>\
         <dependencies>{}{}</dependencies></project>\n",
        dependency("kafka_2.13"),
        dependency("kafka-tools"),
    )
}
