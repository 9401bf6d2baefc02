//! Why a file is no plugin of this host: an error for each kind of file, which says what it is and what to do.

use std::path::PathBuf;

use super::{BIND_TRACKER, TRACKS};

/// Why a file is no plugin of this host.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    /// The file cannot be read.
    #[error("{}: {source}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file has no bytes.
    #[error("{} is empty: it should be a WebAssembly component", .file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// The file is text.
    #[error("{} is text, not a WebAssembly component{hint}", .file.display(), hint = if *.wat { ": compile it first" } else { "" })]
    Text {
        /// The file.
        file: PathBuf,
        /// Whether it looks like WebAssembly's text format.
        wat: bool,
    },
    /// The file is a module without a component around it.
    #[error("{} is a core WebAssembly module, not a component: build it for wasm32-wasip2, or wrap it with `wasm-tools component new`", .file.display())]
    CoreModule {
        /// The file.
        file: PathBuf,
    },
    /// The file ends too early.
    #[error("{} is truncated: it ends inside a section, after {size} bytes", .file.display())]
    Truncated {
        /// The file.
        file: PathBuf,
        /// The file's size in bytes.
        size: u64,
    },
    /// The file is something else, or damaged.
    #[error("{} is no valid WebAssembly component: {reason}", .file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// What is wrong, and where.
        reason: String,
    },
    /// The component was built for another version of the contract.
    #[error("{} uses {interface} of track {found}; this host speaks {supported}", .file.display(), supported = TRACKS.join(", "))]
    ForeignTrack {
        /// The file.
        file: PathBuf,
        /// The interface, without its version.
        interface: String,
        /// The track found.
        found: String,
    },
    /// The component imports something that no host of ours has.
    #[error("{} imports {import}, which is neither WASI 0.2 nor the plugin contract: build it without", .file.display())]
    UnknownImport {
        /// The file.
        file: PathBuf,
        /// The import, as written.
        import: String,
    },
    /// The component imports a function of our contract that this host does not have yet.
    #[error("{} imports {function} of {interface}, which this host does not have: it needs a newer loom-host", .file.display())]
    MissingFunction {
        /// The file.
        file: PathBuf,
        /// The interface.
        interface: String,
        /// The function.
        function: String,
    },
    /// `bind-commit-tracker` is there, and is another function.
    #[error(
        "{} exports {BIND_TRACKER} with a wrong signature: it must be a function `{BIND_TRACKER}: func(tracker: \
         commit-tracker)` over the commit-tracker of loom:plugin/delivery",
        .file.display()
    )]
    TrackerSignature {
        /// The file.
        file: PathBuf,
    },
}

impl FactsError {
    /// Whether the file cannot be read or is no component, rather than a component that does not fit.
    #[must_use]
    pub fn is_bad_file(&self) -> bool {
        matches!(
            self,
            FactsError::Unreadable { .. }
                | FactsError::Empty { .. }
                | FactsError::Text { .. }
                | FactsError::CoreModule { .. }
                | FactsError::Truncated { .. }
                | FactsError::Invalid { .. }
        )
    }
}
