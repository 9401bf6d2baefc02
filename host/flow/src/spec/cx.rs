//! What understanding a flow file needs at every key: where to report, and what references resolve to.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::ask::Environment;
use crate::interpolate::{Interpolated, Outside, has_reference, interpolate};
use crate::issue::Code;
use crate::reader::Key;
use crate::report::{Place, Problem, Report};
use crate::secrets::Secrets;
use crate::slips::{bare_reference, unseen_edge};
use crate::text::Span;
use crate::{CompileOptions, Mode};

pub(crate) struct Cx<'a> {
    pub(crate) report: &'a mut Report,
    pub(crate) env: &'a dyn Environment,
    pub(crate) dir: &'a Path,
    pub(crate) options: CompileOptions,
    /// Every value that came from outside: no issue shows one.
    pub(crate) outside: Secrets,
    /// Those of them, and of the file, that nothing may ever show.
    pub(crate) secrets: Secrets,
    /// Stretches of the file that hold secrets themselves, to be masked in excerpts.
    pub(crate) masks: Vec<Span>,
    /// Variables that expressions read, with their values.
    pub(crate) expression_env: BTreeMap<String, String>,
}

impl Cx<'_> {
    pub(crate) fn push(&mut self, place: &Place, problem: Problem) {
        self.report.push(place, problem);
    }

    pub(crate) fn error(&mut self, place: &Place, code: Code, message: impl Into<String>) {
        self.report.push(place, Problem::error(code, message));
    }

    /// Says that a part of the language cannot run yet.
    pub(crate) fn not_available(&mut self, place: &Place, what: &str) {
        let message = format!("{what} cannot run yet in this version");
        self.push(place, Problem::error(Code::NotAvailable, message));
    }

    /// Whether a variable that is not set stops the flow.
    pub(crate) fn unset_is_error(&self) -> bool {
        self.options.require_env || self.options.mode != Mode::Check
    }

    /// Reports a reference to what is not there.
    pub(crate) fn unset(&mut self, place: &Place, written: &str, why: &str) {
        let message = format!("`{written}` has no value: {why}");
        let problem = if self.unset_is_error() {
            Problem::error(Code::VariableUnset, message)
        } else {
            Problem::warning(Code::VariableUnset, message)
        };
        let hint = match written.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
            Some(name) if name.starts_with("file:") => Some(
                "a path is beside the flow file, unless it begins with `/`: put the file there, or name the one that is \
                 meant"
                    .to_owned(),
            ),
            Some(name) => Some(format!("set it, or give a default: `${{{name}:-value}}`")),
            None => None,
        };
        self.push(place, problem.maybe_hint(hint));
    }

    /// Resolves the references of one leaf and reports what is wrong with them.
    pub(crate) fn resolve(&mut self, place: &Place, text: &str) -> Interpolated {
        if let Some(written) = bare_reference(text, true) {
            self.bare(place, Some(written));
        }
        let out = self.resolve_braced(place, text);
        for Outside { value, from_file, written } in &out.outside {
            if *from_file {
                self.warn_of_edge(place, written, value);
            }
        }
        out
    }

    /// As [`Cx::resolve`], where every value from outside is a secret.
    pub(crate) fn resolve_secret(&mut self, place: &Place, text: &str) -> Interpolated {
        if bare_reference(text, true).is_some() {
            // It may be a password, or a part of one.
            self.bare(place, None);
        }
        let out = self.resolve_braced(place, text);
        for Outside { value, from_file, written } in &out.outside {
            self.secrets.remember(value);
            // A variable may hold blanks and nothing else, as a separator.
            if *from_file || !value.trim().is_empty() {
                self.warn_of_edge(place, written, value);
            }
        }
        out
    }

    /// As [`Cx::resolve_secret`], for a text of a plugin's configuration, where `$name` may mean something to the plugin.
    pub(crate) fn resolve_config(&mut self, place: &Place, text: &str) -> Option<String> {
        if has_reference(text) {
            return Some(self.resolve_secret(place, text).value);
        }
        if bare_reference(text, false).is_some() {
            self.bare(place, None);
        }
        None
    }

    fn resolve_braced(&mut self, place: &Place, text: &str) -> Interpolated {
        let out = interpolate(text, self.dir, self.env);
        for Outside { value, from_file, .. } in &out.outside {
            self.outside.remember(value);
            if *from_file {
                self.secrets.remember(value);
            }
        }
        for (written, why) in &out.malformed {
            let problem = Problem::error(
                Code::InterpolationInvalid,
                format!("`{written}` is no reference: {why}"),
            )
            .hint(if written.starts_with("${!") {
                "`${! … }` is another tool's: what depends on the record is an expression of its own, as `key: payload.id` or \
                 `by: payload.kind`"
            } else {
                "write `${NAME}`, `${NAME:-default}` or `${file:PATH}`; `$${` stands for a literal `${`"
            });
            self.push(place, problem);
        }
        for (written, why) in &out.unset {
            self.unset(place, written, why);
        }
        if let Some(written) = &out.stray {
            let message =
                format!("behind `{written}` stands a `}}` that closes nothing: it is taken as it is");
            let problem = Problem::warning(Code::InterpolationInvalid, message)
                .hint("a default may hold braces in pairs: `${NAME:-{…}}`; remove the one that is too many");
            self.push(place, problem);
        }
        out
    }

    /// Says that a variable without braces is not replaced. `written` is none where it must not be shown.
    fn bare(&mut self, place: &Place, written: Option<&str>) {
        let name = written.map(|written| written.trim_matches(|c| matches!(c, '$' | '(' | ')')));
        let what =
            written.map_or_else(|| "a `$NAME` in this text".to_owned(), |written| format!("`{written}`"));
        let message = format!("{what} is taken as it is: variables are replaced in braces only");
        let problem = Problem::warning(Code::InterpolationInvalid, message)
            .hint(format!("write `${{{}}}`", name.unwrap_or("NAME")));
        self.push(place, problem);
    }

    /// Says what stands unseen at an end of a value that came from outside.
    fn warn_of_edge(&mut self, place: &Place, written: &str, value: &str) {
        let Some((does, what)) = unseen_edge(value) else { return };
        let message = format!("the value of `{written}` {does} with {what}, which is a part of it");
        let problem = Problem::warning(Code::ValueInvalid, message)
            .hint("write it without; of a file one line end is left out, and nothing else");
        self.push(place, problem);
    }

    /// Remembers a value that nothing may show.
    pub(crate) fn keep_secret(&mut self, value: &str) {
        self.outside.remember(value);
        self.secrets.remember(value);
    }
}

/// The path of a key in a mapping.
pub(crate) fn child(path: &str, key: &str) -> Arc<str> {
    let simple =
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    match (path.is_empty(), simple) {
        (true, true) => Arc::from(key),
        (false, true) => Arc::from(format!("{path}.{key}")),
        (_, false) => Arc::from(format!("{path}[{key:?}]")),
    }
}

/// The path of an item in a list.
pub(crate) fn item(path: &str, index: usize) -> Arc<str> {
    Arc::from(format!("{path}[{index}]"))
}

/// The place of a key.
pub(crate) fn key_place(path: &str, key: &Key) -> Place {
    Place { span: key.span, path: child(path, &key.text) }
}
