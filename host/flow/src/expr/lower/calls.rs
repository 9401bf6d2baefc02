//! Operators and functions: which exist, how many arguments they take, and kinds that can never work.

use cel::common::ast::{CallExpr, IdedExpr, operators};
use regex::Regex;

use super::super::ResultKind;
use super::super::functions::{FUNCTIONS, Form, Function, MACROS, Signature, find};
use super::super::issue::ExprIssue;
use super::super::node::{Literal, Node, Order};
use super::super::number::Arithmetic;
use super::super::pattern;
use super::super::suggest::nearest;
use super::{Lowering, Typed};

impl Lowering<'_> {
    pub(super) fn call(&mut self, tree: &IdedExpr, call: &CallExpr) -> Result<Typed, ExprIssue> {
        let arguments = call.args.as_slice();
        match (call.func_name.as_str(), arguments) {
            (operators::LOGICAL_AND, [a, b]) => {
                let (a, b) =
                    (self.condition(a, "an operand of `&&`")?, self.condition(b, "an operand of `&&`")?);
                Ok(boolean(Node::And(Box::new(a), Box::new(b))))
            }
            (operators::LOGICAL_OR, [a, b]) => {
                let (a, b) =
                    (self.condition(a, "an operand of `||`")?, self.condition(b, "an operand of `||`")?);
                Ok(boolean(Node::Or(Box::new(a), Box::new(b))))
            }
            (operators::LOGICAL_NOT, [a]) => {
                Ok(boolean(Node::Not(Box::new(self.condition(a, "the operand of `!`")?))))
            }
            (operators::CONDITIONAL, [condition, a, b]) => {
                let condition = self.condition(condition, "what is before `?`")?;
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                let kind = if a.kind == b.kind { a.kind } else { ResultKind::Unknown };
                Ok(Typed { node: Node::If(Box::new([condition, a.node, b.node])), kind })
            }
            (operators::ADD, [a, b]) => self.arithmetic(tree, Arithmetic::Add, a, b),
            (operators::SUBSTRACT, [a, b]) => self.arithmetic(tree, Arithmetic::Subtract, a, b),
            (operators::MULTIPLY, [a, b]) => self.arithmetic(tree, Arithmetic::Multiply, a, b),
            (operators::DIVIDE, [a, b]) => self.arithmetic(tree, Arithmetic::Divide, a, b),
            (operators::MODULO, [a, b]) => self.arithmetic(tree, Arithmetic::Remainder, a, b),
            (operators::NEGATE, [a]) => {
                let operand = self.expr(a)?;
                if !(operand.kind == ResultKind::Unknown || number(operand.kind)) {
                    return Err(self.issue(tree, format!("`-` needs a number, not {}", operand.kind), None));
                }
                let kind = if operand.kind == ResultKind::UInt { ResultKind::Int } else { operand.kind };
                Ok(Typed { node: Node::Negate(Box::new(operand.node)), kind })
            }
            (operators::EQUALS, [a, b]) => Ok(boolean(Node::Equal(self.alike(tree, "==", a, b)?))),
            (operators::NOT_EQUALS, [a, b]) => Ok(boolean(Node::NotEqual(self.alike(tree, "!=", a, b)?))),
            (operators::LESS, [a, b]) => self.order(tree, Order::Less, a, b),
            (operators::LESS_EQUALS, [a, b]) => self.order(tree, Order::LessEqual, a, b),
            (operators::GREATER, [a, b]) => self.order(tree, Order::Greater, a, b),
            (operators::GREATER_EQUALS, [a, b]) => self.order(tree, Order::GreaterEqual, a, b),
            (operators::IN, [a, b]) => self.membership(b, a),
            (operators::INDEX, [a, b]) => self.index(tree, a, b),
            (name, _) => self.function(tree, call, name),
        }
    }

    /// A part that must be a boolean.
    pub(super) fn condition(&mut self, tree: &IdedExpr, what: &str) -> Result<Node, ExprIssue> {
        let typed = self.expr(tree)?;
        match typed.kind {
            ResultKind::Bool | ResultKind::Unknown => Ok(typed.node),
            kind => Err(self.issue(tree, format!("{what} must be a boolean, not {kind}"), None)),
        }
    }

    fn arithmetic(
        &mut self,
        tree: &IdedExpr,
        op: Arithmetic,
        a: &IdedExpr,
        b: &IdedExpr,
    ) -> Result<Typed, ExprIssue> {
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        let kind = arithmetic_kind(op, a.kind, b.kind).ok_or_else(|| {
            let text = format!("`{}` does not work on {} and {}", op.sign(), a.kind, b.kind);
            let mixed = [a.kind, b.kind].contains(&ResultKind::String) && op == Arithmetic::Add;
            self.issue(tree, text, mixed.then_some("convert the other operand: `string(x)`"))
        })?;
        Ok(Typed { node: Node::Arithmetic(op, Box::new([a.node, b.node])), kind })
    }

    /// Two operands that can be equal. A comparison that is known to be false is a mistake in the text.
    fn alike(
        &mut self,
        tree: &IdedExpr,
        sign: &str,
        a: &IdedExpr,
        b: &IdedExpr,
    ) -> Result<Box<[Node; 2]>, ExprIssue> {
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        let same = [a.kind, b.kind].contains(&ResultKind::Unknown)
            || [a.kind, b.kind].contains(&ResultKind::Null)
            || a.kind == b.kind
            || number(a.kind) && number(b.kind);
        if !same {
            let text = format!("{} and {} are never equal: `{sign}` decides nothing here", a.kind, b.kind);
            return Err(self.issue(tree, text, None));
        }
        Ok(Box::new([a.node, b.node]))
    }

    fn order(
        &mut self,
        tree: &IdedExpr,
        order: Order,
        a: &IdedExpr,
        b: &IdedExpr,
    ) -> Result<Typed, ExprIssue> {
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        for kind in [a.kind, b.kind] {
            if matches!(kind, ResultKind::Null | ResultKind::List | ResultKind::Map | ResultKind::Type) {
                return Err(self.issue(tree, format!("{kind} has no order"), None));
            }
        }
        let comparable = [a.kind, b.kind].contains(&ResultKind::Unknown)
            || a.kind == b.kind
            || number(a.kind) && number(b.kind);
        if !comparable {
            return Err(self.issue(tree, format!("{} and {} cannot be ordered", a.kind, b.kind), None));
        }
        Ok(boolean(Node::Order(order, Box::new([a.node, b.node]))))
    }

    fn membership(&mut self, range: &IdedExpr, item: &IdedExpr) -> Result<Typed, ExprIssue> {
        let item = self.expr(item)?.node;
        let typed = self.expr(range)?;
        if !matches!(typed.kind, ResultKind::Unknown | ResultKind::List | ResultKind::Map) {
            let hint = "a part of a text is found with `text.contains(part)`";
            let hint = (typed.kind == ResultKind::String).then_some(hint);
            return Err(self.issue(range, format!("`in` needs a list or a map, not {}", typed.kind), hint));
        }
        let Node::List(items) = typed.node else {
            return Ok(boolean(Node::In(Box::new(item), Box::new(typed.node))));
        };
        if !items.iter().all(|item| matches!(item, Node::Literal(_))) {
            return Ok(boolean(Node::In(Box::new(item), Box::new(Node::List(items)))));
        }
        let literals = items.into_iter().filter_map(|item| match item {
            Node::Literal(literal) => Some(literal),
            _ => None,
        });
        Ok(boolean(Node::InLiterals(Box::new(item), literals.collect())))
    }

    fn index(&mut self, tree: &IdedExpr, range: &IdedExpr, index: &IdedExpr) -> Result<Typed, ExprIssue> {
        let at = self.expr(index)?;
        if let Node::Literal(Literal::String(name)) = &at.node {
            match self.root(range) {
                Some("env") => {
                    self.reads.env.insert(name.to_string());
                    return Ok(Typed { node: Node::Env(name.clone()), kind: ResultKind::String });
                }
                Some("msg") => return self.msg(tree, name, false),
                _ => {
                    let operand = self.expr(range)?;
                    return self.named(tree, operand, name, false);
                }
            }
        }
        let operand = self.expr(range)?;
        let allowed = match operand.kind {
            ResultKind::Unknown | ResultKind::Map => {
                matches!(at.kind, ResultKind::Unknown | ResultKind::String | ResultKind::Bool)
                    || number(at.kind)
            }
            ResultKind::List => at.kind == ResultKind::Unknown || number(at.kind),
            _ => false,
        };
        if !allowed {
            let text = format!("{} cannot be indexed with {}", operand.kind, at.kind);
            return Err(self.issue(tree, text, None));
        }
        Ok(Typed::unknown(Node::Index(Box::new(operand.node), Box::new(at.node))))
    }

    fn function(&mut self, tree: &IdedExpr, call: &CallExpr, name: &str) -> Result<Typed, ExprIssue> {
        let bare = name.trim_start_matches('.');
        let Some(signature) = find(bare) else {
            return Err(self.unknown_function(tree, call, bare));
        };
        let method = call.target.is_some();
        let written = |signature: &Signature| match signature.form {
            Form::Global => format!("`{bare}(x)`"),
            Form::Method if signature.arguments.0 == 1 => format!("`x.{bare}()`"),
            Form::Method | Form::Both => {
                format!("`x.{bare}({})`", if signature.arguments.0 == 1 { "" } else { "y" })
            }
        };
        if signature.form == Form::Global && method || signature.form == Form::Method && !method {
            let hint = format!("write {}", written(signature));
            return Err(self.issue(tree, format!("`{bare}` is not called like this"), Some(&hint)));
        }
        let trees: Vec<&IdedExpr> = call.target.as_deref().into_iter().chain(&call.args).collect();
        let (fewest, most) = signature.arguments;
        if !(fewest..=most).contains(&trees.len()) {
            let receiver = usize::from(method);
            let takes = match (fewest - receiver, most - receiver) {
                (0, 0) => "no argument".to_owned(),
                (1, 1) => "one argument".to_owned(),
                (fewest, most) if fewest == most => format!("{fewest} arguments"),
                (fewest, most) => format!("{fewest} to {most} arguments"),
            };
            let text = format!("`{bare}` takes {takes}, not {}", call.args.len());
            return Err(self.issue(tree, text, Some(&format!("write {}", written(signature)))));
        }
        let mut nodes = Vec::with_capacity(trees.len());
        for (place, argument) in trees.into_iter().enumerate() {
            let typed = self.expr(argument)?;
            let allowed = if place == 0 { signature.first } else { signature.others };
            if typed.kind != ResultKind::Unknown && !allowed.is_empty() && !allowed.contains(&typed.kind) {
                let text = format!("`{bare}` does not take {}", typed.kind);
                return Err(self.issue(argument, text, None));
            }
            nodes.push((typed.node, argument));
        }
        if signature.function == Function::Matches
            && let [(_, _), (Node::Literal(Literal::String(text)), place)] = nodes.as_slice()
        {
            let pattern = self.pattern(text, place)?;
            let subject = nodes.swap_remove(0).0;
            return Ok(boolean(Node::Matches(Box::new(subject), pattern)));
        }
        let nodes = nodes.into_iter().map(|(node, _)| node).collect();
        Ok(Typed { node: Node::Call(signature.function, nodes), kind: signature.result })
    }

    fn pattern(&self, text: &str, place: &IdedExpr) -> Result<Regex, ExprIssue> {
        pattern::compile(text).map_err(|problem| self.issue(place, problem, None))
    }

    fn unknown_function(&self, tree: &IdedExpr, call: &CallExpr, name: &str) -> ExprIssue {
        if MACROS.contains(&name) {
            let (text, hint) = match name {
                "has" => ("`has` takes one field", "write `has(payload.field)`".to_owned()),
                "map" => {
                    ("`map` takes a variable and an expression", "write `list.map(x, x.field)`".to_owned())
                }
                name => (
                    "this macro takes a variable and a condition",
                    format!("write `list.{name}(x, x.field > 0)`"),
                ),
            };
            return self.issue(tree, text, Some(&hint));
        }
        let known = FUNCTIONS.iter().map(|signature| signature.name).chain(MACROS);
        let hint = nearest(name, known).map(|near| format!("did you mean `{near}`?"));
        let kind = if call.target.is_some() { "method" } else { "function" };
        self.issue(tree, format!("unknown {kind} `{name}`"), hint.as_deref())
    }
}

fn boolean(node: Node) -> Typed {
    Typed { node, kind: ResultKind::Bool }
}

fn number(kind: ResultKind) -> bool {
    matches!(kind, ResultKind::Int | ResultKind::UInt | ResultKind::Double)
}

/// What an operation gives; none when it never works.
fn arithmetic_kind(op: Arithmetic, a: ResultKind, b: ResultKind) -> Option<ResultKind> {
    use ResultKind::{Bytes, Double, Duration, Int, List, String, Timestamp, UInt, Unknown};
    let additive = matches!(op, Arithmetic::Add | Arithmetic::Subtract);
    match (a, b) {
        (Unknown, Unknown) => Some(Unknown),
        (Unknown, kind) | (kind, Unknown) => match kind {
            Int | UInt | Double => Some(Unknown),
            String | Bytes | List if op == Arithmetic::Add => Some(kind),
            Timestamp | Duration if additive => Some(Unknown),
            _ => None,
        },
        (Int, Int) => Some(Int),
        (UInt, UInt) => Some(UInt),
        (Int, UInt) | (UInt, Int) => Some(Unknown),
        (Double, Int | UInt | Double) | (Int | UInt, Double) => Some(Double),
        (String, String) | (Bytes, Bytes) | (List, List) if op == Arithmetic::Add => Some(a),
        (Timestamp, Duration) if additive => Some(Timestamp),
        (Duration, Timestamp) if op == Arithmetic::Add => Some(Timestamp),
        (Duration, Duration) if additive => Some(Duration),
        (Timestamp, Timestamp) if op == Arithmetic::Subtract => Some(Duration),
        _ => None,
    }
}
