//! What a component's file says of it, read without compiling: its roles, what it imports and exports, the track of the
//! contract it was built for. Each kind of file that is no plugin has an error of its own.

mod error;
mod roles;

use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};
use wasmparser::component_types::{
    ComponentAnyTypeId, ComponentDefinedType, ComponentEntityType, ComponentValType,
};
use wasmparser::types::TypesRef;
use wasmparser::{ComponentTypeRef, Parser, Payload, TypeBounds, ValidPayload, Validator};

pub use error::FactsError;
pub use roles::Roles;

/// The package of the contract.
const PACKAGE: &str = "loom:plugin/";

/// The tracks of the contract that this host speaks.
pub const TRACKS: [&str; 1] = ["0.1"];

/// The top-level export of a sink that is given the commit tracker.
pub(crate) const BIND_TRACKER: &str = "bind-commit-tracker";

/// The WASI packages that this host has, all of 0.2.
const WASI: [&str; 7] = [
    "wasi:io/",
    "wasi:clocks/",
    "wasi:random/",
    "wasi:cli/",
    "wasi:filesystem/",
    "wasi:sockets/",
    "wasi:http/",
];

/// What may be imported from the contract: interfaces with their functions. Those without are types only.
const IMPORTS: [(&str, &[&str]); 5] = [
    ("types", &[]),
    ("columns", &[]),
    ("context", &["flow", "node", "plugin", "worker"]),
    ("log", &["log"]),
    ("delivery", &["[method]commit-tracker.complete", "[method]commit-tracker.fail"]),
];

/// What a component's file says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// What it is.
    pub roles: Roles,
    /// Everything it imports, in the file's order.
    pub imports: Vec<String>,
    /// Everything it exports, in the file's order.
    pub exports: Vec<String>,
    /// The track of the contract; none where nothing of the contract is used.
    pub track: Option<&'static str>,
    /// The file's SHA-256, in lower-case hex.
    pub digest: String,
    /// The file's size in bytes.
    pub size: u64,
}

/// Reads what a component's file says of it. Function bodies are not looked at.
pub fn read_facts(path: &Path) -> Result<Facts, FactsError> {
    facts_of(path, &read_file(path)?)
}

/// The largest file that is read for a component: many times what the largest language runtimes come to.
const FILE_BYTES: u64 = 512 << 20;

/// A component's bytes. Only a regular file of a sensible size is read: a device would have no end.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, FactsError> {
    let read = || {
        let about = std::fs::metadata(path)?;
        if about.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !about.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        if about.len() > FILE_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 512 MiB"));
        }
        std::fs::read(path)
    };
    read().map_err(|source| FactsError::Unreadable { file: path.to_owned(), source })
}

/// The facts of a file that was read.
pub(crate) fn facts_of(path: &Path, bytes: &[u8]) -> Result<Facts, FactsError> {
    check_kind(path, bytes)?;
    let outline = outline(path, bytes)?;
    let types = outline.types.as_ref();
    let mut track = None;
    for name in outline.imports.iter().chain(&outline.exports) {
        if let Some((interface, found)) = ours(name) {
            track = Some(known_track(path, interface, found)?);
        }
    }
    for import in &outline.imports {
        check_import(path, import, types)?;
    }
    let mut roles = Roles::default();
    for export in &outline.exports {
        if let Some((interface, _)) = ours(export) {
            roles.add(&interface[PACKAGE.len()..]);
        }
        if export == BIND_TRACKER {
            if !takes_tracker(types, &outline.imports) {
                return Err(FactsError::TrackerSignature { file: path.to_owned() });
            }
            roles.tracked = true;
        }
    }
    let digest = hex(&Sha256::digest(bytes));
    Ok(Facts {
        roles,
        imports: outline.imports,
        exports: outline.exports,
        track,
        digest,
        size: bytes.len() as u64,
    })
}

fn check_kind(path: &Path, bytes: &[u8]) -> Result<(), FactsError> {
    let file = path.to_owned();
    if bytes.is_empty() {
        Err(FactsError::Empty { file })
    } else if Parser::is_core_wasm(bytes) {
        Err(FactsError::CoreModule { file })
    } else if Parser::is_component(bytes) {
        Ok(())
    } else if bytes.len() < 8 && b"\0asm".starts_with(&bytes[..bytes.len().min(4)]) {
        Err(FactsError::Truncated { file, size: bytes.len() as u64 })
    } else if std::str::from_utf8(bytes).is_ok_and(|text| !text.contains('\0')) {
        let wat = bytes.trim_ascii_start().starts_with(b"(");
        Err(FactsError::Text { file, wat })
    } else if bytes.starts_with(b"\0asm") {
        let reason = "its version is unknown to this host".to_owned();
        Err(FactsError::Invalid { file, reason })
    } else {
        let reason = "it does not begin as one".to_owned();
        Err(FactsError::Invalid { file, reason })
    }
}

struct Outline {
    imports: Vec<String>,
    exports: Vec<String>,
    types: wasmparser::types::Types,
}

fn outline(path: &Path, bytes: &[u8]) -> Result<Outline, FactsError> {
    let bad = |error: wasmparser::BinaryReaderError| {
        let file = path.to_owned();
        // The parser names the end of its input in words only.
        if error.message().contains("unexpected end") {
            FactsError::Truncated { file, size: bytes.len() as u64 }
        } else {
            FactsError::Invalid { file, reason: error.to_string() }
        }
    };
    let mut validator = Validator::new();
    let mut depth = 0_usize;
    let (mut imports, mut exports, mut types) = (Vec::new(), Vec::new(), None);
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(bad)?;
        match &payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section.clone() {
                    let import = import.map_err(bad)?;
                    // A world that `use`s a type imports a name for it, which asks the host for nothing.
                    if !matches!(import.ty, ComponentTypeRef::Type(TypeBounds::Eq(_))) {
                        imports.push(import.name.name.to_owned());
                    }
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section.clone() {
                    exports.push(export.map_err(bad)?.name.name.to_owned());
                }
            }
            _ => {}
        }
        if let ValidPayload::End(found) = validator.payload(&payload).map_err(bad)? {
            types = Some(found);
        }
    }
    match types {
        Some(types) => Ok(Outline { imports, exports, types }),
        None => Err(FactsError::Truncated { file: path.to_owned(), size: bytes.len() as u64 }),
    }
}

/// A name of the contract, as interface and version.
fn ours(name: &str) -> Option<(&str, &str)> {
    name.starts_with(PACKAGE).then(|| name.split_once('@').unwrap_or((name, "")))
}

fn known_track(path: &Path, interface: &str, version: &str) -> Result<&'static str, FactsError> {
    let found = track_of(version);
    TRACKS.into_iter().find(|known| *known == found).ok_or_else(|| FactsError::ForeignTrack {
        file: path.to_owned(),
        interface: interface.to_owned(),
        found: if found.is_empty() { "none".to_owned() } else { found },
    })
}

/// A track is 0.N, later N. A pre-release is a track of its own.
fn track_of(version: &str) -> String {
    let (numbers, pre) = version.split_once('-').unwrap_or((version, ""));
    let mut parts = numbers.split('.');
    let major = parts.next().unwrap_or_default();
    let track = match (major, parts.next()) {
        ("0", Some(minor)) => format!("0.{minor}"),
        _ => major.to_owned(),
    };
    if pre.is_empty() { track } else { format!("{track}-{pre}") }
}

fn check_import(path: &Path, import: &str, types: TypesRef<'_>) -> Result<(), FactsError> {
    if let Some((interface, _)) = ours(import) {
        return check_functions(path, import, interface, types);
    }
    let wasi = WASI.iter().any(|package| import.starts_with(package));
    let version = import.split_once('@').map_or("", |(_, version)| version);
    if wasi && track_of(version) == "0.2" {
        return Ok(());
    }
    Err(FactsError::UnknownImport { file: path.to_owned(), import: import.to_owned() })
}

/// A newer guest of a known track may import functions that this host lacks.
fn check_functions(
    path: &Path,
    import: &str,
    interface: &str,
    types: TypesRef<'_>,
) -> Result<(), FactsError> {
    let known = IMPORTS
        .iter()
        .find(|(name, _)| *name == &interface[PACKAGE.len()..])
        .map_or(&[][..], |(_, known)| known);
    let Some(ComponentEntityType::Instance(instance)) =
        types.component_item_for_import(import).map(|item| item.ty)
    else {
        return Err(FactsError::UnknownImport { file: path.to_owned(), import: import.to_owned() });
    };
    for (name, item) in &types[instance].exports {
        if matches!(item.ty, ComponentEntityType::Func(_)) && !known.contains(&name.as_str()) {
            return Err(FactsError::MissingFunction {
                file: path.to_owned(),
                interface: import.to_owned(),
                function: name.clone(),
            });
        }
    }
    Ok(())
}

/// Whether the export is a function from an owned commit tracker, ours, to nothing.
fn takes_tracker(types: TypesRef<'_>, imports: &[String]) -> bool {
    let tracker =
        imports.iter().filter(|name| name.starts_with("loom:plugin/delivery@")).find_map(|import| {
            let ComponentEntityType::Instance(instance) = types.component_item_for_import(import)?.ty else {
                return None;
            };
            match types[instance].exports.get("commit-tracker")?.ty {
                ComponentEntityType::Type { created: ComponentAnyTypeId::Resource(id), .. } => {
                    Some(id.resource())
                }
                _ => None,
            }
        });
    let Some(ComponentEntityType::Func(function)) =
        types.component_item_for_export(BIND_TRACKER).map(|item| item.ty)
    else {
        return false;
    };
    let function = &types[function];
    match (&*function.params, function.result) {
        ([(_, ComponentValType::Type(id))], None) if !function.async_ => match &types[*id] {
            ComponentDefinedType::Own(resource) => Some(resource.resource()) == tracker,
            _ => false,
        },
        _ => false,
    }
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{FactsError, facts_of, track_of};

    #[test]
    fn a_track_is_what_stays_compatible() {
        assert_eq!(track_of("0.1.0"), "0.1");
        assert_eq!(track_of("0.12.3"), "0.12");
        assert_eq!(track_of("2.1.0"), "2");
        assert_eq!(track_of("0.1.0-draft"), "0.1-draft");
        assert_eq!(track_of(""), "");
    }

    #[test]
    fn each_kind_of_bad_file_is_told_apart() {
        let of = |bytes: &[u8]| facts_of(Path::new("x.wasm"), bytes).unwrap_err();
        assert!(matches!(of(b""), FactsError::Empty { .. }));
        assert!(matches!(of(b"plugins:\n"), FactsError::Text { wat: false, .. }));
        assert!(matches!(of(b" (component)"), FactsError::Text { wat: true, .. }));
        assert!(matches!(of(b"\0asm\x01\0\0\0"), FactsError::CoreModule { .. }));
        assert!(matches!(of(b"\0asm"), FactsError::Truncated { size: 4, .. }));
        assert!(matches!(of(b"\0asm\x0d\0\x01"), FactsError::Truncated { size: 7, .. }));
        assert!(matches!(of(b"\0asm\x0d\0\x01\0\x07\x20abc"), FactsError::Truncated { .. }));
        assert!(matches!(of(b"\0asm\x0d\0\x01\0\xff\x00"), FactsError::Invalid { .. }));
        assert!(matches!(of(b"\0asm\x09\0\x01\0"), FactsError::Invalid { .. }));
        assert!(matches!(of(b"\x7fELF\0\0\0\0\xff"), FactsError::Invalid { .. }));
        assert!(of(b"").is_bad_file());
    }

    #[test]
    fn an_empty_component_is_one_without_roles() {
        let facts = facts_of(Path::new("x.wasm"), b"\0asm\x0d\0\x01\0").unwrap();
        assert_eq!(facts.roles.names(), [""; 0]);
        assert_eq!(facts.track, None);
        assert_eq!(facts.size, 8);
        assert_eq!(facts.digest.len(), 64);
    }
}
