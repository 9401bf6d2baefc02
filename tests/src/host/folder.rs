//! A folder of a test's own: flow files, inputs, granted folders, a compile cache.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// A temporary folder; it is removed when dropped.
pub struct Folder {
    folder: TempDir,
}

impl Folder {
    /// An empty one.
    ///
    /// # Errors
    /// If none can be made.
    pub fn new() -> Result<Self> {
        Ok(Self { folder: tempfile::Builder::new().prefix("loom-test-").tempdir()? })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The path of something in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, with the folders above it, and returns its path.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.join(name);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Makes a folder in it, and returns its path.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make(&self, name: &str) -> Result<PathBuf> {
        let path = self.join(name);
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }

    /// The lines of all files in a folder in it whose names end so, as sinks write them; none if nothing was written.
    ///
    /// # Errors
    /// If a file that is there cannot be read.
    pub fn lines(&self, name: &str, ending: &str) -> Result<Vec<String>> {
        let Ok(entries) = fs::read_dir(self.join(name)) else { return Ok(Vec::new()) };
        let mut files: Vec<PathBuf> = entries.map_while(Result::ok).map(|entry| entry.path()).collect();
        files.retain(|path| path.to_string_lossy().ends_with(ending));
        files.sort();
        let mut lines = Vec::new();
        for file in files {
            let text =
                fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            lines.extend(text.lines().map(str::to_owned));
        }
        Ok(lines)
    }
}
