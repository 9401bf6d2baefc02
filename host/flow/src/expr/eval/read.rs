//! Reading the record: the payload by way of the tape, the message's own fields, and members of maps.

use std::collections::HashMap;

use super::super::ResultKind;
use super::super::node::{MsgField, Node};
use super::super::number::Number;
use super::super::tape::{Entry, Kind, unescape};
use super::super::value::{Blob, Json, Key, Text, Value};
use super::{Eval, Evaluator, Fault, join, name_of, path, task};

/// Up to so many keys of an object, duplicates are found without a table.
const FEW: usize = 16;

impl<'v> Evaluator<'v, '_> {
    /// `payload` and the fields below it.
    pub(super) fn payload(&mut self, fields: &'v [Box<str>]) -> Eval<Value<'v>> {
        let Some(bytes) = self.batch.payload(self.row) else {
            return match fields.first() {
                None => Ok(Value::Tombstone),
                Some(field) => {
                    let path = join("payload".to_owned(), field);
                    task(format!("`{path}` is missing: the record has no payload (a tombstone)"))
                }
            };
        };
        let column = self.batch.payload_column();
        let located = self
            .cache
            .decode(column, column.at(self.row), bytes)
            .map_err(|text| Box::new(Fault::Wire(text)))?;
        let mut json = Json { payload: bytes, page: located.page, at: located.root };
        for (depth, field) in fields.iter().enumerate() {
            let entry = self.entry(json);
            let found = if entry.kind == Kind::Object { self.find(json, field)? } else { None };
            match found {
                Some(found) => json = found,
                None => {
                    let base =
                        fields[..depth].iter().fold("payload".to_owned(), |text, field| join(text, field));
                    return task(if entry.kind == Kind::Object {
                        format!("`{}` is missing", join(base, field))
                    } else {
                        let kind = self.kind(&Value::Json(json));
                        format!("`{}` cannot be read: `{base}` is {kind}", join(base.clone(), field))
                    });
                }
            }
        }
        Ok(Value::Json(json))
    }

    /// A field of `msg`.
    pub(super) fn msg(&mut self, field: MsgField) -> Eval<Value<'v>> {
        let source = self.batch.source(self.row);
        Ok(match field {
            MsgField::Key => self.batch.key(self.row).map_or(Value::Null, Value::text_or_bytes),
            MsgField::Topic => Value::Text(Text::Ref(source.topic)),
            MsgField::Partition => Value::int(i64::from(source.partition)),
            MsgField::Offset => Value::int(source.offset.0),
            MsgField::TimestampMs => source.timestamp_ms.map_or(Value::Null, Value::int),
            MsgField::Row => Value::Text(Text::Ref(source.row)),
            MsgField::Type => {
                let name = self.batch.type_of(self.row);
                name.map_or(Value::Null, |name| Value::Text(Text::Ref(name)))
            }
            MsgField::Headers => {
                let mut entries: Vec<(Key<'v>, Value<'v>)> = Vec::new();
                for (name, value) in self.batch.headers(self.row) {
                    self.spend(1 + entries.len() / 8)?;
                    let name = Key::Text(match std::str::from_utf8(name) {
                        Ok(name) => Text::Ref(name),
                        Err(_) => Text::Own(String::from_utf8_lossy(name).into()),
                    });
                    let value = value.map_or(Value::Null, Value::text_or_bytes);
                    match entries.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, last)) => *last = value,
                        None => entries.push((name, value)),
                    }
                }
                Value::Map(entries.into())
            }
        })
    }

    /// The last header of that name.
    pub(super) fn header(&self, name: &str) -> Option<Value<'v>> {
        let (_, value) =
            self.batch.headers(self.row).filter(|(known, _)| *known == name.as_bytes()).last()?;
        Some(value.map_or(Value::Null, Value::text_or_bytes))
    }

    pub(super) fn has(&mut self, operand: &'v Node, field: &str) -> Eval<Value<'v>> {
        if let Node::Msg(MsgField::Headers) = operand {
            return Ok(Value::Bool(self.header(field).is_some()));
        }
        let value = self.eval(operand)?;
        if matches!(self.kind(&value), ResultKind::Map) {
            return Ok(Value::Bool(self.member(&value, field)?.is_some()));
        }
        task(self.missing(operand, &value, field))
    }

    /// Why a member is not there.
    pub(super) fn missing(&self, operand: &Node, value: &Value<'v>, field: &str) -> String {
        let name = path(operand)
            .map_or_else(|| format!("field `{field}`"), |path| format!("`{}`", join(path, field)));
        match self.kind(value) {
            ResultKind::Map => format!("{name} is missing"),
            kind => format!("{name} cannot be read: {} is {kind}", name_of(operand)),
        }
    }

    /// A member by name; none where there is none, or where the value has no members.
    pub(super) fn member(&mut self, value: &Value<'v>, field: &str) -> Eval<Option<Value<'v>>> {
        match value {
            Value::Json(json) if self.entry(*json).kind == Kind::Object => {
                Ok(self.find(*json, field)?.map(Value::Json))
            }
            Value::Map(entries) => {
                self.spend(entries.len() / 8)?;
                let found =
                    entries.iter().find(|(key, _)| matches!(key, Key::Text(text) if text.as_str() == field));
                Ok(found.map(|(_, value)| value.clone()))
            }
            _ => Ok(None),
        }
    }

    pub(super) fn index(&mut self, range: &'v Node, index: &'v Node) -> Eval<Value<'v>> {
        let value = self.eval(range)?;
        let value = self.read(value)?;
        let at = self.eval(index)?;
        let at = self.read(at)?;
        match self.kind(&value) {
            ResultKind::List => {
                let Value::Number(number) = at else {
                    return task(format!(
                        "a list is indexed with a whole number, not with {}",
                        self.kind(&at)
                    ));
                };
                let place = number.as_integer().and_then(|place| usize::try_from(place).ok());
                let found = match (&value, place) {
                    (Value::List(items), Some(place)) => items.get(place).cloned(),
                    (Value::Json(json), Some(place)) => self.element(*json, place)?.map(Value::Json),
                    _ => None,
                };
                match found {
                    Some(found) => Ok(found),
                    None => {
                        let index = number
                            .as_integer()
                            .map_or_else(|| format!("{}", number.to_double()), |i| i.to_string());
                        task(format!("{} has no element {index}", name_of(range)))
                    }
                }
            }
            ResultKind::Map => {
                let Some(key) = self.key_of(&at) else {
                    return task(format!("a map cannot be indexed with {}", self.kind(&at)));
                };
                match self.lookup(&value, &key)? {
                    Some(found) => Ok(found),
                    None => task(match &key {
                        Key::Text(text) => self.missing(range, &value, text.as_str()),
                        key => format!("{} has no key {key:?}", name_of(range)),
                    }),
                }
            }
            kind => task(format!("{} cannot be indexed: it is {kind}", name_of(range))),
        }
    }

    /// The value under any kind of key.
    pub(super) fn lookup(&mut self, map: &Value<'v>, key: &Key<'v>) -> Eval<Option<Value<'v>>> {
        match (map, key) {
            (_, Key::Text(text)) => self.member(map, text.as_str()),
            (Value::Map(entries), key) => {
                self.spend(entries.len() / 8)?;
                Ok(entries.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone()))
            }
            _ => Ok(None),
        }
    }

    /// A value as the key of a map.
    pub(super) fn key_of(&self, value: &Value<'v>) -> Option<Key<'v>> {
        match value {
            Value::Bool(bool) => Some(Key::Bool(*bool)),
            Value::Number(number) => number.as_integer().map(Key::Whole),
            Value::Text(text) => Some(Key::Text(text.clone())),
            _ => None,
        }
    }

    /// A scalar of the payload as a value of its kind; everything else as it is.
    pub(in crate::expr) fn read(&mut self, value: Value<'v>) -> Eval<Value<'v>> {
        let Value::Json(json) = value else { return Ok(value) };
        let entry = self.entry(json);
        let text = || text_of(json, entry);
        Ok(match entry.kind {
            Kind::Null => Value::Null,
            Kind::True => Value::Bool(true),
            Kind::False => Value::Bool(false),
            Kind::Integer | Kind::Fraction => {
                let text = text()?;
                let number = match entry.kind {
                    Kind::Integer => Number::from_json_integer(text),
                    _ => Number::from_json_fraction(text),
                };
                match number {
                    Some(number) => Value::Number(number),
                    None => return task(format!("the number {} is out of range", shorten(text))),
                }
            }
            Kind::Plain => Value::Text(Text::Ref(text()?)),
            Kind::Escaped => {
                let raw = text()?;
                self.spend(raw.len() / 32)?;
                Value::text(unescape(raw))
            }
            Kind::Array | Kind::Object => Value::Json(json),
        })
    }

    /// The digits of an integer of the payload that no kind of integer holds.
    pub(in crate::expr) fn wide_integer(&self, value: &Value<'v>) -> Option<&'v str> {
        let Value::Json(json) = value else { return None };
        let entry = self.entry(*json);
        let text = text_of(*json, entry).ok()?;
        let wide =
            entry.kind == Kind::Integer && text.parse::<i64>().is_err() && text.parse::<u64>().is_err();
        wide.then_some(text)
    }

    /// What a value is.
    pub(in crate::expr) fn kind(&self, value: &Value<'v>) -> ResultKind {
        match value {
            Value::Null | Value::Tombstone => ResultKind::Null,
            Value::Bool(_) => ResultKind::Bool,
            Value::Number(Number::Int(_)) => ResultKind::Int,
            Value::Number(Number::UInt(_)) => ResultKind::UInt,
            Value::Number(Number::Double(_)) => ResultKind::Double,
            Value::Text(_) => ResultKind::String,
            Value::Bytes(_) => ResultKind::Bytes,
            Value::List(_) => ResultKind::List,
            Value::Map(_) => ResultKind::Map,
            Value::Timestamp(_) => ResultKind::Timestamp,
            Value::Duration(_) => ResultKind::Duration,
            Value::Type(_) => ResultKind::Type,
            Value::Json(json) => match self.entry(*json).kind {
                Kind::Null => ResultKind::Null,
                Kind::True | Kind::False => ResultKind::Bool,
                Kind::Fraction => ResultKind::Double,
                Kind::Integer => {
                    match text_of(*json, self.entry(*json)).ok().and_then(Number::from_json_integer) {
                        Some(Number::Int(_)) => ResultKind::Int,
                        Some(Number::UInt(_)) => ResultKind::UInt,
                        _ => ResultKind::Double,
                    }
                }
                Kind::Plain | Kind::Escaped => ResultKind::String,
                Kind::Array => ResultKind::List,
                Kind::Object => ResultKind::Map,
            },
        }
    }

    pub(in crate::expr) fn entry(&self, json: Json<'v>) -> Entry {
        self.cache.tape(json.page).entry(json.at)
    }

    pub(super) fn is_array(&self, json: Json<'v>) -> bool {
        self.entry(json).kind == Kind::Array
    }

    /// The member of an object; of duplicate keys the last counts.
    fn find(&mut self, object: Json<'v>, field: &str) -> Eval<Option<Json<'v>>> {
        let tape = self.cache.tape(object.page);
        let end = tape.entry(object.at).next;
        let mut at = object.at + 1;
        let mut found = None;
        let mut keys = 0;
        while at < end {
            let key = tape.entry(at);
            let raw = &object.payload[key.start as usize..key.end as usize];
            let same = match key.kind {
                Kind::Plain => raw == field.as_bytes(),
                _ => std::str::from_utf8(raw).is_ok_and(|raw| unescape(raw) == field),
            };
            if same {
                found = Some(Json { at: at + 1, ..object });
            }
            at = tape.entry(at + 1).next;
            keys += 1;
        }
        self.spend(keys / 8)?;
        Ok(found)
    }

    fn element(&mut self, array: Json<'v>, place: usize) -> Eval<Option<Json<'v>>> {
        let tape = self.cache.tape(array.page);
        let end = tape.entry(array.at).next;
        let mut at = array.at + 1;
        let mut skipped = 0;
        while at < end && skipped < place {
            at = tape.entry(at).next;
            skipped += 1;
        }
        self.spend(skipped / 8)?;
        Ok((at < end).then_some(Json { at, ..array }))
    }

    /// The elements of a list; empty for anything else.
    pub(super) fn elements(&mut self, list: &Value<'v>) -> Eval<Vec<Value<'v>>> {
        match list {
            Value::List(items) => {
                self.spend(items.len())?;
                Ok(items.to_vec())
            }
            Value::Json(array) if self.is_array(*array) => {
                let tape = self.cache.tape(array.page);
                let end = tape.entry(array.at).next;
                let mut items = Vec::new();
                let mut at = array.at + 1;
                while at < end {
                    items.push(Value::Json(Json { at, ..*array }));
                    at = tape.entry(at).next;
                }
                self.spend(items.len())?;
                Ok(items)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The entries of a map, each key once: a duplicate's last value, at the place of its first.
    pub(super) fn entries(&mut self, map: &Value<'v>) -> Eval<Vec<(Key<'v>, Value<'v>)>> {
        let object = match map {
            Value::Map(entries) => {
                self.spend(entries.len())?;
                return Ok(entries.to_vec());
            }
            Value::Json(object) if !self.is_array(*object) => *object,
            _ => return Ok(Vec::new()),
        };
        let tape = self.cache.tape(object.page);
        let end = tape.entry(object.at).next;
        let mut entries: Vec<(Key<'v>, Value<'v>)> = Vec::new();
        let mut places: HashMap<Key<'v>, usize> = HashMap::new();
        let mut at = object.at + 1;
        while at < end {
            let entry = tape.entry(at);
            let raw = text_of(object, entry)?;
            let key = Key::Text(match entry.kind {
                Kind::Escaped => Text::Own(unescape(raw).into()),
                _ => Text::Ref(raw),
            });
            let value = Value::Json(Json { at: at + 1, ..object });
            at = tape.entry(at + 1).next;
            let known = if entries.len() <= FEW {
                entries.iter().position(|(known, _)| *known == key)
            } else {
                if places.is_empty() {
                    places.extend(entries.iter().enumerate().map(|(place, (key, _))| (key.clone(), place)));
                }
                places.get(&key).copied()
            };
            match known {
                Some(place) => entries[place].1 = value,
                None => {
                    if entries.len() > FEW {
                        places.insert(key.clone(), entries.len());
                    }
                    entries.push((key, value));
                }
            }
        }
        self.spend(entries.len())?;
        Ok(entries)
    }

    /// The bytes of a string or of bytes.
    pub(in crate::expr) fn bytes_of<'r>(value: &'r Value<'v>) -> Option<&'r [u8]> {
        match value {
            Value::Text(text) => Some(text.as_str().as_bytes()),
            Value::Bytes(Blob::Ref(bytes)) => Some(bytes),
            Value::Bytes(Blob::Own(bytes)) => Some(bytes),
            _ => None,
        }
    }
}

/// The text that an entry spans. Decoding has checked that the payload is UTF-8.
fn text_of<'v>(json: Json<'v>, entry: Entry) -> Eval<&'v str> {
    match std::str::from_utf8(&json.payload[entry.start as usize..entry.end as usize]) {
        Ok(text) => Ok(text),
        Err(_) => task("the payload changed under the expression"),
    }
}

/// The front of a long number.
fn shorten(text: &str) -> String {
    if text.len() <= 40 { text.to_owned() } else { format!("{}…", &text[..40]) }
}
