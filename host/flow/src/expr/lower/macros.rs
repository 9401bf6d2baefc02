//! Macros. The parser has expanded them into folds with an accumulator; each is recognised by its accumulator's start
//! and becomes one node, so that `map` and `filter` append instead of copying a growing list.

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr as Syntax, IdedExpr, LiteralValue, operators};

use super::super::ResultKind;
use super::super::issue::ExprIssue;
use super::super::node::{Each, EachKind, Node};
use super::{Lowering, Typed};

/// The parts of a fold that a macro was written with.
struct Parts<'e> {
    kind: EachKind,
    condition: Option<&'e IdedExpr>,
    body: Option<&'e IdedExpr>,
}

impl Lowering<'_> {
    pub(super) fn each(&mut self, tree: &IdedExpr, fold: &ComprehensionExpr) -> Result<Typed, ExprIssue> {
        let Some(parts) = parts(fold) else {
            return Err(self.issue(tree, "this macro is not supported", None));
        };
        let range = self.expr(&fold.iter_range)?;
        if !matches!(range.kind, ResultKind::Unknown | ResultKind::List | ResultKind::Map) {
            let text = format!("a macro goes over a list or a map, not over {}", range.kind);
            return Err(self.issue(&fold.iter_range, text, None));
        }
        let slot = self.locals.len();
        self.locals.push(fold.iter_var.clone());
        let condition =
            parts.condition.map(|condition| self.condition(condition, "the condition of a macro"));
        let body = parts.body.map(|body| self.expr(body));
        self.locals.pop();
        let each = Each {
            kind: parts.kind,
            range: range.node,
            slot,
            condition: condition.transpose()?,
            body: body.transpose()?.map(|body| body.node),
        };
        let kind = if parts.kind == EachKind::Collect { ResultKind::List } else { ResultKind::Bool };
        Ok(Typed { node: Node::Each(Box::new(each)), kind })
    }
}

fn parts(fold: &ComprehensionExpr) -> Option<Parts<'_>> {
    let step = call(&fold.loop_step)?;
    let only = |kind, condition| Some(Parts { kind, condition: Some(condition), body: None });
    match &fold.accu_init.expr {
        Syntax::Literal(LiteralValue::Boolean(_)) if step.func_name == operators::LOGICAL_AND => {
            only(EachKind::All, step.args.get(1)?)
        }
        Syntax::Literal(LiteralValue::Boolean(_)) if step.func_name == operators::LOGICAL_OR => {
            only(EachKind::Exists, step.args.get(1)?)
        }
        Syntax::Literal(LiteralValue::Int(_)) if step.func_name == operators::CONDITIONAL => {
            only(EachKind::ExistsOne, step.args.first()?)
        }
        Syntax::List(_) => {
            let (condition, append) = if step.func_name == operators::CONDITIONAL {
                (Some(step.args.first()?), call(step.args.get(1)?)?)
            } else {
                (None, step)
            };
            let Syntax::List(appended) = &append.args.get(1)?.expr else { return None };
            let body = appended.elements.first()?;
            let itself = matches!(&body.expr, Syntax::Ident(name) if *name == fold.iter_var);
            Some(Parts { kind: EachKind::Collect, condition, body: (!itself).then_some(body) })
        }
        _ => None,
    }
}

fn call(tree: &IdedExpr) -> Option<&CallExpr> {
    match &tree.expr {
        Syntax::Call(call) => Some(call),
        _ => None,
    }
}
