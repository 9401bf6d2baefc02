//! What the standard streams are, asked once: whether people read them, whether they take colour, and what to do when
//! their reader has gone. All that people read leaves the process through here, and nothing in it acts on a terminal but lines
//! and colours of ours; pieces from outside were made printable where they were put in.

use std::io::{self, ErrorKind, IsTerminal, Write};

use loom_types::printable_lines;

/// Whether people read standard output as it comes.
pub fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether standard output may be coloured.
pub fn stdout_takes_colour() -> bool {
    stdout_is_terminal() && colour_wanted()
}

/// Whether people read standard error as it comes.
pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Whether standard error may be coloured.
pub fn stderr_takes_colour() -> bool {
    stderr_is_terminal() && colour_wanted()
}

/// `NO_COLOR` set to anything, or a terminal that knows no colours.
fn colour_wanted() -> bool {
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    !no_colour && !dumb
}

/// Prints for people to standard output. Whatever is in the text, the terminal gets lines and colours.
///
/// # Errors
/// What writing answered; a reader that has gone, as `head` does, is none: nobody is left to read it.
pub fn print(text: &str) -> io::Result<()> {
    print_exact(&printable_lines(text))
}

/// Prints for programs to standard output: every byte as it is.
///
/// # Errors
/// As [`print()`].
pub fn print_exact(text: &str) -> io::Result<()> {
    print_on(text).map(|_| ())
}

/// Prints to standard output, every byte as it is; whether there is somebody to print more for.
///
/// # Errors
/// What writing answered, a reader that has gone apart.
pub fn print_on(text: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Prints for people to standard error, as well as that goes: there is no other place to complain.
pub fn print_error(text: &str) {
    print_error_exact(&printable_lines(text));
}

/// Prints for programs to standard error.
pub fn print_error_exact(text: &str) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Whether to draw with characters beyond ASCII: yes, unless the locale says outright that it has none.
pub fn takes_unicode() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| {
        let value = std::env::var(name).ok()?;
        (!value.is_empty()).then_some(value)
    });
    locale.is_none_or(|locale| {
        let locale = locale.to_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Columns of the terminal, within what is readable; a fixed number elsewhere, so that output in files is the same
/// everywhere.
pub fn width() -> usize {
    const READABLE: (usize, usize) = (60, 110);
    terminal_size::terminal_size()
        .map_or(READABLE.1, |(width, _)| usize::from(width.0).clamp(READABLE.0, READABLE.1))
}
