//! Words and signs of other languages, and what stands here for them.

use std::ops::Range;

use super::super::issue::ExprIssue;
use super::super::parse::CHOICE;

/// What a word stands for.
pub(super) struct Word {
    /// What is wrong, where the issue's own words do not help.
    pub(super) message: Option<String>,
    pub(super) hint: String,
    /// What to put in place of what, where one is as good as the other.
    pub(super) instead: Option<(Range<usize>, String)>,
}

impl Word {
    fn hint(hint: impl Into<String>) -> Option<Word> {
        Some(Word { message: None, hint: hint.into(), instead: None })
    }

    fn instead(range: Range<usize>, instead: &str, hint: impl Into<String>) -> Option<Word> {
        Some(Word { message: None, hint: hint.into(), instead: Some((range, instead.to_owned())) })
    }

    fn saying(self, message: &str) -> Word {
        Word { message: Some(message.to_owned()), ..self }
    }
}

/// The word that an issue is about, if it is one of another language.
pub(super) fn at(text: &str, issue: &ExprIssue) -> Option<Word> {
    let start = issue.span.start;
    if let Some(name) = quoted(&issue.message, "unknown variable `") {
        return variable(text, start, name);
    }
    if let Some(name) =
        quoted(&issue.message, "unknown method `").or_else(|| quoted(&issue.message, "unknown function `"))
    {
        return function(name);
    }
    if issue.message == CHOICE {
        return question(text);
    }
    if issue.message.starts_with("syntax error") { sign(text, start) } else { None }
}

fn quoted<'m>(message: &'m str, before: &str) -> Option<&'m str> {
    message.strip_prefix(before)?.strip_suffix('`')
}

/// Names that other tools have for the record, for nothing and for the truth.
fn variable(text: &str, start: usize, name: &str) -> Option<Word> {
    let range = start..start + name.len();
    let goes_on = text.get(range.end..).is_some_and(|rest| rest.starts_with(['.', '[']));
    match name {
        "this" | "root" | "self" | "doc" | "it" if goes_on => {
            let rest = text[range.end..].split(|c: char| !(c.is_alphanumeric() || "._".contains(c))).next();
            let hint =
                format!("the record's payload is `payload`: write `payload{}`", rest.unwrap_or_default());
            Word::instead(range, "payload", hint)
        }
        "this" | "self" | "it" => Word::instead(range, "payload", "the record's payload is `payload`"),
        "meta" | "metadata" | "headers" => Word::instead(
            range,
            "msg.headers",
            "the record's headers are `msg.headers`, and one is `msg.headers.NAME`",
        ),
        "key" | "topic" | "partition" | "offset" if !goes_on => Word::hint(format!(
            "the record's {name} is `msg.{name}`; a field of its payload is `payload.{name}`"
        )),
        "None" | "nil" | "undefined" | "Null" | "NULL" => Word::instead(
            range,
            "null",
            "nothing is `null`, and whether a field is there is `has(payload.field)`",
        ),
        "True" | "TRUE" => Word::instead(range, "true", "a boolean is `true` or `false`"),
        "False" | "FALSE" => Word::instead(range, "false", "a boolean is `true` or `false`"),
        _ => None,
    }
}

/// Functions that other languages have.
fn function(name: &str) -> Option<Word> {
    let hint = match name {
        "includes" | "include" | "contains_any" => {
            "a part of a text is found with `text.contains('x')`, an element with `x in list`"
        }
        "some" | "any" | "anyMatch" => "whether one fits is `list.exists(x, x.field > 0)`",
        "every" | "allMatch" => "whether all fit is `list.all(x, x.field > 0)`",
        "length" | "len" | "count" | "strlen" => "a length is `size(x)`",
        "toString" | "to_string" | "str" | "String" | "format_json" => "as text it is `string(x)`",
        "toInt" | "to_int" | "parseInt" | "Int" | "integer" => "as a whole number it is `int(x)`",
        "number" | "Number" | "parseFloat" | "float" | "toNumber" | "to_number" | "to_double" => {
            "as a number it is `double(x)`, as a whole one `int(x)`"
        }
        "isNull" | "is_null" | "isEmpty" | "isBlank" => {
            "what is nothing is `x == null`, what is empty `size(x) == 0`"
        }
        "exists" | "defined" | "isset" | "exists_path" | "hasField" | "hasOwnProperty" => {
            "whether a field is there is `has(payload.field)`"
        }
        "or" | "coalesce" | "default" | "catch" | "ifNull" | "ifnull" | "nvl" | "orElse" | "getOrDefault"
        | "get" => "a value in place of a field that is not there is `has(payload.x) ? payload.x : 'none'`",
        "test" | "regex" | "regexp" | "match" | "re_match" | "regexMatch" => {
            "a pattern is matched with `text.matches('^a')`"
        }
        "if" | "iff" | "ifelse" | "cond" => "a choice is `condition ? a : b`",
        "concat" => "texts are joined with `+`, and so are lists",
        "json" | "content" | "jsonpath" | "get_json_object" => {
            "the payload is decoded: a field of it is `payload.field`"
        }
        "meta" | "metadata" | "header" => "a header of the record is `msg.headers.NAME`",
        "now" | "timestamp_unix" | "today" | "currentTimestamp" | "current_timestamp" => {
            "an expression sees the record alone; its time is `msg.timestamp_ms`"
        }
        "toUpperCase" | "toLowerCase" | "uppercase" | "lowercase" | "upper" | "lower" | "toUpper"
        | "toLower" | "upperAscii" | "lowerAscii" | "capitalize" | "trim" | "strip" | "split" | "join"
        | "replace" | "replaceAll" | "replace_all" | "substring" | "substr" | "slice" | "indexOf"
        | "charAt" | "padStart" | "format" | "reverse" | "sort" | "sum" | "reduce" | "fold" | "merge"
        | "uuid" | "uuid_v4" | "hash" | "md5" | "sha256" | "round" | "floor" | "ceil" | "abs" | "min"
        | "max" => "expressions have none: a plugin does that, as `step: NAME`, where a `map` cannot",
        _ => return None,
    };
    Word::hint(hint)
}

/// Operators with a question mark.
fn question(text: &str) -> Option<Word> {
    let text = without_strings(text);
    if text.contains("??") || text.contains("?:") {
        let hint = "a value in place of a field that is not there is `has(payload.x) ? payload.x : 'none'`";
        return Word::hint(hint).map(|word| word.saying("syntax error: there is no operator `??`"));
    }
    if text.contains("?.") {
        let hint = "whether a field is there is `has(payload.field)`";
        return Word::hint(hint).map(|word| word.saying("syntax error: there is no operator `?.`"));
    }
    None
}

/// Operators of other languages, by what stands around the place where the text could not be read.
fn sign(text: &str, start: usize) -> Option<Word> {
    const EQUAL: &str = "equality is `==`";
    const UNEQUAL: &str = "what differs is `!=`";
    const LAMBDA: &str = "a macro names its variable first: `list.map(x, x.field)`";
    let (before, rest) = text.split_at_checked(start)?;
    let word: &str =
        &rest[..rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len())];
    let is = |sign: &str| rest.starts_with(sign);
    if is("=>") || is(">") && before.ends_with(['=', '-']) || is("->") {
        return Word::hint(LAMBDA);
    }
    if is("=~") || is("~") && before.ends_with('=') {
        return Word::hint("a pattern is matched with `text.matches('^a')`");
    }
    if is("=") {
        return match before {
            before if before.ends_with("==") => Word::instead(start..start + 1, "", EQUAL),
            before if before.ends_with("!=") => Word::instead(start..start + 1, "", UNEQUAL),
            before if before.ends_with(':') => {
                Word::hint("nothing is assigned here: an expression is one value")
            }
            _ => Word::instead(start..start + 1, "==", EQUAL),
        };
    }
    if is(">") && before.ends_with('<') {
        return Word::instead(start - 1..start + 1, "!=", UNEQUAL);
    }
    if is("&") {
        return Word::instead(start..start + 1, "&&", "and is `&&`");
    }
    if is("|") {
        return Word::instead(start..start + 1, "||", "or is `||`");
    }
    if is("$") || is("@") {
        return Word::hint("the record's payload is `payload`, and a field of it `payload.field`");
    }
    if is(";") {
        return Word::hint("an expression is one value, without an end sign");
    }
    if is("^") || is("**") || is("*") && before.ends_with('*') {
        return Word::hint("there is no power: multiply, as in `x * x`");
    }
    if is("`") {
        return Word::hint("a text stands in `'…'` or `\"…\"`, and is joined with `+`");
    }
    if is(",") && in_parentheses_after_in(before) {
        return Word::hint("a list stands in brackets: `x in [1, 2]`");
    }
    let range = start..start + word.len();
    match word {
        "and" | "AND" => Word::instead(range, "&&", "and is `&&`"),
        "or" | "OR" => Word::instead(range, "||", "or is `||`"),
        "not" | "NOT" => Word::hint("not is `!`"),
        "IN" => Word::instead(range, "in", "it is `in`"),
        "eq" => Word::instead(range, "==", EQUAL),
        "ne" | "neq" => Word::instead(range, "!=", UNEQUAL),
        "is" | "IS" => {
            Word::hint("what is nothing is `x == null`, and whether a field is there `has(payload.field)`")
        }
        "like" | "LIKE" | "contains" | "includes" => {
            Word::hint("a part of a text is found with `text.contains('x')`")
        }
        "matches" | "regex" | "rlike" => Word::hint("a pattern is matched with `text.matches('^a')`"),
        "startsWith" | "startswith" => Word::hint("it is called as `text.startsWith('x')`"),
        "endsWith" | "endswith" => Word::hint("it is called as `text.endsWith('x')`"),
        "between" | "BETWEEN" => Word::hint("a range is `x >= 1 && x <= 2`"),
        "if" | "then" | "else" | "when" | "case" | "CASE" | "WHEN" | "switch" | "unless" => {
            Word::hint("a choice is `condition ? a : b`")
        }
        "let" | "var" | "const" | "return" | "function" | "for" | "while" | "import" | "def" => {
            Word::hint("an expression is one value; what needs more is a plugin, as `step: NAME`")
        }
        _ => None,
    }
}

/// A text with nothing in its strings.
fn without_strings(text: &str) -> String {
    let mut open = None;
    let mut keep = |c: char| match open {
        Some(quote) => {
            if c == quote {
                open = None;
            }
            false
        }
        None => {
            open = matches!(c, '"' | '\'').then_some(c);
            open.is_none()
        }
    };
    text.chars().filter(|c| keep(*c)).collect()
}

/// Whether a list of SQL's is open: `x in (1`.
fn in_parentheses_after_in(before: &str) -> bool {
    before.rfind('(').is_some_and(|open| {
        let head = before[..open].trim_end();
        head.strip_suffix("in").or_else(|| head.strip_suffix("IN")).is_some_and(|head| head.ends_with(' '))
    })
}
