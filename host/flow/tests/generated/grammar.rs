//! Documents: a grammar of flows that are right in every shape, changes that break their structure, and how they are
//! written down.

use std::fmt::Write as _;

/// Chance from a seed: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
pub struct Chance(pub u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % count as u64).expect("smaller than a count")
    }

    /// Once in `count` times.
    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn of<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.below(all.len())]
    }
}

/// A document before it is written down.
#[derive(Clone, Debug)]
pub enum Doc {
    /// Written as it stands: with its quotes, if it has any.
    Word(String),
    List(Vec<Doc>),
    Map(Vec<(String, Doc)>),
}

fn word(text: &str) -> Doc {
    Doc::Word(text.to_owned())
}

fn map<const N: usize>(entries: [(&str, Doc); N]) -> Doc {
    Doc::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

const PREDICATES: [&str; 6] = [
    "payload.total > 10",
    "has(payload.x)",
    "\"!has(payload.gone)\"",
    "msg.key == 'a'",
    "'payload.tag == \"a: b # c\"'",
    "\"msg.partition in [1, 2]\"",
];

/// The grammar: processes that are right, in the shapes that each node takes and gives.
struct Grammar<'c> {
    chance: &'c mut Chance,
    /// How many levels of processes may still be opened.
    depth: usize,
    outputs: usize,
}

impl Grammar<'_> {
    fn flow(&mut self) -> Doc {
        let process = self.process();
        let delivery = *self.chance.of(&["at_least_once", "at_most_once"]);
        let mut entries = vec![
            ("name", word("generated")),
            (
                "kafka",
                map([
                    (
                        "consumer",
                        map([
                            ("brokers", Doc::List(vec![word("\"${BROKERS:-localhost:9092}\"")])),
                            ("group_id", word("generated")),
                            ("topics", Doc::List(vec![word("in"), word("\"${CANARY}\"")])),
                            ("delivery", word(delivery)),
                            (
                                "security",
                                map([
                                    ("protocol", word("SASL_SSL")),
                                    ("sasl_mechanism", word("PLAIN")),
                                    ("sasl_username", word("u")),
                                    ("sasl_password", word("\"${CANARY}\"")),
                                ]),
                            ),
                        ]),
                    ),
                    ("producer", map([("brokers", Doc::List(vec![word("localhost:9092")]))])),
                ]),
            ),
            ("plugins", self.plugins()),
            ("process", process),
        ];
        let default = self.terminal();
        let mut errors = vec![("default".to_owned(), Doc::List(vec![default]))];
        if self.chance.one_in(3) {
            errors.push(("wire".to_owned(), Doc::List(vec![word("drain")])));
        }
        entries.push(("errors", Doc::Map(errors)));
        Doc::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    fn plugins(&mut self) -> Doc {
        let file = |name: &str| map([("component", word(name))]);
        map([
            (
                "s",
                map([
                    ("component", word("step.wasm")),
                    ("config", map([("token", word("\"${CANARY}\"")), ("n", word("7"))])),
                    ("limits", map([("memory", word("64MiB")), ("timeout", word("1s"))])),
                ]),
            ),
            ("p", file("predicate.wasm")),
            ("k", file("sink.wasm")),
            ("x", file("expander.wasm")),
            ("t", file("typed.wasm")),
            ("b", file("batcher.wasm")),
            ("bx", file("gatherer.wasm")),
        ])
    }

    /// Some nodes that give records, and a terminal.
    fn process(&mut self) -> Doc {
        let mut nodes = Vec::new();
        for _ in 0..self.chance.below(4) {
            self.records(&mut nodes);
        }
        nodes.push(self.terminal());
        Doc::List(nodes)
    }

    /// A node, or a few, that take records and give records.
    fn records(&mut self, nodes: &mut Vec<Doc>) {
        match self.chance.below(9) {
            0 => nodes.push(self.step()),
            1 => nodes.push(map([("map", word("\"{'id': payload.id, 'all': payload}\""))])),
            2 => {
                let predicate = self.predicate();
                nodes.push(map([("filter", predicate)]));
            }
            3 => nodes.push(map([("expand", word("x"))])),
            4 => {
                nodes.push(self.window());
                nodes.push(map([("batch_step", word("b")), ("timeout", word("5s"))]));
                nodes.push(word("for_each"));
            }
            5 => {
                nodes.push(self.window());
                nodes.push(map([("batch_expand", word("bx"))]));
            }
            6 => {
                nodes.push(map([("explode", word("t"))]));
                let branches = map([("line", Doc::List(vec![self.step()])), ("refund", Doc::List(vec![]))]);
                nodes.push(map([(
                    "router",
                    map([("by", word("msg.type")), ("branches", branches), ("default", word("pass"))]),
                )]));
            }
            7 => {
                let predicate = self.predicate();
                let step = self.step();
                let branch = map([("if", predicate), ("process", Doc::List(vec![step]))]);
                nodes.push(map([(
                    "router",
                    map([("when", Doc::List(vec![branch])), ("default", word("pass"))]),
                )]));
            }
            _ => {
                let errors = map([("business", Doc::List(vec![self.terminal()]))]);
                nodes.push(map([("step", word("s")), ("retries", word("3")), ("errors", errors)]));
            }
        }
    }

    fn step(&mut self) -> Doc {
        match self.chance.below(3) {
            0 => map([("step", word("s"))]),
            1 => map([("step", word("s")), ("timeout", word("100ms")), ("on_trap", word("fail_batch"))]),
            _ => map([("step", word("s")), ("concurrency", word("4")), ("ordered", word("false"))]),
        }
    }

    fn window(&mut self) -> Doc {
        let bounds =
            map([("max_records", word("10")), ("timeout_ms", word("500")), ("key", word("payload.k"))]);
        map([("collect_batch", bounds)])
    }

    fn predicate(&mut self) -> Doc {
        match self.chance.below(4) {
            0 => map([("plugin", word("p"))]),
            _ => word(self.chance.of::<&str>(&PREDICATES)),
        }
    }

    fn terminal(&mut self) -> Doc {
        if self.depth == 0 {
            return self.output();
        }
        self.depth -= 1;
        let node = match self.chance.below(6) {
            0 => {
                let count = 1 + self.chance.below(PREDICATES.len());
                let branches = (0..count)
                    .map(|index| map([("if", word(PREDICATES[index])), ("process", self.process())]))
                    .collect();
                map([("fork", map([("when", Doc::List(branches)), ("default", self.process())]))])
            }
            1 => {
                let branches = map([("eu", self.process()), ("NO", self.process())]);
                map([(
                    "fork",
                    map([
                        ("by", word("payload.region")),
                        ("branches", branches),
                        ("default", self.process()),
                    ]),
                )])
            }
            2 => {
                let count = 1 + self.chance.below(3);
                map([("broadcast", Doc::List((0..count).map(|_| self.process()).collect()))])
            }
            3 => {
                let routes = map([("line", self.process()), ("refund", self.process())]);
                let node = [("plugin", word("t")), ("routes", routes), ("default", self.process())];
                map([("expand_routes", map(node))])
            }
            _ => self.output(),
        };
        self.depth += 1;
        node
    }

    fn output(&mut self) -> Doc {
        self.outputs += 1;
        match self.chance.below(4) {
            0 => word("drain"),
            1 => map([("into_sink", word("k")), ("flush", map([("records", word("10"))]))]),
            2 => map([("into_topic", word(&format!("out-{}", self.outputs))), ("key", word("payload.id"))]),
            _ => map([("into_topic", word(&format!("out-{}", self.outputs))), ("timestamp", word("now"))]),
        }
    }
}

/// What a word or key may become: things that mean something to YAML, to CEL or to the language.
const ODD: [&str; 44] = [
    "",
    "~",
    "null",
    "0",
    "-1",
    "1e400",
    "NO",
    "007",
    "0x",
    ".nan",
    "true",
    "yes",
    "drain",
    "for_each",
    "pass",
    "step",
    "s",
    "p",
    "in",
    "'",
    "\"\"",
    "\"${CANARY}\"",
    "\"${CANARY}/\"",
    "\"${NOBODY}\"",
    "\"${\"",
    "\"${file:secret}\"",
    "\"$${A}\"",
    "!x y",
    "!!int 5",
    "&a b",
    "*a",
    "[1, 2",
    "{ plugin: p }",
    "{ plugin: }",
    "payload",
    "payload.a +",
    "env.CANARY",
    "'\\u0000'",
    "\"a\\u202eb\"",
    "|",
    ">-",
    "2026-01-01",
    "99999999999999999999",
    "sha256:0",
];

const KEYS: [&str; 30] = [
    "name",
    "kafka",
    "process",
    "plugins",
    "errors",
    "default",
    "when",
    "by",
    "branches",
    "if",
    "step",
    "map",
    "filter",
    "fork",
    "router",
    "broadcast",
    "explode",
    "expand_routes",
    "routes",
    "plugin",
    "into_topic",
    "into_sink",
    "key",
    "timeout",
    "<<",
    "\"\"",
    "? a",
    "wire",
    "collect_batch",
    "security",
];

/// Breaks the structure at one place.
pub fn mutate(doc: &mut Doc, chance: &mut Chance, spare: &Doc) {
    // Walks down a random way and changes what it ends at; leaves are the likeliest end.
    let mut at = doc;
    loop {
        let stop = chance.one_in(5);
        let len = match at {
            Doc::Word(_) => 0,
            Doc::List(items) => items.len(),
            Doc::Map(entries) => entries.len(),
        };
        if stop || len == 0 {
            break;
        }
        let index = chance.below(len);
        at = match at {
            Doc::List(items) => &mut items[index],
            Doc::Map(entries) => &mut entries[index].1,
            Doc::Word(_) => unreachable!("it has no inside"),
        };
    }
    let own = at.clone();
    match (at, chance.below(8)) {
        (Doc::List(items), 0) if !items.is_empty() => {
            items.remove(chance.below(items.len()));
        }
        (Doc::Map(entries), 0) if !entries.is_empty() => {
            entries.remove(chance.below(entries.len()));
        }
        (Doc::List(items), 1) if items.len() > 1 => {
            let (one, other) = (chance.below(items.len()), chance.below(items.len()));
            items.swap(one, other);
        }
        (Doc::List(items), 2) => {
            let place = chance.below(items.len() + 1);
            items.insert(place, spare.clone());
        }
        (Doc::Map(entries), 1 | 2) if !entries.is_empty() => {
            let index = chance.below(entries.len());
            entries[index].0 = (*chance.of(&KEYS)).to_owned();
        }
        (Doc::Map(entries), 3) => {
            let value = if chance.one_in(2) { own.clone() } else { spare.clone() };
            entries.push(((*chance.of(&KEYS)).to_owned(), value));
        }
        (place, 4) => *place = Doc::List(vec![own]),
        (place, 5) => *place = Doc::Map(vec![((*chance.of(&KEYS)).to_owned(), own)]),
        (place, 6) => *place = spare.clone(),
        (place, _) => *place = word(chance.of::<&str>(&ODD)),
    }
}

/// Writes a document down: in blocks, or, deeper and by chance, in one line.
pub fn write(doc: &Doc, chance: &mut Chance) -> String {
    let mut out = String::new();
    block(doc, 0, chance, &mut out);
    out
}

fn block(doc: &Doc, indent: usize, chance: &mut Chance, out: &mut String) {
    let flow = indent > 2 && chance.one_in(3);
    match doc {
        Doc::Map(entries) if !flow && !entries.is_empty() => {
            for (key, value) in entries {
                let _ = write!(out, "\n{:indent$}{key}: ", "");
                block(value, indent + 2, chance, out);
            }
        }
        Doc::List(items) if !flow && !items.is_empty() => {
            for item in items {
                let _ = write!(out, "\n{:indent$}- ", "");
                block(item, indent + 2, chance, out);
            }
        }
        _ => inline(doc, out),
    }
}

fn inline(doc: &Doc, out: &mut String) {
    match doc {
        Doc::Word(text) => out.push_str(text),
        Doc::List(items) => {
            out.push_str("[ ");
            for item in items {
                inline(item, out);
                out.push_str(", ");
            }
            out.push(']');
        }
        Doc::Map(entries) => {
            out.push_str("{ ");
            for (key, value) in entries {
                let _ = write!(out, "{key}: ");
                inline(value, out);
                out.push_str(", ");
            }
            out.push('}');
        }
    }
}

/// A flow that is right by construction.
pub fn flow(chance: &mut Chance) -> Doc {
    let depth = chance.below(3);
    Grammar { chance, depth, outputs: 0 }.flow()
}
