//! What describes the language and the command to other programs: the schema for editors, completions for shells, pages
//! for `man`. All of it comes from the definitions that the command itself works by.

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use loom_types::printable;

use crate::args::{Cli, SchemaOf};
use crate::show;
use crate::status::Status;
use crate::terminal;

/// Prints the JSON Schema of flow files, or of test files.
pub fn schema(of: SchemaOf) -> Status {
    let schema = match of {
        SchemaOf::Flow => loom_flow::schema(),
        SchemaOf::Test => loom_flow::case_schema(),
    };
    show::print_exact(&format!("{schema:#}\n"))
}

/// Prints a shell's completions.
pub fn completions(shell: Shell) -> Status {
    let mut script = Vec::new();
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut script);
    show::print_exact(&String::from_utf8_lossy(&script))
}

/// Prints the page of the command, or writes all pages into a folder.
pub fn man(dir: Option<&Path>) -> Status {
    let Some(dir) = dir else {
        let mut page = Vec::new();
        return match Man::new(Cli::command()).render(&mut page) {
            Ok(()) => show::print_exact(&String::from_utf8_lossy(&page)),
            Err(error) => failed("the manual", &error),
        };
    };
    match fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Cli::command(), dir)) {
        Ok(()) => Status::Done,
        Err(error) => failed(&dir.display().to_string(), &error),
    }
}

fn failed(what: &str, error: &io::Error) -> Status {
    terminal::print_error(&format!("error: cannot write {}: {error}\n", printable(what)));
    Status::Failed
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use loom_plugin::Limits;

    /// The compiler knows no component engine, so its table repeats what holds for a plugin that says nothing.
    #[test]
    fn the_schema_has_the_engines_defaults() {
        let schema = loom_flow::schema();
        let limits = &schema["$defs"]["limits"]["properties"];
        let text = |key: &str| limits[key]["default"].as_str().unwrap_or_default().to_owned();
        let size = |key: &str| {
            let (number, unit) =
                text(key).split_once("MiB").map(|(number, unit)| (number.to_owned(), unit.len()))?;
            number.parse::<u64>().ok().filter(|_| unit == 0).map(|number| number << 20)
        };
        let time = |key: &str| humantime::parse_duration(&text(key)).unwrap_or(Duration::ZERO);
        let Limits { memory, timeout, lifecycle, output, log } = Limits::default();
        assert_eq!([size("memory"), size("output"), size("log")], [Some(memory), Some(output), Some(log)]);
        assert_eq!([time("timeout"), time("lifecycle")], [timeout, lifecycle]);
    }
}
