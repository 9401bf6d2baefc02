//! The simulated flow, compiled as a user's file is.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loom_flow::{
    ClientKind, CompileOptions, ComponentFacts, Components, Environment, KafkaKeys, KeyRefusal, Mode, Plan,
    SourceFile, compile,
};

/// A world without variables, files and librdkafka.
struct Nothing;

impl Environment for Nothing {
    fn var(&self, _: &str) -> Option<String> {
        None
    }

    fn file(&self, _: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

impl KafkaKeys for Nothing {
    fn check(&self, _: ClientKind, _: &str, _: &str) -> Result<(), KeyRefusal> {
        Ok(())
    }
}

impl Components for Nothing {
    fn facts(&self, path: &Path) -> Result<ComponentFacts, String> {
        Err(format!("{} is not looked at", path.display()))
    }
}

/// The plan of a flow's text. Panics where the flow is wrong: a mistake of the simulation's.
pub(super) fn plan(yaml: &str) -> Arc<Plan> {
    let source =
        SourceFile { name: "flow.yaml".to_owned(), bytes: yaml.as_bytes().to_vec(), dir: PathBuf::from(".") };
    let options = CompileOptions { mode: Mode::Run, require_env: true, plugins: false };
    let compiled = compile(&source, &Nothing, &Nothing, &Nothing, options);
    match compiled.plan {
        Some(plan) => Arc::new(plan),
        None => panic!("the flow is wrong: {:?}\n{yaml}", compiled.issues),
    }
}
