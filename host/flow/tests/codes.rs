//! Every code's documentation holds: its failing flow raises it, its repaired flow is clean, and its page under
//! `docs/codes` shows what `check` prints.
//!
//! The flows of the entries are the fixtures, the pages are their goldens. `BLESS=1 cargo test -p loom-flow` writes the
//! pages anew; a page without a code fails.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use loom_flow::{Code, Compiled, Entry, HumanStyle, Issue, Raised, Severity};

use crate::support::{ExamplePlugins, World};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/codes")
}

/// A flow of an entry, compiled without what the version cannot run yet: the language is all there, and so is its
/// documentation.
fn compile(code: Code, flow: &str) -> Compiled {
    let mut compiled = World::new().compile_with(flow.as_bytes(), &ExamplePlugins);
    compiled.issues.retain(|issue| code == Code::NotAvailable || issue.code != Code::NotAvailable);
    compiled
}

fn printed(compiled: &Compiled) -> String {
    let shown = compiled.render(HumanStyle { color: false, unicode: true, width: 100 });
    shown.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The codes that come beside a code by their nature.
fn beside(code: Code) -> &'static [Code] {
    match code {
        // The switch that contradicts is deprecated as well.
        Code::DeliveryConflict => &[Code::Deprecated],
        // The node that makes the batch does not belong in the branch either.
        Code::RouterBranchShapeDivergence => &[Code::RouterBranchUnsafeNode],
        _ => &[],
    }
}

#[test]
fn every_failing_flow_raises_its_code_and_nothing_else() {
    let mut wrong = String::new();
    for &code in Code::ALL {
        let Entry { fails, severity, raised, .. } = code.entry();
        let compiled = compile(code, fails);
        let (own, other): (Vec<&Issue>, Vec<&Issue>) =
            compiled.issues.iter().partition(|issue| issue.code == code);
        let alone = other.iter().all(|issue| beside(code).contains(&issue.code));
        let found = own.is_empty() == (*raised != Raised::ByCheck);
        // What is certain is said; a hint is only left out where nothing is.
        let helps = without_hint(code) || own.iter().all(|issue| issue.hint.is_some());
        if !alone || !found || !helps || own.iter().any(|issue| issue.severity != *severity) {
            wrong.push_str(&format!("== {code}\n{}\n", printed(&compiled)));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Codes whose message says all that is certain.
fn without_hint(code: Code) -> bool {
    matches!(
        code,
        Code::KafkaConfigInvalid
            | Code::MissingKey
            | Code::NotAvailable
            | Code::PluginIncompatible
            | Code::PluginLoadFailed
            | Code::PluginRoleMissing
            | Code::ExpressionInvalid
            | Code::WrongType
            | Code::ValueInvalid
    )
}

#[test]
fn every_repaired_flow_is_clean() {
    let wrong: String = Code::ALL
        .iter()
        .map(|&code| (code, compile(code, code.entry().repaired)))
        .filter(|(_, compiled)| !compiled.issues.is_empty())
        .map(|(code, compiled)| format!("== {code}\n{}\n", printed(&compiled)))
        .collect();
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn entries_are_sentences_and_their_flows_differ() {
    for &code in Code::ALL {
        let Entry { title, meaning, why, fails, repaired, .. } = code.entry();
        assert!(!title.ends_with('.') && title.len() < 100, "{code}: {title}");
        for text in [meaning, why] {
            assert!(text.ends_with(['.', ';']), "{code}: {text}");
            assert!(!text.contains("  ") && text.len() > 20, "{code}: {text}");
        }
        assert_ne!(fails, repaired, "{code}");
    }
}

#[test]
fn every_code_has_its_page_and_every_page_its_code() {
    let mut pages: Vec<(String, String)> = Vec::new();
    let mut index = String::from(
        "# Issue codes\n\nWhat `loom-host check` can say of a flow. `loom-host explain CODE` shows the same on the terminal.\n\n\
         | code | | says |\n|---|---|---|\n",
    );
    for &code in Code::ALL {
        let entry = code.entry();
        let name = format!("{code}.md");
        let severity = match entry.raised {
            Raised::ByCheck => entry.severity.name(),
            Raised::AtStart => "at start",
            Raised::ByBroker => "at the broker",
        };
        index.push_str(&format!("| [`{code}`]({name}) | {severity} | {} |\n", entry.title));
        pages.push((name, entry.page(code, &printed(&compile(code, entry.fails)))));
    }
    pages.push(("README.md".to_owned(), index));
    let names: BTreeSet<String> = pages.iter().map(|(name, _)| name.clone()).collect();
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(folder()).expect("the folder of pages");
        for (name, page) in &pages {
            std::fs::write(folder().join(name), page).expect("a page is written");
        }
    }
    let stale: Vec<&str> = pages
        .iter()
        .filter(|(name, page)| std::fs::read_to_string(folder().join(name)).ok().as_ref() != Some(page))
        .map(|(name, _)| name.as_str())
        .collect();
    assert!(stale.is_empty(), "stale pages: {stale:?}\nto write them: BLESS=1 cargo test -p loom-flow");
    let found = std::fs::read_dir(folder()).expect("the folder of pages");
    let found = found.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let orphans: Vec<String> = found.filter(|name| !names.contains(name)).collect();
    assert!(orphans.is_empty(), "pages without a code: {orphans:?}");
}

#[test]
fn severity_decides_whether_a_flow_has_a_plan() {
    for &code in Code::ALL {
        let entry = code.entry();
        let compiled = World::new().compile_with(entry.fails.as_bytes(), &ExamplePlugins);
        if entry.severity == Severity::Error && entry.raised == Raised::ByCheck {
            assert!(compiled.plan.is_none(), "{code}");
        }
    }
}
