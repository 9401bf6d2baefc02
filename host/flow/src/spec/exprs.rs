//! Expressions, and the places that take an expression or a plugin.
//!
//! An expression is never interpolated: a value would become code. A finding inside one is reported at its own place
//! in the file where the text stands there as it is; in a folded or escaped scalar, at the scalar.

use std::sync::Arc;

use super::cx::Cx;
use super::fields::{Field, Fields, nearest};
use super::values::{Text, name};
use crate::expr::{Expr, ResultKind, field as field_of, repaired};
use crate::grammar::{PLUGIN_REFERENCE, Value};
use crate::interpolate::has_reference;
use crate::issue::Code;
use crate::reader::{Content, Node, advice, rewrite, truncated};
use crate::report::{Place, Problem};
use crate::text::{Pos, Span};

/// What the value of an expression is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    Predicate,
    Payload,
    Key,
    Label,
}

/// A compiled expression; none if it is wrong, which was reported.
#[derive(Clone, Debug)]
pub(crate) struct ExprSpec {
    pub(crate) expr: Option<Arc<Expr>>,
}

/// A place that takes an expression or a plugin.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    Expr(ExprSpec),
    Plugin(Text),
    /// Reported already.
    Invalid,
}

/// An expression, or `{ plugin: NAME }`.
pub(crate) fn choice(cx: &mut Cx<'_>, field: &Field<'_>, wants: Wants) -> Choice {
    if let Content::Mapping(entries) = &field.node.content
        && field.node.tag.is_none()
        && entries.iter().any(|entry| nearest(&entry.key.text, &["plugin"]).is_some())
    {
        let mut fields = Fields::new(entries, field.place(), &PLUGIN_REFERENCE);
        let plugin = fields.need(cx, "plugin").and_then(|field| name(cx, &field));
        fields.finish(cx, "`{ plugin: NAME }`");
        return plugin.map_or(Choice::Invalid, Choice::Plugin);
    }
    field.expect(|value| matches!(value, Value::Choice | Value::PluginChoice));
    Choice::Expr(expression(cx, field, wants))
}

/// An expression.
pub(crate) fn expression(cx: &mut Cx<'_>, field: &Field<'_>, wants: Wants) -> ExprSpec {
    field.expect(|value| matches!(value, Value::Expression | Value::Choice | Value::PluginChoice));
    let broken = ExprSpec { expr: None };
    let place = field.place();
    let Content::Scalar(scalar) = &field.node.content else {
        return not_text(cx, field, wants);
    };
    if let Some(tag) = &field.node.tag {
        // The line has all of it; the tree has lost what YAML took for an anchor.
        let line = rewrite(cx.report.text(field.node.span).line(field.node.span.start.line));
        let hint = line.map(|line| format!("write `{}`", line.shown)).unwrap_or_else(|| {
            let whole = format!("{tag} {}", scalar.text);
            advice(field.key, &repaired(whole.trim_end()).unwrap_or(whole))
        });
        let problem = Problem::error(Code::ExpressionQuoting, "YAML reads what starts with `!` as a tag");
        cx.push(&place, problem.hint(hint));
        return broken;
    }
    let text = scalar.text.as_str();
    if text.trim().is_empty() || (scalar.plain && text == "~") {
        cx.error(&place, Code::ExpressionInvalid, format!("`{}` needs an expression", field.key));
        return broken;
    }
    if has_reference(text) {
        let problem = Problem::error(
            Code::ExpressionInvalid,
            "`${…}` does not work in an expression: its value would become code",
        )
        .hint(env_hint(text));
        cx.push(&place, problem);
        return broken;
    }
    // A bare boolean is YAML's, and YAML has more spellings than CEL.
    let text = match text {
        "True" | "TRUE" if scalar.plain => "true",
        "False" | "FALSE" if scalar.plain => "false",
        text => text,
    };
    let expr = match Expr::compile(text) {
        Ok(expr) => expr,
        Err(issue) => {
            let cut = truncated(cx.report.text(field.node.span), field.node.span).filter(|_| scalar.plain);
            if let Some(whole) = cut.and_then(|rest| repaired(&format!("{text}{rest}"))) {
                let message = "YAML ends this expression at ` #`, where a comment starts";
                let hint = advice(field.key, &whole);
                cx.push(&place, Problem::error(Code::ExpressionQuoting, message).hint(hint));
                return broken;
            }
            let span = inside(cx, field.node.span, text, &issue.span).unwrap_or(place.span);
            // Between quotes of one kind a hint with such quotes would not do as it stands.
            let written = cx.report.text(field.node.span).slice(field.node.span);
            let whole = if written.starts_with('\'') { repaired(text) } else { None };
            let hint = literal_hint(field.key, text, wants)
                .or(whole.map(|whole| advice(field.key, &whole)))
                .or(issue.hint);
            let problem = Problem::error(Code::ExpressionInvalid, issue.message).maybe_hint(hint);
            cx.report.push_at(span, &place.path, problem);
            return broken;
        }
    };
    check_kind(cx, field, &place, &expr, wants);
    read_env(cx, &place, &expr);
    ExprSpec { expr: Some(Arc::new(expr)) }
}

/// A list or a mapping where an expression belongs: CEL writes both as YAML does, but for names in quotes.
fn not_text(cx: &mut Cx<'_>, field: &Field<'_>, wants: Wants) -> ExprSpec {
    let written = cx.report.text(field.node.span).slice(field.node.span).to_owned();
    let flow = written.starts_with(['[', '{']) && !written.contains('\n');
    let meant = if flow { repaired(&written) } else { None };
    let made = || Some(made_of(field.node)).filter(|made| Expr::compile(made).is_ok());
    match meant.or_else(|| if wants == Wants::Payload { made() } else { None }) {
        Some(meant) => {
            let message = format!("YAML reads this expression as {}", field.node.what());
            let hint = advice(field.key, &meant);
            cx.push(&field.place(), Problem::error(Code::ExpressionQuoting, message).hint(hint));
        }
        None if flow => {
            let message = format!("YAML reads this expression as {}", field.node.what());
            let hint = format!("write an expression in quotes: `{}: \"payload.total > 10\"`", field.key);
            cx.push(&field.place(), Problem::error(Code::ExpressionQuoting, message).hint(hint));
        }
        None => field.wrong_type(cx, "an expression"),
    }
    ExprSpec { expr: None }
}

/// What a tree of YAML stands for as an expression: its leaves are expressions where they are, and else texts.
fn made_of(node: &Node) -> String {
    let text = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    match &node.content {
        Content::Sequence(items) => {
            format!("[{}]", items.iter().map(made_of).collect::<Vec<_>>().join(", "))
        }
        Content::Mapping(entries) => {
            let entries =
                entries.iter().map(|entry| format!("{}: {}", text(&entry.key.text), made_of(&entry.value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Content::Scalar(_) if node.is_null() => "null".to_owned(),
        Content::Scalar(scalar) => {
            // A word alone may be the name of a type, which is not meant.
            let reads = ["payload", "msg", "env"].iter().any(|root| scalar.text.contains(root));
            let literal =
                matches!(scalar.text.as_str(), "true" | "false") || scalar.text.parse::<f64>().is_ok();
            let is_expression = reads || scalar.plain && literal;
            repaired(&scalar.text).filter(|_| is_expression).unwrap_or_else(|| text(&scalar.text))
        }
    }
}

/// `env.NAME` in place of the first `${NAME}`.
fn env_hint(text: &str) -> String {
    let inner = text.split("${").nth(1).unwrap_or_default();
    if inner.starts_with('!') {
        return "`${! … }` is another tool's: write the expression alone, with `payload.field` for a field"
            .to_owned();
    }
    let name: String = inner.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let name = if name.is_empty() { "NAME" } else { &name };
    format!("write `env.{name}`, which is a string")
}

/// A bare word where a literal was meant: YAML takes one pair of quotes away.
fn literal_hint(key: &str, text: &str, wants: Wants) -> Option<String> {
    let word = matches!(wants, Wants::Key | Wants::Label | Wants::Payload)
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    word.then(|| {
        format!(
            "a field of the record is `{}`; a text has quotes of its own: `{key}: \"'{text}'\"`",
            field_of("payload", text)
        )
    })
}

/// The place of a finding inside an expression, where the file has the text as it is.
fn inside(cx: &Cx<'_>, span: Span, text: &str, found: &std::ops::Range<usize>) -> Option<Span> {
    let written = cx.report.text(span).slice(span);
    let indent = match written.as_bytes().first()? {
        b'"' | b'\'' => 1,
        _ => 0,
    };
    if !written.get(indent..)?.starts_with(text) || text.contains('\n') {
        return None;
    }
    let col = |offset: usize| {
        let chars = text.get(..offset)?.chars().count() + indent;
        Some(Pos { line: span.start.line, col: span.start.col + u32::try_from(chars).ok()? })
    };
    Some(Span { start: col(found.start)?, end: col(found.end)?, ..span })
}

/// Reports a result that is known and cannot be used.
fn check_kind(cx: &mut Cx<'_>, field: &Field<'_>, place: &Place, expr: &Expr, wants: Wants) {
    let kind = expr.result_kind();
    let (fits, needs) = match wants {
        Wants::Predicate => (kind == ResultKind::Bool, "a boolean"),
        Wants::Payload => (true, "a value"),
        Wants::Key => (
            matches!(
                kind,
                ResultKind::String
                    | ResultKind::Bytes
                    | ResultKind::Int
                    | ResultKind::UInt
                    | ResultKind::Bool
                    | ResultKind::Null
            ),
            "a string, bytes, an integer, a boolean or null",
        ),
        Wants::Label => (
            // A whole double is matched as the integer it is, so only the record can tell.
            matches!(
                kind,
                ResultKind::String
                    | ResultKind::Int
                    | ResultKind::UInt
                    | ResultKind::Double
                    | ResultKind::Bool
            ),
            "a string, a whole number or a boolean",
        ),
    };
    if kind != ResultKind::Unknown && !fits {
        let message = format!("`{}` needs {needs}, and this expression gives {}", field.key, kind_name(kind));
        cx.error(place, Code::ExpressionInvalid, message);
    }
}

fn kind_name(kind: ResultKind) -> &'static str {
    match kind {
        ResultKind::Null => "null",
        ResultKind::Bool => "a boolean",
        ResultKind::Int | ResultKind::UInt => "an integer",
        ResultKind::Double => "a double",
        ResultKind::String => "a string",
        ResultKind::Bytes => "bytes",
        ResultKind::List => "a list",
        ResultKind::Map => "a map",
        ResultKind::Timestamp => "a timestamp",
        ResultKind::Duration => "a duration",
        ResultKind::Type => "a type",
        ResultKind::Unknown => "what depends on the record",
    }
}

/// Resolves the variables that an expression reads.
fn read_env(cx: &mut Cx<'_>, place: &Place, expr: &Expr) {
    for name in expr.env_names() {
        match cx.env.var(name) {
            Some(value) => {
                cx.keep_secret(&value);
                cx.expression_env.insert(name.to_owned(), value);
            }
            None => cx.unset(place, &format!("env.{name}"), &format!("the variable `{name}` is not set")),
        }
    }
}
