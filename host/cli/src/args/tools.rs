//! Arguments of the verbs that run nothing: they draw a flow, begin one, or describe the language and the command.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use super::SettingsArgs;

pub const GRAPH_HELP: &str = "\
Plugins are not looked into, and variables need not be set.

Examples:
  loom-host graph flow.yaml
  loom-host graph flow.yaml --format mermaid > flow.mmd
  loom-host graph flow.yaml --format dot | dot -Tsvg > flow.svg";

pub const INIT_HELP: &str = "\
Without --lang the flow has no plugins: its steps are expressions. Nothing is fetched, and no file that is there is \
changed.

Examples:
  loom-host init orders
  loom-host init orders --lang rust
  loom-host init . --name orders";

pub const SCHEMA_HELP: &str = "\
An editor with a YAML language server checks and completes a flow whose first line is
  # yaml-language-server: $schema=flow.schema.json

Examples:
  loom-host schema > flow.schema.json
  loom-host schema --of test > test.schema.json";

pub const COMPLETIONS_HELP: &str = "\
Examples:
  loom-host completions bash > ~/.local/share/bash-completion/completions/loom-host
  loom-host completions zsh > ~/.zfunc/_loom-host
  loom-host completions fish > ~/.config/fish/completions/loom-host.fish";

pub const MAN_HELP: &str = "\
Examples:
  loom-host man | man -l -
  loom-host man --dir ~/.local/share/man/man1";

#[derive(Args, Debug)]
pub struct GraphArgs {
    /// The flow
    #[arg(value_name = "FLOW")]
    pub flow: PathBuf,
    #[command(flatten)]
    pub settings: SettingsArgs,
    /// How to draw it
    #[arg(long, value_enum, default_value_t = Drawing::Text)]
    pub format: Drawing,
}

/// How a flow is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Drawing {
    /// A tree of lines
    Text,
    /// A Mermaid flowchart
    Mermaid,
    /// A Graphviz digraph
    Dot,
}

#[derive(Args, Debug)]
pub struct InitArgs {
    /// The folder; it is made if it is not there
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The flow's name, which its group and its topics begin with [default: the folder's]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Begin a plugin too, in this language
    #[arg(long, value_name = "LANG", value_enum)]
    pub lang: Option<Lang>,
}

/// Languages that a first plugin is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Lang {
    /// Rust
    Rust,
}

#[derive(Args, Debug)]
pub struct SchemaArgs {
    /// Of which files
    #[arg(long, value_name = "KIND", value_enum, default_value_t = SchemaOf::Flow)]
    pub of: SchemaOf,
}

/// Files that have a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// Flows
    Flow,
    /// Test files
    Test,
}

#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

#[derive(Args, Debug)]
pub struct ManArgs {
    /// Write all pages into this folder, one for each verb; pages of an earlier version are replaced
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}
