//! Compiled code on disk. Compiled code is trusted code: it runs without further checks. So the folder must be ours
//! alone, and an entry is used only when its digest says that it is what was written.
//!
//! - The folder has mode 0700 and is owned by us; otherwise it is refused, with a warning, and code is kept in memory.
//! - An entry is named by the engine's compatibility hash and the component's SHA-256, and holds a magic number, the
//!   SHA-256 of its body, and the body. The digest is verified over the bytes in memory that are then used.
//! - Entries are written to a temporary file and renamed, so that a reader sees a whole entry or none.
//! - A damaged or foreign entry is ignored and written anew. The least recently used entries go when the folder passes
//!   its bound.
//!
//! Nothing here fails a start: without a cache, code is compiled.

use std::fs::{DirBuilder, File};
use std::hash::{Hash, Hasher};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::facts::hex;

/// Begins every entry; changes when the layout does.
const MAGIC: &[u8; 8] = b"loomcw01";

/// Bytes of all entries together.
const BOUND: u64 = 1 << 30;

/// How names of entries end.
const SUFFIX: &str = ".cwasm";

/// Where compiled code is kept between runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CacheDir {
    /// `$XDG_CACHE_HOME/loom-host`, or `~/.cache/loom-host`.
    #[default]
    Default,
    /// This folder.
    At(PathBuf),
    /// Nowhere: every run compiles.
    Off,
}

impl CacheDir {
    fn path(&self) -> Option<PathBuf> {
        let absolute =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        match self {
            CacheDir::Default => absolute("XDG_CACHE_HOME")
                .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
                .map(|cache| cache.join("loom-host")),
            CacheDir::At(path) => Some(path.clone()),
            CacheDir::Off => None,
        }
    }
}

/// The cache of one engine.
#[derive(Debug)]
pub(crate) struct Cache {
    dir: Option<PathBuf>,
    /// Code of engines with another hash does not fit this one.
    engine: String,
    bound: u64,
}

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("it is no folder")]
    NotAFolder,
    #[error("it belongs to user {0}, not to us")]
    Foreign(u32),
    #[error("others may use it (mode {0:o}): it must have mode 700")]
    Open(u32),
}

impl Cache {
    /// Opens the folder, making it where it is not there. A folder that cannot be trusted is not used.
    pub(crate) fn open(dir: &CacheDir, engine: &Engine) -> Cache {
        let dir = dir.path().and_then(|path| match prepare(&path) {
            Ok(()) => Some(path),
            Err(why) => {
                tracing::warn!(
                    folder = %path.display(),
                    "compiled plugins are kept in memory only: the cache folder cannot be used: {why}"
                );
                None
            }
        });
        Cache { dir, engine: compatibility(engine), bound: BOUND }
    }

    /// The compiled code of the component with this digest, if it is there, whole, and this engine's.
    pub(crate) fn get(&self, engine: &Engine, digest: &str) -> Option<Component> {
        let path = self.entry(digest)?;
        let body = match read(&path) {
            Ok(body) => body?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::debug!(entry = %path.display(), %error, "cache entry cannot be read");
                return None;
            }
        };
        match Cache::trust(engine, &body) {
            Ok(component) => {
                touch(&path);
                Some(component)
            }
            Err(error) => {
                tracing::debug!(entry = %path.display(), %error, "cache entry does not fit this engine");
                None
            }
        }
    }

    /// Keeps the compiled code of the component with this digest.
    pub(crate) fn put(&self, digest: &str, code: &[u8]) {
        let (Some(dir), Some(path)) = (&self.dir, self.entry(digest)) else { return };
        if let Err(error) = write(dir, &path, code).and_then(|()| evict(dir, &path, self.bound)) {
            tracing::warn!(entry = %path.display(), %error, "compiled code could not be kept");
        }
    }

    /// Makes a component of code that this engine, or one like it, compiled.
    pub(crate) fn trust(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
        // SAFETY: the bytes come from `Engine::precompile_component` in this process, or from an entry that such a
        // process wrote: only our user can write to the folder, and the digest over these very bytes was verified.
        // Code of another engine or version is refused by the check of its own header.
        unsafe { Component::deserialize(engine, code) }
    }

    fn entry(&self, digest: &str) -> Option<PathBuf> {
        Some(self.dir.as_ref()?.join(format!("{}-{digest}{SUFFIX}", self.engine)))
    }
}

fn prepare(path: &Path) -> Result<(), Refused> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // The folder itself, not what a link points to: who can replace the link decides what is trusted.
    let meta = std::fs::symlink_metadata(path)?;
    if !meta.is_dir() {
        return Err(Refused::NotAFolder);
    }
    let us = rustix::process::geteuid().as_raw();
    if meta.uid() != us {
        return Err(Refused::Foreign(meta.uid()));
    }
    let mode = meta.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(Refused::Open(mode));
    }
    Ok(())
}

/// The body of an entry; none when it is damaged or no entry.
fn read(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let mut file = File::open(path)?;
    let mut head = [0; 40];
    if let Err(error) = file.read_exact(&mut head) {
        return if error.kind() == std::io::ErrorKind::UnexpectedEof { Ok(None) } else { Err(error) };
    }
    let (magic, digest) = head.split_at(MAGIC.len());
    let mut body = Vec::new();
    file.read_to_end(&mut body)?;
    Ok((magic == MAGIC && Sha256::digest(&body)[..] == *digest).then_some(body))
}

fn write(dir: &Path, path: &Path, code: &[u8]) -> std::io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Two processes, or two threads, may write the same entry: each its own file, the last rename stays.
    let temporary = dir.join(format!(".{name}.{}.{:?}", std::process::id(), std::thread::current().id()));
    let written = (|| {
        let mut file = File::create(&temporary)?;
        file.write_all(MAGIC)?;
        file.write_all(&Sha256::digest(code))?;
        file.write_all(code)?;
        std::fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // The error that counts is the one above.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// Marks an entry as used; where that fails it only looks older than it is.
fn touch(path: &Path) {
    let _ = File::options().append(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
}

/// Removes the least recently used files until the folder is within its bound, but never the one just written.
fn evict(dir: &Path, keep: &Path, bound: u64) -> std::io::Result<()> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let ours = name.to_string_lossy().contains(SUFFIX);
        if let Ok(meta) = entry.metadata()
            && ours
            && meta.is_file()
        {
            entries.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), meta.len(), entry.path()));
        }
    }
    let mut total: u64 = entries.iter().map(|(_, size, _)| size).sum();
    entries.sort();
    for (_, size, path) in entries {
        if total <= bound {
            break;
        }
        if path != keep {
            std::fs::remove_file(&path)?;
            total -= size;
        }
    }
    Ok(())
}

/// The engine's compatibility hash as a name. SHA-256 rather than the standard hasher, which may change between
/// compilers.
fn compatibility(engine: &Engine) -> String {
    struct Sha(Sha256);
    impl Hasher for Sha {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut sha = Sha(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut sha);
    hex(&sha.0.finalize()[..8])
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, SystemTime};

    use super::{Cache, CacheDir, MAGIC, prepare};

    /// The smallest component.
    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
    const DIGEST: &str = "d1";

    fn compiled() -> (wasmtime::Engine, Vec<u8>) {
        let engine = crate::engine::engine().unwrap();
        let code = engine.precompile_component(COMPONENT).unwrap();
        (engine, code)
    }

    #[test]
    fn what_was_put_is_found_again_and_damage_is_ignored_and_rewritten() {
        let (engine, code) = compiled();
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&CacheDir::At(dir.path().join("cache")), &engine);
        assert!(cache.get(&engine, DIGEST).is_none());
        cache.put(DIGEST, &code);
        assert!(cache.get(&engine, DIGEST).is_some());
        let path = cache.entry(DIGEST).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let mut flipped = whole.clone();
        *flipped.last_mut().unwrap() ^= 1;
        let mut foreign = whole.clone();
        foreign[..MAGIC.len()].copy_from_slice(b"otherfmt");
        for bad in [flipped, foreign, whole[..whole.len() - 1].to_vec(), whole[..20].to_vec(), Vec::new()] {
            std::fs::write(&path, &bad).unwrap();
            assert!(cache.get(&engine, DIGEST).is_none());
            cache.put(DIGEST, &code);
            assert!(cache.get(&engine, DIGEST).is_some(), "rewritten");
        }
    }

    #[test]
    fn a_digest_over_a_body_that_is_no_code_is_still_refused_by_the_engine() {
        let (engine, _) = compiled();
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&CacheDir::At(dir.path().join("cache")), &engine);
        cache.put(DIGEST, b"not code at all");
        assert!(cache.get(&engine, DIGEST).is_none());
    }

    #[test]
    fn a_folder_that_others_may_use_is_refused() {
        let (engine, code) = compiled();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache");
        prepare(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
        let cache = Cache::open(&CacheDir::At(path.clone()), &engine);
        cache.put(DIGEST, &code);
        assert!(cache.get(&engine, DIGEST).is_none());
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
        let link = dir.path().join("link");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(prepare(&link).is_err(), "a link is no folder of ours");
    }

    #[test]
    fn the_least_recently_used_go_first_and_the_new_one_stays() {
        let (engine, code) = compiled();
        let dir = tempfile::tempdir().unwrap();
        let mut cache = Cache::open(&CacheDir::At(dir.path().join("cache")), &engine);
        cache.put("old", &code);
        cache.put("used", &code);
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        for digest in ["old", "used"] {
            let file = std::fs::File::options().append(true).open(cache.entry(digest).unwrap()).unwrap();
            file.set_modified(hour_ago).unwrap();
        }
        assert!(cache.get(&engine, "used").is_some(), "which marks it");
        cache.bound = 2 * (code.len() as u64 + 40);
        cache.put("new", &code);
        assert!(cache.get(&engine, "old").is_none());
        assert!(cache.get(&engine, "used").is_some());
        cache.bound = 1;
        cache.put("newer", &code);
        assert!(cache.get(&engine, "newer").is_some());
        assert!(cache.get(&engine, "used").is_none());
    }
}
