//! `check`: everything that files tell of a flow, without starting it.

use loom_flow::{CompileOptions, Mode, compile};

use crate::answers::{ClientKeys, PluginFiles, ProcessEnvironment};
use crate::args::{CheckArgs, Format};
use crate::flow_file;
use crate::report;
use crate::status::Status;
use crate::terminal;

/// Prints every problem. Every error is status 1 here, whatever it is for `run`.
pub fn check(args: &CheckArgs) -> Status {
    let (text, errors) = match flow_file::read(&args.flow) {
        Err(issue) => {
            let text = match args.format {
                Format::Human => report::plain(&issue, terminal::stdout_takes_colour()),
                Format::Json => report::json(std::slice::from_ref(&*issue)),
            };
            (text, 1)
        }
        Ok(source) => {
            let options = CompileOptions {
                mode: Mode::Check,
                require_env: args.require_env,
                plugins: !args.no_plugins,
            };
            let compiled = compile(&source, &ProcessEnvironment, &PluginFiles, &ClientKeys, options);
            let text = match args.format {
                Format::Human => report::human(&compiled, &source.name),
                Format::Json => report::json(&compiled.issues),
            };
            (text, compiled.errors())
        }
    };
    if let Err(error) = terminal::print(&text) {
        terminal::print_error(&format!("error: cannot write to standard output: {error}\n"));
        return Status::Failed;
    }
    if errors > 0 { Status::Flow } else { Status::Done }
}
