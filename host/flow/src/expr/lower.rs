//! From the parser's tree to checked nodes: names and functions are resolved, macros are recognised, and operations on
//! kinds that can never work are refused. What depends on the record is left to the evaluator.

mod calls;
mod macros;

use std::collections::BTreeSet;
use std::ops::Range;

use cel::common::ast::{
    EntryExpr, Expr as Syntax, IdedExpr, LiteralValue, MapExpr, SelectExpr, SourceInfo, operators,
};

use super::ResultKind;
use super::issue::ExprIssue;
use super::limits::closing;
use super::node::{Literal, MsgField, Node};
use super::suggest::nearest;

/// The names of types, as `type` gives them.
const TYPES: [(&str, ResultKind); 10] = [
    ("int", ResultKind::Int),
    ("uint", ResultKind::UInt),
    ("double", ResultKind::Double),
    ("string", ResultKind::String),
    ("bytes", ResultKind::Bytes),
    ("bool", ResultKind::Bool),
    ("list", ResultKind::List),
    ("map", ResultKind::Map),
    ("null_type", ResultKind::Null),
    ("type", ResultKind::Type),
];

/// A node and what it is known to give.
pub(super) struct Typed {
    /// The node.
    pub(super) node: Node,
    /// Its kind.
    pub(super) kind: ResultKind,
}

impl Typed {
    fn unknown(node: Node) -> Typed {
        Typed { node, kind: ResultKind::Unknown }
    }
}

/// What lowering found beside the nodes.
#[derive(Default)]
pub(super) struct Reads {
    /// Names read as `env.NAME`.
    pub(super) env: BTreeSet<String>,
    /// Whether `payload` is read.
    pub(super) payload: bool,
}

/// Lowers a parsed text.
pub(super) fn lower(text: &str, tree: &IdedExpr, info: &SourceInfo) -> Result<(Typed, Reads), ExprIssue> {
    let mut lowering = Lowering { text, info, locals: Vec::new(), reads: Reads::default() };
    let typed = lowering.expr(tree)?;
    Ok((typed, lowering.reads))
}

struct Lowering<'t> {
    text: &'t str,
    info: &'t SourceInfo,
    /// Variables of the macros around the current place.
    locals: Vec<String>,
    reads: Reads,
}

impl Lowering<'_> {
    fn expr(&mut self, tree: &IdedExpr) -> Result<Typed, ExprIssue> {
        match &tree.expr {
            Syntax::Literal(literal) => Ok(self.literal(literal)),
            Syntax::Ident(name) => self.variable(tree, name),
            Syntax::Select(select) => self.select(tree, select),
            Syntax::Call(call) => self.call(tree, call),
            Syntax::Comprehension(each) => self.each(tree, each),
            Syntax::List(list) => {
                let items =
                    list.elements.iter().map(|item| Ok(self.expr(item)?.node)).collect::<Result<_, _>>()?;
                Ok(Typed { node: Node::List(items), kind: ResultKind::List })
            }
            Syntax::Map(map) => self.map(map),
            Syntax::Struct(_) => Err(self.issue(
                tree,
                "messages of a named type are not supported",
                Some("write a map: `{'name': value}`"),
            )),
            Syntax::Unspecified => Err(self.issue(tree, "the expression is not complete", None)),
        }
    }

    fn literal(&self, literal: &LiteralValue) -> Typed {
        let (literal, kind) = match literal {
            LiteralValue::Null => (Literal::Null, ResultKind::Null),
            LiteralValue::Boolean(value) => (Literal::Bool(*value.inner()), ResultKind::Bool),
            LiteralValue::Int(value) => (Literal::Int(*value.inner()), ResultKind::Int),
            LiteralValue::UInt(value) => (Literal::UInt(*value.inner()), ResultKind::UInt),
            LiteralValue::Double(value) => (Literal::Double(*value.inner()), ResultKind::Double),
            LiteralValue::String(value) => (Literal::String(value.inner().into()), ResultKind::String),
            LiteralValue::Bytes(value) => (Literal::Bytes(value.inner().into()), ResultKind::Bytes),
        };
        Typed { node: Node::Literal(literal), kind }
    }

    fn variable(&mut self, tree: &IdedExpr, name: &str) -> Result<Typed, ExprIssue> {
        if let Some(slot) = self.locals.iter().rposition(|local| local == name) {
            return Ok(Typed::unknown(Node::Local(slot, name.into())));
        }
        match name.trim_start_matches('.') {
            "payload" => {
                self.reads.payload = true;
                Ok(Typed::unknown(Node::Payload(Vec::new())))
            }
            "msg" => Ok(Typed { node: Node::WholeMsg, kind: ResultKind::Map }),
            "env" => Err(self.issue(tree, "`env` alone is no value", Some("name the variable: `env.NAME`"))),
            name => {
                if let Some((_, kind)) = TYPES.iter().find(|(type_name, _)| *type_name == name) {
                    return Ok(Typed { node: Node::Literal(Literal::Type(*kind)), kind: ResultKind::Type });
                }
                let known = self.locals.iter().map(String::as_str).chain(["payload", "msg", "env"]);
                let hint = match (nearest(name, known), super::functions::find(name)) {
                    (Some(near), _) => format!("did you mean `{near}`?"),
                    (None, Some(_)) => {
                        format!("`{name}` is a function; a field is `payload.{name}`, a text `'{name}'`")
                    }
                    (None, None) => {
                        format!("a field of the record is `payload.{name}`, a text is `'{name}'`")
                    }
                };
                Err(self.issue(tree, format!("unknown variable `{name}`"), Some(&hint)))
            }
        }
    }

    fn select(&mut self, tree: &IdedExpr, select: &SelectExpr) -> Result<Typed, ExprIssue> {
        let field = select.field.as_str();
        if let Some(root) = self.root(&select.operand) {
            if root == "env" {
                if select.test {
                    let hint = "an unset variable is found when the flow is checked";
                    return Err(self.issue(tree, "`has` does not apply to `env`", Some(hint)));
                }
                self.reads.env.insert(field.to_owned());
                return Ok(Typed { node: Node::Env(field.into()), kind: ResultKind::String });
            }
            if root == "msg" {
                return self.msg(tree, field, select.test);
            }
        }
        let operand = self.expr(&select.operand)?;
        self.named(tree, operand, field, select.test)
    }

    /// `operand.field`, and `operand['field']`, which is the same.
    fn named(
        &mut self,
        tree: &IdedExpr,
        operand: Typed,
        field: &str,
        test: bool,
    ) -> Result<Typed, ExprIssue> {
        if !matches!(operand.kind, ResultKind::Unknown | ResultKind::Map) {
            return Err(self.issue(tree, format!("{} has no field `{field}`", operand.kind), None));
        }
        let node = match operand.node {
            node if test => {
                return Ok(Typed { node: Node::Has(Box::new(node), field.into()), kind: ResultKind::Bool });
            }
            Node::Payload(mut path) => {
                path.push(field.into());
                Node::Payload(path)
            }
            Node::Msg(MsgField::Headers) => Node::Header(field.into()),
            node => Node::Select(Box::new(node), field.into()),
        };
        Ok(Typed::unknown(node))
    }

    fn msg(&mut self, tree: &IdedExpr, field: &str, test: bool) -> Result<Typed, ExprIssue> {
        let Some((_, known)) = MsgField::ALL.iter().find(|(name, _)| *name == field) else {
            let names = MsgField::ALL.map(|(name, _)| name);
            let hint = match nearest(field, names) {
                Some(near) => format!("did you mean `msg.{near}`?"),
                None => format!("its fields are {}", names.join(", ")),
            };
            return Err(self.issue(tree, format!("`msg` has no field `{field}`"), Some(&hint)));
        };
        if test {
            return Ok(Typed { node: Node::HasMsg(*known), kind: ResultKind::Bool });
        }
        let kind = match known {
            MsgField::Topic | MsgField::Row => ResultKind::String,
            MsgField::Partition | MsgField::Offset => ResultKind::Int,
            MsgField::Headers => ResultKind::Map,
            MsgField::Key | MsgField::TimestampMs | MsgField::Type => ResultKind::Unknown,
        };
        Ok(Typed { node: Node::Msg(*known), kind })
    }

    fn map(&mut self, map: &MapExpr) -> Result<Typed, ExprIssue> {
        let mut entries: Vec<(Node, Node)> = Vec::with_capacity(map.entries.len());
        let mut names: Vec<String> = Vec::new();
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
            let key = self.expr(&entry.key)?;
            if !matches!(
                key.kind,
                ResultKind::Unknown
                    | ResultKind::String
                    | ResultKind::Int
                    | ResultKind::UInt
                    | ResultKind::Bool
            ) {
                let text = format!("{} cannot be the key of a map", key.kind);
                return Err(self.issue(
                    &entry.key,
                    text,
                    Some("a key is a string, a whole number or a boolean"),
                ));
            }
            if let Node::Literal(literal) = &key.node {
                let name = match literal {
                    Literal::Int(int) => int.to_string(),
                    Literal::UInt(uint) => uint.to_string(),
                    literal => format!("{literal:?}"),
                };
                if names.contains(&name) {
                    return Err(self.issue(&entry.key, "the map has this key already", None));
                }
                names.push(name);
            }
            entries.push((key.node, self.expr(&entry.value)?.node));
        }
        Ok(Typed { node: Node::Map(entries), kind: ResultKind::Map })
    }

    /// The variable that a tree is, unless a macro's variable hides it.
    fn root<'e>(&self, tree: &'e IdedExpr) -> Option<&'e str> {
        match &tree.expr {
            Syntax::Ident(name) if !self.locals.contains(name) => Some(name.trim_start_matches('.')),
            _ => None,
        }
    }

    fn issue(&self, tree: &IdedExpr, message: impl Into<String>, hint: Option<&str>) -> ExprIssue {
        let span = self.span(tree);
        ExprIssue { message: message.into(), span, hint: hint.map(str::to_owned) }
    }

    /// The text of a tree and all that is below it.
    fn span(&self, tree: &IdedExpr) -> Range<usize> {
        let mut span = self.token(tree.id);
        let mut include = |part: Range<usize>| match &mut span {
            Some(span) => *span = span.start.min(part.start)..span.end.max(part.end),
            None => span = Some(part),
        };
        match &tree.expr {
            Syntax::Select(select) => {
                include(self.span(&select.operand));
                // The token is the dot; the name follows it.
                if let Some(dot) = self.token(tree.id)
                    && let Some(at) = self.text[dot.end..].find(select.field.as_str())
                {
                    include(dot.end + at..dot.end + at + select.field.len());
                }
            }
            Syntax::Call(call) => {
                call.target.iter().for_each(|target| include(self.span(target)));
                call.args.iter().for_each(|argument| include(self.span(argument)));
                let bracket = match call.func_name.as_str() {
                    operators::INDEX => self.token(tree.id),
                    // The token is the bracket; the name is before it.
                    name if name.starts_with(|first: char| first.is_ascii_alphabetic()) => {
                        let token = self.token(tree.id);
                        if let Some(at) =
                            token.as_ref().and_then(|token| self.text[..token.start].rfind(name))
                        {
                            include(at..at + name.len());
                        }
                        token
                    }
                    _ => None,
                };
                if let Some(bracket) = bracket {
                    include(bracket.start..closing(self.text, bracket.start));
                }
            }
            Syntax::Comprehension(each) => {
                include(self.span(&each.iter_range));
                if let Some(bracket) = self.token(tree.id) {
                    include(bracket.start..closing(self.text, bracket.start));
                }
            }
            _ => {}
        }
        span.unwrap_or(0..self.text.len())
    }

    /// The token that a node was made at. The parser counts characters.
    fn token(&self, id: u64) -> Option<Range<usize>> {
        let (start, stop) = self.info.offset_for(id)?;
        Some(byte_of(self.text, start as usize)..byte_of(self.text, stop as usize + 1))
    }
}

/// The byte at which a character begins, or the end of the text.
pub(super) fn byte_of(text: &str, character: usize) -> usize {
    text.char_indices().nth(character).map_or(text.len(), |(at, _)| at)
}
