//! Nodes of the host's own: expressions over rows.

use loom_flow::expr::{EvalError, Mapped, Scope};
use loom_types::{BytesBuilder, Changes, ErrorKind};

use super::{Flow, NodeId, Op, Target};
use crate::rows::{FailedRow, MADE_BYTES, Row, RowSet, no_room};

/// Rows that went through an expression, and those that it failed on.
struct Evaluated {
    passed: RowSet,
    failed: Vec<FailedRow>,
}

impl Flow {
    /// Evaluates an expression for each row, in order; `each` gets the values of those that passed.
    fn evaluate<T>(
        &mut self,
        rows: RowSet,
        mut eval: impl FnMut(&mut Scope<'_>) -> Result<T, EvalError>,
        mut each: impl FnMut(T),
    ) -> Evaluated {
        let mut passed = RowSet {
            batch: rows.batch.clone(),
            ids: Vec::with_capacity(rows.len()),
            tokens: Vec::with_capacity(rows.len()),
            route: rows.route,
        };
        let mut failed = Vec::new();
        let shared = &mut self.shared;
        for (id, token) in rows.ids.into_iter().zip(rows.tokens) {
            let mut scope = Scope::new(&rows.batch, id, &shared.env, &mut shared.cache);
            match eval(&mut scope) {
                Ok(value) => {
                    each(value);
                    passed.push(id, token);
                }
                Err(error) => {
                    let (kind, reason) = match error {
                        EvalError::Wire(reason) => (ErrorKind::Wire, reason),
                        EvalError::Task(reason) => (ErrorKind::Task, reason),
                    };
                    let row = Row::new(rows.batch.clone(), id, token, rows.route, 1);
                    failed.push(FailedRow { row, kind, reason });
                }
            }
        }
        Evaluated { passed, failed }
    }

    /// `map`: the value becomes the payload.
    pub(super) fn map(&mut self, id: NodeId, rows: RowSet) {
        let Op::Map { expr, next } = &self.nodes[id.0].op else { return };
        let (expr, next) = (expr.clone(), *next);
        let mut payload = BytesBuilder::with_capacity(rows.len(), 0).within(MADE_BYTES);
        let mut json = Vec::new();
        let done = self.evaluate(
            rows,
            |scope| {
                json.clear();
                let mapped = expr.json(scope, &mut json)?;
                // A row that fails appends nothing, so the column's rows are those that passed.
                let value = matches!(mapped, Mapped::Json).then_some(&json[..]);
                payload.push(value).map_err(|full| EvalError::Task(no_room(full)))
            },
            |()| {},
        );
        self.shared.holdings.add(payload.capacity());
        let mapped = replace(done.passed, Changes { payload: Some(payload.finish()), ..Changes::default() });
        self.failed(id, done.failed);
        self.run(next, id, mapped);
    }

    /// A condition: rows go one way or the other.
    pub(super) fn test(&mut self, id: NodeId, rows: RowSet) {
        let Op::Test { expr, yes, no } = &self.nodes[id.0].op else { return };
        let (expr, yes, no) = (expr.clone(), *yes, *no);
        let mut verdicts = Vec::with_capacity(rows.len());
        let done = self.evaluate(rows, |scope| expr.test(scope), |verdict| verdicts.push(verdict));
        let (left, right) = done.passed.partition(|position, _| verdicts[position]);
        self.failed(id, done.failed);
        self.run(yes, id, left);
        self.run(no, id, right);
    }

    /// A selector: rows go to the branch of their label.
    pub(super) fn select(&mut self, id: NodeId, rows: RowSet) {
        let Op::Select { expr, branches, default } = &self.nodes[id.0].op else { return };
        let expr = expr.clone();
        // By target, in order of first appearance: a handful of branches.
        let mut targets: Vec<Target> = Vec::new();
        let mut choice = Vec::with_capacity(rows.len());
        let (branches, default) = (branches.clone(), *default);
        let done = self.evaluate(
            rows,
            |scope| expr.label(scope),
            |label| {
                let target = branches.get(&label).copied().unwrap_or(default);
                let place = targets.iter().position(|known| *known == target).unwrap_or_else(|| {
                    targets.push(target);
                    targets.len() - 1
                });
                choice.push(place);
            },
        );
        self.failed(id, done.failed);
        let mut parts: Vec<RowSet> = targets.iter().map(|_| done.passed.empty_like()).collect();
        for (place, (row, token)) in
            choice.into_iter().zip(done.passed.ids.into_iter().zip(done.passed.tokens))
        {
            parts[place].push(row, token);
        }
        for (target, part) in targets.into_iter().zip(parts) {
            self.run(target, id, part);
        }
    }

    /// `key`: the value becomes the key.
    pub(super) fn rekey(&mut self, id: NodeId, rows: RowSet) {
        let Op::Key { expr, next } = &self.nodes[id.0].op else { return };
        let (expr, next) = (expr.clone(), *next);
        let mut key = BytesBuilder::with_capacity(rows.len(), 0).within(MADE_BYTES);
        let done = self.evaluate(
            rows,
            |scope| {
                let value = expr.key(scope)?;
                key.push(value.as_deref()).map_err(|full| EvalError::Task(no_room(full)))
            },
            |()| {},
        );
        self.shared.holdings.add(key.capacity());
        let RowSet { batch, ids, tokens, route } = done.passed;
        // An error row carries the key that the node was given.
        let keyed = RowSet::all(batch.select(&ids).rekeyed(key.finish()), tokens, route);
        self.failed(id, done.failed);
        self.run(next, id, keyed);
    }
}

/// The rows as a batch of their own, with these columns in place of theirs.
pub(super) fn replace(rows: RowSet, changes: Changes) -> RowSet {
    let RowSet { batch, ids, tokens, route } = rows;
    RowSet::all(batch.select(&ids).with(changes), tokens, route)
}
