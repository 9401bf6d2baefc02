//! The language as a JSON Schema (2020-12), for editors: the table of `grammar` written down.
//!
//! Every mapping of the language is a closed object, and which node a mapping is follows from its node key alone, so that
//! an editor reports a mistyped option at the option and not "matches none of sixteen". A leaf whose text holds `${…}` is
//! valid whatever the leaf takes: only the compiler knows what it will be.
//!
//! What JSON cannot express stays with the compiler: names that must exist, components, the client's own settings, where
//! a node may stand.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use crate::grammar::{CASES, FLOW, Key, Mapping, NODES, PLUGIN_REFERENCE, Standing, Together, Value};
use crate::reader;

/// The schema of a flow file.
///
/// Descriptions are Markdown; `default` is what holds without a key, `deprecated` marks keys that something replaces.
#[must_use]
pub fn schema() -> Json {
    let mut definitions = Definitions(BTreeMap::new());
    let mut flow = definitions.object(&FLOW);
    definitions.node();
    definitions.mapping(&PLUGIN_REFERENCE);
    definitions.leaves();
    flow.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    flow.insert("title".to_owned(), json!("A flow of loom-host"));
    flow.insert("$defs".to_owned(), Json::Object(definitions.0.into_iter().collect()));
    Json::Object(flow)
}

/// The schema of a test file, in the same form.
#[must_use]
pub fn case_schema() -> Json {
    let mut definitions = Definitions(BTreeMap::new());
    let mut cases = definitions.object(&CASES);
    definitions.leaves();
    cases.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    cases.insert("title".to_owned(), json!("Cases of a flow of loom-host"));
    cases.insert("$defs".to_owned(), Json::Object(definitions.0.into_iter().collect()));
    Json::Object(cases)
}

/// What a text may hold instead of a value of its kind.
const REFERENCE: &str = r"\$\{";

/// Units of time as `humantime` reads them.
const UNITS: &str = "nanos|nsec|ns|usec|us|µs|millis|msec|ms|seconds|second|secs|sec|s|minutes|minute|mins|min|m|\
                     hours|hour|hrs|hr|h|days|day|d|weeks|week|wks|wk|w|months|month|M|years|year|yrs|yr|y";

/// Units of size as `bytesize` reads them.
const SIZE_UNITS: &str = "([bB]|[kKmMgGtTpPeE][iI]?[bB]?)";

/// `$defs`, filled as values are met.
struct Definitions(BTreeMap<String, Json>);

impl Definitions {
    /// A reference to a mapping's definition, which is there afterwards.
    fn mapping(&mut self, mapping: &'static Mapping) -> Json {
        if !self.0.contains_key(mapping.name) {
            // Taken before it is written: a process in a node holds nodes.
            self.0.insert(mapping.name.to_owned(), Json::Null);
            let object = self.object(mapping);
            self.0.insert(mapping.name.to_owned(), Json::Object(object));
        }
        reference(mapping.name)
    }

    fn object(&mut self, mapping: &'static Mapping) -> Map<String, Json> {
        let properties: Map<String, Json> =
            mapping.keys.iter().map(|key| (key.name.to_owned(), self.key(key))).collect();
        let required: Vec<&str> =
            mapping.keys.iter().filter(|key| key.required).map(|key| key.name).collect();
        let mut object = Map::new();
        object.insert("description".to_owned(), json!(mapping.doc));
        // Nothing at all is an empty mapping, where that is enough.
        let empty = required.is_empty() && mapping.forms.is_empty() && mapping.some.is_empty();
        object.insert("type".to_owned(), if empty { json!(["object", "null"]) } else { json!("object") });
        object.insert("properties".to_owned(), Json::Object(properties));
        object.insert("required".to_owned(), json!(required));
        object.insert("additionalProperties".to_owned(), json!(false));
        if !mapping.forms.is_empty() {
            object.insert("oneOf".to_owned(), forms(mapping.forms));
        }
        if !mapping.some.is_empty() {
            let some: Vec<Json> = mapping.some.iter().map(|key| json!({ "required": [key] })).collect();
            object.insert("anyOf".to_owned(), json!(some));
        }
        if let Some(Together { key, with, without, keys }) = &mapping.together {
            let none: Map<String, Json> = keys.iter().map(|key| ((*key).to_owned(), json!(false))).collect();
            let clauses = json!([
                { "if": { "required": [key], "properties": { *key: { "enum": with } } }, "then": { "required": keys } },
                { "if": { "properties": { *key: { "enum": without } } }, "then": { "properties": none } },
            ]);
            object.insert("allOf".to_owned(), clauses);
        }
        object
    }

    fn key(&mut self, key: &'static Key) -> Json {
        let mut schema = match self.value(&key.value) {
            Json::Object(schema) => schema,
            _ => Map::new(),
        };
        let doc = match key.standing {
            Standing::Later => format!("Not in this version. {}", key.doc),
            Standing::Current | Standing::Deprecated => key.doc.to_owned(),
        };
        schema.insert("description".to_owned(), Json::String(doc));
        if let Some(default) = key.default {
            schema.insert("default".to_owned(), yaml(default));
        }
        if let Some(example) = key.example {
            schema.insert("examples".to_owned(), json!([yaml(example)]));
        }
        if key.standing == Standing::Deprecated {
            schema.insert("deprecated".to_owned(), json!(true));
        }
        Json::Object(schema)
    }

    fn value(&mut self, value: &'static Value) -> Json {
        match value {
            Value::Text => reference("text"),
            Value::Name => reference("name"),
            Value::Label => reference("label"),
            Value::Whole { least, most } => whole(*least, *most),
            Value::Duration => reference("duration"),
            Value::Size => reference("size"),
            Value::Rate => reference("rate"),
            Value::Boolean => reference("boolean"),
            Value::Words(words) => json!({ "anyOf": [{ "enum": words }, reference("reference")] }),
            Value::Expression => reference("expression"),
            Value::Choice => either("object", reference(PLUGIN_REFERENCE.name), reference("expression")),
            Value::PluginChoice => either("object", reference(PLUGIN_REFERENCE.name), reference("name")),
            Value::List { of, least } => {
                json!({ "type": "array", "items": self.value(of), "minItems": least })
            }
            Value::Mapping(mapping) => self.mapping(mapping),
            Value::Named { of, least } => {
                let kind = if *least == 0 { json!(["object", "null"]) } else { json!("object") };
                json!({ "type": kind, "additionalProperties": self.value(of), "minProperties": least })
            }
            Value::Process { least: 0 } => reference("process"),
            Value::Process { least } => {
                json!({ "type": "array", "items": reference("node"), "minItems": least })
            }
            Value::PassOrProcess => either("string", json!({ "const": "pass" }), reference("process")),
            Value::Node => reference("node"),
            Value::Any => json!({}),
            Value::Nothing => json!({ "type": ["null", "object"], "maxProperties": 0 }),
        }
    }

    /// One node: its node key says which, and that one's definition closes it.
    fn node(&mut self) {
        let by_key: Vec<Json> = NODES
            .iter()
            .map(|node| json!({ "if": { "required": [node.keys[0].name] }, "then": self.mapping(node) }))
            .collect();
        let keys: Map<String, Json> = NODES
            .iter()
            .map(|node| (node.keys[0].name.to_owned(), json!({ "description": node.doc })))
            .collect();
        let none: Vec<Json> = NODES.iter().map(|node| json!({ "required": [node.keys[0].name] })).collect();
        let bare = NODES.iter().filter(|node| matches!(node.keys[0].value, Value::Nothing));
        let bare: Vec<&str> = bare.map(|node| node.keys[0].name).collect();
        let mut clauses = by_key;
        // Without a node key nothing is right; the list of them is what an editor offers.
        clauses.push(json!({
            "if": { "not": { "anyOf": none } },
            "then": { "properties": keys, "additionalProperties": false, "minProperties": 1 },
        }));
        let node = json!({
            "description": "A node: a mapping with exactly one node key, its options beside it; or a bare word.",
            "if": { "type": "string" },
            "then": { "enum": bare },
            "else": { "type": "object", "allOf": clauses },
        });
        self.0.insert("node".to_owned(), node);
        let process = json!({
            "description": "A process: a list of nodes.",
            "type": ["array", "null"],
            "items": reference("node"),
        });
        self.0.insert("process".to_owned(), process);
    }

    fn leaves(&mut self) {
        let leaf = |pattern: &str| format!("{pattern}|{REFERENCE}");
        let leaves = [
            (
                "reference",
                json!({
                    "description": "A text with `${NAME}`, `${NAME:-default}` or `${file:PATH}` in it.",
                    "type": "string",
                    "pattern": REFERENCE,
                }),
            ),
            ("text", json!({ "type": ["string", "number", "boolean"] })),
            ("name", json!({ "type": ["string", "number", "boolean"], "pattern": r"\S" })),
            (
                "label",
                json!({
                    "type": ["string", "number", "boolean"],
                    "pattern": leaf(r"^[A-Za-z0-9_.\-]+$"),
                }),
            ),
            (
                "duration",
                json!({
                    "type": "string",
                    "pattern": leaf(&format!(r"^\s*(?=[^1-9]*[1-9])([0-9][0-9\s]*(\.[0-9]+)?\s*({UNITS})\s*)+$")),
                }),
            ),
            (
                "size",
                json!({
                    "type": ["string", "integer"],
                    "pattern": leaf(&format!(r"^\s*(?=[^1-9]*[1-9])([0-9]+|[0-9.]+\s*{SIZE_UNITS})\s*$")),
                    "minimum": 1,
                }),
            ),
            (
                "rate",
                json!({
                    "description": "So many in a second, a minute or an hour, such as `100/min`.",
                    "type": "string",
                    "pattern": leaf(r"^\s*[0-9]{1,18}\s*/\s*(s|min|h)\s*$"),
                }),
            ),
            (
                "boolean",
                json!({
                    "type": ["boolean", "string"],
                    "pattern": leaf(r"^\s*(true|True|TRUE|false|False|FALSE)\s*$"),
                }),
            ),
            (
                "expression",
                json!({
                    "description": "An expression in CEL. Variables are `env.NAME`; `${…}` does not work here.",
                    "type": ["string", "number", "boolean", "null"],
                    "pattern": r"^(?![\s\S]*\$\{)[\s\S]*\S",
                }),
            ),
        ];
        self.0.extend(leaves.map(|(name, schema)| (name.to_owned(), schema)));
    }
}

fn reference(name: &str) -> Json {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// One schema for values of a type, another for all others.
fn either(of_type: &str, then: Json, otherwise: Json) -> Json {
    json!({ "if": { "type": of_type }, "then": then, "else": otherwise })
}

fn whole(least: u64, most: u64) -> Json {
    let digits = if least == 0 { "[0-9]+" } else { "0*[1-9][0-9]*" };
    json!({
        "type": ["integer", "string"],
        "minimum": least,
        "maximum": most,
        "pattern": format!(r"^\s*\+?{digits}\s*$|{REFERENCE}"),
    })
}

/// All keys of one form, and none of the others'.
fn forms(forms: &[&[&str]]) -> Json {
    let one = |form: &&[&str]| {
        let others = forms.iter().filter(|other| *other != form).flat_map(|other| other.iter());
        let none: Map<String, Json> = others.map(|key| ((*key).to_owned(), json!(false))).collect();
        json!({ "required": form, "properties": none })
    };
    forms.iter().map(one).collect()
}

/// A snippet of the table as JSON.
fn yaml(snippet: &str) -> Json {
    reader::snippet_to_json(snippet)
}

#[cfg(test)]
mod tests {
    use super::{CASES, FLOW, Json, Key, Mapping, NODES, Value, yaml};

    /// Every default and example is YAML, or the schema would show `null` for it.
    #[test]
    fn snippets_of_the_table_are_yaml() {
        fn keys(mapping: &'static Mapping, seen: &mut Vec<&'static str>, each: &mut dyn FnMut(&'static Key)) {
            if seen.contains(&mapping.name) {
                return;
            }
            seen.push(mapping.name);
            for key in mapping.keys {
                each(key);
                let mut value = &key.value;
                while let Value::List { of, .. } | Value::Named { of, .. } = value {
                    value = of;
                }
                if let Value::Mapping(inner) = value {
                    keys(inner, seen, each);
                }
            }
        }
        let mut count = 0;
        let mut seen = Vec::new();
        for mapping in [&FLOW, &CASES].into_iter().chain(NODES) {
            keys(mapping, &mut seen, &mut |key| {
                for snippet in key.default.iter().chain(&key.example) {
                    assert_ne!(yaml(snippet), Json::Null, "{}: {snippet}", key.name);
                    count += 1;
                }
            });
        }
        assert!(count > 80, "{count}");
    }
}
