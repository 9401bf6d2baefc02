//! Leaves: texts, numbers, times, sizes and closed lists of words, each with its place.
//!
//! Every leaf is interpolated first. What came from outside is *sealed*: a message shows the reference as written and
//! never the value. A leaf whose reference has no value is *open*: there is a text (as written), and nothing about its
//! form can be judged.

use std::str::FromStr;
use std::time::Duration;

use super::cx::Cx;
use super::fields::{Field, nearest, one_of, refuse_tag};
use super::foreign::name_in_mapping;
use crate::grammar::{LONGEST_MS, Value};
use crate::interpolate::Interpolated;
use crate::issue::Code;
use crate::plan::Rate;
use crate::reader::{Content, Scalar};
use crate::report::{Place, Problem};

const LONGEST: Duration = Duration::from_millis(LONGEST_MS);

/// What is wrong with a time that is a bare number.
const NO_UNIT: &str = "it has no unit";

/// A text of the flow.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) value: String,
    /// As written; what messages show.
    pub(crate) shown: String,
    /// Whether a reference has no value, so that the form cannot be judged.
    pub(crate) open: bool,
    /// Whether any of it came from outside.
    pub(crate) sealed: bool,
    pub(crate) place: Place,
}

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

/// What zero means for a number or a time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zero {
    Allowed,
    Refused,
}

/// A text; none, with an issue, if it is something else.
pub(crate) fn text(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<Text> {
    text_by(cx, field, |cx, place, text| cx.resolve(place, text))
}

/// A text in which every value from outside is a secret.
pub(crate) fn secret(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<Text> {
    text_by(cx, field, |cx, place, text| cx.resolve_secret(place, text))
}

fn text_by(
    cx: &mut Cx<'_>,
    field: &Field<'_>,
    resolve: fn(&mut Cx<'_>, &Place, &str) -> Interpolated,
) -> Option<Text> {
    field.expect(|value| !matches!(value, Value::Mapping(_) | Value::List { .. } | Value::Named { .. }));
    if refuse_tag(cx, field) {
        return None;
    }
    let Content::Scalar(Scalar { text, .. }) = &field.node.content else {
        let message = format!("`{}` takes a text, not {}", field.key, field.node.what());
        let problem = Problem::error(Code::WrongType, message).maybe_hint(name_in_mapping(field));
        cx.push(&field.place(), problem);
        return None;
    };
    if field.node.is_null() {
        field.wrong_type(cx, "a text");
        return None;
    }
    let place = field.place();
    let out = resolve(cx, &place, text);
    let open = !out.unset.is_empty() || !out.malformed.is_empty();
    Some(Text { value: out.value, shown: text.clone(), open, sealed: out.sealed, place })
}

/// A text that must not be empty.
pub(crate) fn name(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<Text> {
    field.expect(|value| matches!(value, Value::Name | Value::Label | Value::PluginChoice));
    let text = text(cx, field)?;
    if text.value.trim().is_empty() {
        cx.error(&text.place, Code::ValueInvalid, format!("`{}` must not be empty", field.key));
        return None;
    }
    Some(text)
}

/// A leaf that has a form: reports what does not parse, says nothing about what is open.
fn parsed<T>(
    cx: &mut Cx<'_>,
    field: &Field<'_>,
    wants: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Option<At<T>> {
    let text = text(cx, field)?;
    if text.open {
        return None;
    }
    match parse(text.value.trim()) {
        Ok(value) => Some(At { value, place: text.place }),
        Err(why) => {
            let unit = why == NO_UNIT && !text.sealed;
            let hint =
                unit.then(|| format!("write `{key}: {0}ms` or `{key}: {0}s`", text.shown, key = field.key));
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            let message = format!("`{}` takes {wants}, not `{}`{why}", field.key, text.shown);
            cx.push(&text.place, Problem::error(Code::ValueInvalid, message).maybe_hint(hint));
            None
        }
    }
}

/// A whole number.
pub(crate) fn whole(cx: &mut Cx<'_>, field: &Field<'_>, zero: Zero) -> Option<At<u64>> {
    let floor = u64::from(zero == Zero::Refused);
    field.expect(|value| matches!(value, Value::Whole { least, .. } if *least == floor));
    let wants = match zero {
        Zero::Allowed => "a whole number",
        Zero::Refused => "a whole number of at least 1",
    };
    parsed(cx, field, wants, |text| match text.parse::<u64>() {
        Ok(0) if zero == Zero::Refused => Err(String::new()),
        Ok(value) => Ok(value),
        Err(_) => Err(String::new()),
    })
}

/// A count that fits memory.
pub(crate) fn count(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<usize> {
    whole(cx, field, Zero::Refused).map(|at| usize::try_from(at.value).unwrap_or(usize::MAX))
}

/// A time in whole milliseconds.
pub(crate) fn millis(cx: &mut Cx<'_>, field: &Field<'_>, zero: Zero) -> Option<Duration> {
    let at = whole(cx, field, zero)?;
    bounded(cx, field, At { value: Duration::from_millis(at.value), place: at.place })
}

/// A time with its unit.
pub(crate) fn duration(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<Duration> {
    field.expect(|value| matches!(value, Value::Duration));
    let at = parsed(cx, field, "a time above zero, such as `250ms` or `10s`", |text| {
        match humantime::parse_duration(text) {
            Ok(value) if value.is_zero() => Err(String::new()),
            Ok(value) => Ok(value),
            Err(_) if text.parse::<f64>().is_ok_and(|number| number > 0.0) => Err(NO_UNIT.to_owned()),
            Err(_) => Err(String::new()),
        }
    })?;
    bounded(cx, field, at)
}

fn bounded(cx: &mut Cx<'_>, field: &Field<'_>, at: At<Duration>) -> Option<Duration> {
    if at.value > LONGEST {
        let message = format!("`{}` is longer than ten years", field.key);
        cx.error(&at.place, Code::ValueInvalid, message);
        return None;
    }
    Some(at.value)
}

/// A size in bytes.
pub(crate) fn size(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<u64> {
    field.expect(|value| matches!(value, Value::Size));
    let at =
        parsed(cx, field, "a size above zero, such as `64MiB`", |text| {
            match bytesize::ByteSize::from_str(text) {
                Ok(size) if size.as_u64() > 0 => Ok(size.as_u64()),
                _ => Err(String::new()),
            }
        })?;
    Some(at.value)
}

/// So many in a time.
pub(crate) fn rate(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<At<Rate>> {
    field.expect(|value| matches!(value, Value::Rate));
    let wants = "a number in a second, a minute or an hour, such as `100/min`";
    parsed(cx, field, wants, |text| Rate::parse(text).ok_or_else(String::new))
}

/// `true` or `false`.
pub(crate) fn boolean(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<At<bool>> {
    field.expect(|value| matches!(value, Value::Boolean));
    parsed(cx, field, "`true` or `false`", |text| match text {
        "true" | "True" | "TRUE" => Ok(true),
        "false" | "False" | "FALSE" => Ok(false),
        _ => Err(String::new()),
    })
}

/// One of a closed list of words.
pub(crate) fn word<T: Copy>(cx: &mut Cx<'_>, field: &Field<'_>, words: &[(&str, T)]) -> Option<At<T>> {
    field.expect(
        |value| matches!(value, Value::Words(known) if known.iter().eq(words.iter().map(|(word, _)| word))),
    );
    let text = text(cx, field)?;
    if text.open {
        return None;
    }
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text.value) {
        return Some(At { value: *value, place: text.place });
    }
    let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let message = format!("`{}` takes {}, not `{}`", field.key, one_of(&names), text.shown);
    // A suggestion is made from the value, so none is made from one that must not be seen.
    let near = if text.sealed { None } else { nearest(&text.value, &names) };
    let problem = Problem::error(Code::ValueInvalid, message)
        .maybe_hint(near.map(|near| format!("did you mean `{near}`?")));
    cx.push(&text.place, problem);
    None
}
