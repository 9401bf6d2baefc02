//! Structured logs on standard error: for people on a terminal, elsewhere one flat JSON object a line. Verbs that answer once
//! (all but `run` and `dev`) keep no log: what they have to say beside their answer is plain everywhere.
//!
//! Fields of spans and of the event stand beside each other at the top level (flow, worker, node, plugin, topic,
//! partition, offset, row, kind, reason), so that a query needs no path; where a name occurs twice the innermost wins.
//! A line is written with one call, so lines of different threads never mix. `LOOM_LOG` filters.

mod line;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Registry};

use crate::{hidden, terminal};
use line::{Fields, Line};

/// The variable that filters.
const VARIABLE: &str = "LOOM_LOG";

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Whether this process keeps a log that programs read.
static KEEPS_LOG: AtomicBool = AtomicBool::new(false);

/// Whether what is told beside the answer is for people.
pub fn tells_plainly() -> bool {
    terminal::stderr_is_terminal() || !KEEPS_LOG.load(Ordering::Acquire)
}

/// Starts logging; `keeps_log` as `run` and `dev` do.
///
/// # Errors
/// `LOOM_LOG` is no filter: a message for the user.
pub fn start(keeps_log: bool) -> Result<(), String> {
    KEEPS_LOG.store(keeps_log, Ordering::Release);
    let filter = match std::env::var(VARIABLE) {
        Ok(text) if !text.trim().is_empty() => parse(&text)?,
        Ok(_) | Err(std::env::VarError::NotPresent) => EnvFilter::new("info"),
        Err(std::env::VarError::NotUnicode(_)) => return Err(format!("{VARIABLE} is not text")),
    };
    let colour = terminal::stderr_takes_colour();
    let style = match keeps_log {
        false => Style::Plain { colour },
        true if terminal::stderr_is_terminal() => Style::Human { colour },
        true => Style::Json,
    };
    let subscriber = Registry::default().with(Lines { style }.with_filter(filter));
    tracing::subscriber::set_global_default(subscriber).map_err(|error| error.to_string())
}

/// A filter, with a look at what the filter's own grammar lets pass: a mistyped level is taken for a module there, and
/// would silence everything.
fn parse(text: &str) -> Result<EnvFilter, String> {
    for part in text.split(',').map(str::trim) {
        let level = part.rsplit('=').next().unwrap_or(part).to_lowercase();
        let mistyped =
            LEVELS.iter().find(|known| **known != level && strsim::damerau_levenshtein(known, &level) <= 1);
        if let Some(meant) = mistyped.filter(|_| !LEVELS.contains(&level.as_str())) {
            return Err(format!("{VARIABLE}={text}: there is no level {level:?}; did you mean {meant:?}?"));
        }
        if is_no_level(part) {
            return Err(format!(
                "{VARIABLE}={text}: there is no level {part:?}; the levels are {}",
                LEVELS.join(", ")
            ));
        }
    }
    EnvFilter::try_new(text).map_err(|error| {
        format!("{VARIABLE}={text} is no filter: {error}; write for example `info` or `plugin=warn,info`")
    })
}

/// Whether a word that stands alone is neither a level nor a part of the program that logs.
fn is_no_level(part: &str) -> bool {
    let level =
        || LEVELS.contains(&part.to_lowercase().as_str()) || part.parse::<u8>().is_ok_and(|level| level <= 5);
    let target = || part.starts_with("loom") || part == "plugin" || part.contains(['=', '[', ':']);
    !part.is_empty() && !level() && !target()
}

/// Lines that are kept back, at most; the last ones are.
const KEPT_BACK: usize = 200;

/// Whether lines are kept back.
static KEEPS_BACK: AtomicBool = AtomicBool::new(false);

static KEPT: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Whether a line may explain why a case fails: warnings, errors, and what plugins say. That a flow begins and ends
/// explains nothing. Who sets a filter has every line of it.
fn is_worth_keeping(level: Level, target: &str) -> bool {
    level <= Level::WARN
        || target == "plugin"
        || std::env::var_os(VARIABLE).is_some_and(|text| !text.is_empty())
}

/// From now on lines are not written, and the last ones are kept, in the form for people.
pub fn keep_back() {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).clear();
    KEEPS_BACK.store(true, Ordering::Release);
}

/// What was kept back; from now on lines are written again.
pub fn kept_back() -> String {
    KEEPS_BACK.store(false, Ordering::Release);
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
}

#[derive(Clone, Copy)]
enum Style {
    /// Lines of a log, for people.
    Human {
        colour: bool,
    },
    /// What a verb that answers once has to say beside its answer.
    Plain {
        colour: bool,
    },
    Json,
}

/// Writes each event as a line.
struct Lines {
    style: Style,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                fields.add(of_span);
            }
        }
        event.record(&mut fields);
        fields.hide(|text| hidden::redact(text).into_owned());
        let metadata = event.metadata();
        let line = Line {
            at: SystemTime::now(),
            level: *metadata.level(),
            target: metadata.target(),
            fields: &fields,
        };
        if KEEPS_BACK.load(Ordering::Acquire) {
            if !is_worth_keeping(*metadata.level(), metadata.target()) {
                return;
            }
            let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() == KEPT_BACK {
                kept.pop_front();
            }
            kept.push_back(line.human(false));
            return;
        }
        match self.style {
            Style::Json => terminal::print_error_exact(&line.json()),
            Style::Human { colour } => terminal::print_error(&line.human(colour)),
            Style::Plain { colour } => terminal::print_error(&line.plain(colour)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn filters_are_taken_and_mistyped_levels_refused() {
        assert!(parse("info").is_ok());
        assert!(parse("loom_kafka=debug,info").is_ok());
        assert!(parse("WARN").is_ok());
        assert!(parse("plugin,loom_kafka::librdkafka=trace").is_ok());
        assert!(parse("3").is_ok());
        for wrong in
            ["inof", "loom_kafka=debg", "=[", "info,warm", "WARNING", "verbose", "info,quiet", "plugin=loud"]
        {
            let message = parse(wrong).err().unwrap_or_default();
            assert!(message.starts_with("LOOM_LOG="), "{wrong}: {message:?}");
        }
    }
}
