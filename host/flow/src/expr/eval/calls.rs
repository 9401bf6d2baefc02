//! Functions.

use super::super::functions::Function;
use super::super::node::Node;
use super::super::number::Number;
use super::super::pattern;
use super::super::time::{Duration, Part, Timestamp};
use super::super::value::{Blob, Text, Value};
use super::{Eval, Evaluator, task};

/// What compiling a pattern from a record costs: some tens of microseconds.
const COMPILE_COST: usize = 5_000;

impl<'v> Evaluator<'v, '_> {
    pub(super) fn call(&mut self, function: Function, arguments: &'v [Node]) -> Eval<Value<'v>> {
        let raw = self.eval(&arguments[0])?;
        // Digits that no kind of number holds are still text.
        if function == Function::ToString
            && let Some(digits) = self.wide_integer(&raw)
        {
            return Ok(Value::Text(Text::Ref(digits)));
        }
        if function == Function::Dyn {
            return Ok(raw);
        }
        let first = self.read(raw)?;
        let second = match arguments.get(1) {
            Some(node) => {
                let value = self.eval(node)?;
                Some(self.read(value)?)
            }
            None => None,
        };
        match (function, &first, &second) {
            (Function::Size, _, _) => self.size(&first),
            (Function::Contains, Value::Text(text), Some(Value::Text(part))) => {
                self.spend(text.as_str().len() / 32)?;
                Ok(Value::Bool(text.as_str().contains(part.as_str())))
            }
            (Function::StartsWith, Value::Text(text), Some(Value::Text(part))) => {
                Ok(Value::Bool(text.as_str().starts_with(part.as_str())))
            }
            (Function::EndsWith, Value::Text(text), Some(Value::Text(part))) => {
                Ok(Value::Bool(text.as_str().ends_with(part.as_str())))
            }
            (Function::Matches, Value::Text(text), Some(Value::Text(pattern))) => {
                self.spend((text.as_str().len() + pattern.as_str().len()) / 32)?;
                let (found, compiled) = pattern::matches(text.as_str(), pattern.as_str());
                if compiled {
                    self.spend(COMPILE_COST)?;
                }
                found.map_or_else(task, |found| Ok(Value::Bool(found)))
            }
            (Function::ToInt, _, _) => self.to_int(first),
            (Function::ToUInt, _, _) => self.to_uint(first),
            (Function::ToDouble, _, _) => self.to_double(first),
            (Function::ToString, _, _) => self.stringify(first),
            (Function::ToBytes, Value::Text(text), _) => Ok(Value::Bytes(match text {
                Text::Ref(text) => Blob::Ref(text.as_bytes()),
                Text::Own(text) => Blob::Own(text.as_bytes().into()),
            })),
            (Function::ToBytes, Value::Bytes(_), _) => Ok(first),
            (Function::ToBool, Value::Bool(_), _) => Ok(first),
            (Function::ToBool, Value::Text(text), _) => match text.as_str() {
                "true" | "TRUE" | "True" | "t" | "1" => Ok(Value::Bool(true)),
                "false" | "FALSE" | "False" | "f" | "0" => Ok(Value::Bool(false)),
                text => task(format!("{text:?} is no boolean")),
            },
            (Function::ToTimestamp, Value::Timestamp(_), _) => Ok(first),
            (Function::ToTimestamp, Value::Number(Number::Int(seconds)), _) => {
                match Timestamp::from_seconds(*seconds) {
                    Some(at) => Ok(Value::Timestamp(at)),
                    None => task(format!("{seconds} seconds are outside the years 1 to 9999")),
                }
            }
            (Function::ToTimestamp, Value::Text(text), _) => match Timestamp::parse(text.as_str()) {
                Some(at) => Ok(Value::Timestamp(at)),
                None => task(format!("{} is no RFC 3339 time of the years 1 to 9999", quoted(text.as_str()))),
            },
            (Function::ToDuration, Value::Duration(_), _) => Ok(first),
            (Function::ToDuration, Value::Text(text), _) => match Duration::parse(text.as_str()) {
                Some(length) => Ok(Value::Duration(length)),
                None => {
                    task(format!("{} is no duration such as `1h30m`, or too long", quoted(text.as_str())))
                }
            },
            (Function::TypeOf, value, _) => Ok(Value::Type(self.kind(value))),
            (Function::Part(part), _, _) => self.part(part, &first, second.as_ref()),
            _ => {
                let unfit = match &second {
                    Some(second) if matches!(first, Value::Text(_)) => self.kind(second),
                    _ => self.kind(&first),
                };
                task(format!("`{}` does not take {unfit}", function.name()))
            }
        }
    }

    fn size(&mut self, value: &Value<'v>) -> Eval<Value<'v>> {
        let size = match value {
            Value::Text(text) => {
                self.spend(text.as_str().len() / 32)?;
                text.as_str().chars().count()
            }
            Value::Bytes(bytes) => bytes.as_bytes().len(),
            Value::List(items) => items.len(),
            Value::Json(json) if self.is_array(*json) => self.elements(value)?.len(),
            Value::Map(_) | Value::Json(_) => self.entries(value)?.len(),
            other => return task(format!("`size` does not take {}", self.kind(other))),
        };
        Ok(Value::int(size as i64))
    }

    fn to_int(&self, value: Value<'v>) -> Eval<Value<'v>> {
        let int = match &value {
            Value::Number(Number::Int(_)) => return Ok(value),
            Value::Number(Number::UInt(uint)) => i64::try_from(*uint).ok(),
            // The first double above the range is 2^63, and the range begins at a double.
            Value::Number(Number::Double(double)) => {
                let whole = double.trunc();
                (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0)
                    .contains(&whole)
                    .then_some(whole as i64)
            }
            Value::Text(text) => match text.as_str().parse() {
                Ok(int) => Some(int),
                Err(_) => return task(format!("{} is no int", quoted(text.as_str()))),
            },
            Value::Timestamp(at) => Some(at.seconds),
            other => return task(format!("`int` does not take {}", self.kind(other))),
        };
        int.map_or_else(|| task("the number is out of the range of int"), |int| Ok(Value::int(int)))
    }

    fn to_uint(&self, value: Value<'v>) -> Eval<Value<'v>> {
        let uint = match &value {
            Value::Number(Number::UInt(_)) => return Ok(value),
            Value::Number(Number::Int(int)) => u64::try_from(*int).ok(),
            Value::Number(Number::Double(double)) => {
                let whole = double.trunc();
                (0.0..18_446_744_073_709_551_616.0).contains(&whole).then_some(whole as u64)
            }
            Value::Text(text) => match text.as_str().parse() {
                Ok(uint) => Some(uint),
                Err(_) => return task(format!("{} is no uint", quoted(text.as_str()))),
            },
            other => return task(format!("`uint` does not take {}", self.kind(other))),
        };
        uint.map_or_else(
            || task("the number is out of the range of uint"),
            |uint| Ok(Value::Number(Number::UInt(uint))),
        )
    }

    fn to_double(&self, value: Value<'v>) -> Eval<Value<'v>> {
        match &value {
            Value::Number(number) => Ok(Value::Number(Number::Double(number.to_double()))),
            Value::Text(text) => match text.as_str().parse::<f64>() {
                Ok(double) if double.is_finite() => Ok(Value::Number(Number::Double(double))),
                _ => task(format!("{} is no finite double", quoted(text.as_str()))),
            },
            other => task(format!("`double` does not take {}", self.kind(other))),
        }
    }

    /// A double is written as `map` writes it.
    fn stringify(&mut self, value: Value<'v>) -> Eval<Value<'v>> {
        Ok(match &value {
            Value::Text(_) => value,
            Value::Bytes(bytes) => match std::str::from_utf8(bytes.as_bytes()) {
                Ok(text) => {
                    self.spend(text.len() / 32)?;
                    Value::text(text.to_owned())
                }
                Err(_) => return task("the bytes are not UTF-8"),
            },
            Value::Number(Number::Int(int)) => Value::text(int.to_string()),
            Value::Number(Number::UInt(uint)) => Value::text(uint.to_string()),
            Value::Number(Number::Double(double)) => {
                Value::text(serde_json::Value::from(*double).to_string())
            }
            Value::Bool(bool) => Value::Text(Text::Ref(if *bool { "true" } else { "false" })),
            Value::Timestamp(at) => Value::text(at.text()),
            Value::Duration(length) => Value::text(length.text()),
            other => return task(format!("`string` does not take {}", self.kind(other))),
        })
    }

    fn part(&self, part: Part, value: &Value<'v>, zone: Option<&Value<'v>>) -> Eval<Value<'v>> {
        let name = Function::Part(part).name();
        match (value, zone) {
            (Value::Timestamp(at), None) => Ok(at.part(part, None)),
            (Value::Timestamp(at), Some(Value::Text(zone))) => match at.part(part, Some(zone.as_str())) {
                Some(part) => Ok(Some(part)),
                None => {
                    let zone = quoted(zone.as_str());
                    return task(format!(
                        "the time zone {zone} is not known: write `UTC` or an offset such as `+02:00`"
                    ));
                }
            },
            (Value::Duration(length), None) => Ok(length.part(part)),
            _ => Err(()),
        }
        .ok()
        .flatten()
        .map_or_else(
            || task(format!("`{name}` does not take {}", self.kind(value))),
            |part| Ok(Value::int(part)),
        )
    }
}

/// Text in a message, bounded.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(40) {
        None => format!("{text:?}"),
        Some((at, _)) => format!("{:?}…", &text[..at]),
    }
}
