//! What each record must come to in a flow, and whether it has.
//!
//! The naive half of the simulation: a record walks the flow's tree alone, and where it arrives is written down as
//! [`Need`]s. It shares no code with the runtime, and knows nothing of batches, tokens, workers or time.

use loom_types::ErrorKind;

use super::fates::{Answer, Fates};
use super::flow::{Cond, End, Flow, Input, Node, Own, Payload, Process, What, mark, place_mark};
use super::model::Row;

/// Where a row ends that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Topic(usize),
    Sink(usize),
}

/// One row that has to be written.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub place: Place,
    pub label: String,
    pub terminal: usize,
    /// It was made by an error route, or behind a node that keeps no order: none is promised.
    pub error: bool,
    /// The first leaf that looks the same: what is written cannot be told apart.
    pub like: usize,
}

/// What has to be, before a record is resolved.
#[derive(Clone, Debug)]
pub(super) enum Need {
    /// The leaf is written; or, where its output refused it, this instead. None: the flow stops.
    Written { leaf: usize, refused: Option<Vec<Need>> },
    /// The leaf is completed; or, where its sink rejected it or could not take it, one of these.
    Sunk { leaf: usize, business: Option<Vec<Need>>, delivery: Option<Vec<Need>> },
    /// What comes of the step's verdict; or, where its retries were used up, this instead.
    Tried { step: usize, then: Vec<Need>, spent: Option<Vec<Need>> },
    /// The flow stops here, whatever is done.
    Stop,
}

/// All that a record must come to.
#[derive(Clone, Debug, Default)]
pub(super) struct Needs {
    pub leaves: Vec<Leaf>,
    pub all: Vec<Need>,
}

/// A row of the naive walk.
#[derive(Clone)]
struct Walked {
    payload: Payload,
    route: Option<ErrorKind>,
    ordered: bool,
}

struct Walk<'a> {
    flow: &'a Flow,
    fates: &'a Fates,
    input: &'a Input,
    leaves: Vec<Leaf>,
}

impl Flow {
    /// What a record comes to.
    pub(super) fn needs(&self, fates: &Fates, input: &Input) -> Needs {
        let mut walk = Walk { flow: self, fates, input, leaves: Vec::new() };
        let all = walk
            .process(&self.process, Walked { payload: input.payload.clone(), route: None, ordered: true });
        Needs { leaves: walk.leaves, all }
    }
}

impl Walk<'_> {
    fn process(&mut self, process: &Process, row: Walked) -> Vec<Need> {
        self.from(&process.nodes, &process.end, row)
    }

    fn from(&mut self, nodes: &[Node], end: &End, mut row: Walked) -> Vec<Need> {
        let Some((node, rest)) = nodes.split_first() else { return self.end(end, row) };
        let own = node.errors.as_ref();
        match &node.what {
            What::Step { step, waits, retries } => {
                let spent = retries.map(|_| self.failed(ErrorKind::Delivery, &row, own));
                let then = match self.fates.step(*step, self.input.number) {
                    Answer::Fails(kind) => self.fails(kind, &row, own),
                    answer => {
                        if answer == Answer::Mark {
                            row.payload.marked(mark(*step));
                        }
                        row.ordered &= waits.is_none_or(|waits| waits.ordered);
                        self.from(rest, end, row)
                    }
                };
                match spent {
                    None => then,
                    Some(spent) => vec![Need::Tried { step: *step, then, spent }],
                }
            }
            What::Expand { step, waits } => {
                if let Answer::Fails(kind) = self.fates.step(*step, self.input.number) {
                    return self.fails(kind, &row, own);
                }
                row.ordered &= waits.is_none_or(|waits| waits.ordered);
                let rows = self.fates.rows(*step, self.input.number);
                let made = (0..rows).flat_map(|place| {
                    let mut made = row.clone();
                    made.payload.marked(place_mark(place));
                    self.from(rest, end, made)
                });
                made.collect()
            }
            What::Map => {
                match &mut row.payload {
                    Payload::Json(v) => v.push('_'),
                    Payload::Broken => return self.fails(ErrorKind::Wire, &row, own),
                    Payload::Tombstone | Payload::Envelope(_) => {
                        return self.fails(ErrorKind::Task, &row, own);
                    }
                }
                self.from(rest, end, row)
            }
            What::Filter(cond) => match self.test(*cond) {
                Ok(true) => self.from(rest, end, row),
                Ok(false) => Vec::new(),
                Err(kind) => self.fails(kind, &row, own),
            },
            What::Router { branches, default } => {
                let mut taken = default.as_ref();
                for (cond, branch) in branches {
                    match self.test(*cond) {
                        Ok(true) => {
                            taken = Some(branch);
                            break;
                        }
                        Ok(false) => {}
                        Err(kind) => return self.fails(kind, &row, own),
                    }
                }
                let Some(branch) = taken else { return self.fails(ErrorKind::Routing, &row, own) };
                let on: Vec<Node> = branch.iter().chain(rest).cloned().collect();
                self.from(&on, end, row)
            }
        }
    }

    fn end(&mut self, end: &End, row: Walked) -> Vec<Need> {
        match end {
            End::Open | End::Drain => Vec::new(),
            End::Topic { output, terminal, dlq, errors, .. } => {
                let leaf = self.leaf(Place::Topic(*output), *terminal, &row);
                let mut refused = self.failed(ErrorKind::Delivery, &row, errors.as_ref());
                if let Some(dlq) = dlq {
                    let payload = Payload::Envelope(ErrorKind::Delivery);
                    let letter = Walked { payload, ordered: false, ..row };
                    let leaf = self.leaf(Place::Topic(*dlq), *terminal, &letter);
                    refused = Some(vec![Need::Written { leaf, refused }]);
                }
                vec![Need::Written { leaf, refused }]
            }
            End::Sink { sink, terminal, errors, .. } => {
                let leaf = self.leaf(Place::Sink(*sink), *terminal, &row);
                let business = self.failed(ErrorKind::Business, &row, errors.as_ref());
                let delivery = self.failed(ErrorKind::Delivery, &row, errors.as_ref());
                vec![Need::Sunk { leaf, business, delivery }]
            }
            End::When { branches, default } => {
                for (cond, branch) in branches {
                    match self.test(*cond) {
                        Ok(true) => return self.process(branch, row),
                        Ok(false) => {}
                        Err(kind) => return self.fails(kind, &row, None),
                    }
                }
                self.process(default, row)
            }
            End::By { modulo, branches, default } => {
                let branch = branches.get((self.input.offset % modulo) as usize).unwrap_or(default);
                self.process(branch, row)
            }
            End::Broadcast(branches) => {
                branches.iter().flat_map(|branch| self.process(branch, row.clone())).collect()
            }
        }
    }

    fn leaf(&mut self, place: Place, terminal: usize, row: &Walked) -> usize {
        let label = row.payload.label(self.input.number);
        let like = self.leaves.iter().position(|leaf| leaf.place == place && leaf.label == label);
        let (number, error) = (self.leaves.len(), row.route.is_some() || !row.ordered);
        let like = like.unwrap_or(number);
        self.leaves.push(Leaf { place, label, terminal, error, like });
        number
    }

    fn test(&self, cond: Cond) -> Result<bool, ErrorKind> {
        match cond {
            Cond::Offset { modulo, rest } => Ok(self.input.offset % modulo == rest),
            Cond::Plugin(plugin) => self.fates.predicate(plugin, self.input.number),
        }
    }

    /// What a failure of this kind comes to; none where it stops the flow.
    fn failed(&mut self, kind: ErrorKind, row: &Walked, own: Option<&Own>) -> Option<Vec<Need>> {
        let own = own.filter(|own| own.kind.is_none_or(|only| only == kind)).map(|own| &*own.route);
        let flow = self.flow;
        let around = flow.routes[kind.index()].as_ref().or(flow.default_route.as_ref());
        match own.or(around) {
            Some(route) if row.route.is_none() => Some(self.process(
                route,
                Walked { payload: Payload::Envelope(kind), route: Some(kind), ordered: false },
            )),
            _ if kind == ErrorKind::Delivery || flow.stops => None,
            _ => Some(Vec::new()),
        }
    }

    /// The same where the failure is certain.
    fn fails(&mut self, kind: ErrorKind, row: &Walked, own: Option<&Own>) -> Vec<Need> {
        self.failed(kind, row, own).unwrap_or_else(|| vec![Need::Stop])
    }
}

/// How far one run has come with a record that it took.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Leaves that were refused, with the kind of error that this makes.
    pub failed: Vec<(usize, ErrorKind)>,
    /// Steps whose retries were used up.
    pub spent: Vec<usize>,
    /// How often each leaf was written, and whether a sink was given it.
    pub done: Vec<u32>,
    pub wrote: Vec<bool>,
}

impl Progress {
    pub(super) fn new(needs: &Needs) -> Progress {
        let leaves = needs.leaves.len();
        Progress { failed: Vec::new(), spent: Vec::new(), done: vec![0; leaves], wrote: vec![false; leaves] }
    }
}

/// Whether the flow stops where this leaf fails; none where it is not among these.
fn stops(needs: &[Need], leaf: usize, kind: ErrorKind) -> Option<bool> {
    needs.iter().find_map(|need| {
        let others = match need {
            Need::Written { leaf: own, refused } if *own == leaf => return Some(refused.is_none()),
            Need::Sunk { leaf: own, business, delivery } if *own == leaf => {
                let taken = if kind == ErrorKind::Business { business } else { delivery };
                return Some(taken.is_none());
            }
            Need::Written { refused, .. } => [refused.as_deref(), None],
            Need::Sunk { business, delivery, .. } => [business.as_deref(), delivery.as_deref()],
            Need::Tried { then, spent, .. } => [Some(&then[..]), spent.as_deref()],
            Need::Stop => [None, None],
        };
        others.into_iter().flatten().find_map(|needs| stops(needs, leaf, kind))
    })
}

impl Needs {
    /// Whether all that the flow makes of the record is durable. Rows that look alike are counted together.
    pub(super) fn are_met(&self, progress: &Progress) -> bool {
        let mut written = vec![0; self.leaves.len()];
        for (leaf, done) in self.leaves.iter().zip(&progress.done) {
            written[leaf.like] += done;
        }
        let needs: Vec<&Need> = self.all.iter().collect();
        self.meets(&needs, &mut written, progress)
    }

    /// Whether these needs can all be met by what was `written`, each row counted once.
    fn meets(&self, needs: &[&Need], written: &mut [u32], progress: &Progress) -> bool {
        let Some((first, rest)) = needs.split_first() else { return true };
        let instead = |other: &[Need], written: &mut [u32]| {
            let needs: Vec<&Need> = other.iter().chain(rest.iter().copied()).collect();
            self.meets(&needs, written, progress)
        };
        let (leaf, alternatives) = match first {
            Need::Stop => return false,
            Need::Tried { step, then, spent } => {
                let spent = spent.as_ref().filter(|_| progress.spent.contains(step));
                return instead(then, written) || spent.is_some_and(|spent| instead(spent, written));
            }
            Need::Written { leaf, refused } => {
                (*leaf, [(ErrorKind::Delivery, refused), (ErrorKind::Business, &None)])
            }
            Need::Sunk { leaf, business, delivery } => {
                (*leaf, [(ErrorKind::Business, business), (ErrorKind::Delivery, delivery)])
            }
        };
        let like = self.leaves[leaf].like;
        if written[like] > 0 {
            written[like] -= 1;
            let met = self.meets(rest, written, progress);
            written[like] += 1;
            if met {
                return true;
            }
        }
        alternatives.into_iter().any(|(kind, other)| {
            let other = other.as_ref().filter(|_| progress.failed.contains(&(like, kind)));
            other.is_some_and(|other| instead(other, written))
        })
    }

    /// Whether the flow stops where this row fails with this kind of error.
    pub(super) fn stops(&self, row: &Row, place: Place, kind: ErrorKind) -> bool {
        let like = |leaf: &usize| self.leaves[*leaf].place == place && self.leaves[*leaf].label == row.label;
        (0..self.leaves.len()).filter(like).any(|leaf| stops(&self.all, leaf, kind).unwrap_or(false))
    }

    /// Whether the flow stops at this record, whatever happens.
    pub(super) fn surely_stop(&self) -> bool {
        fn all(needs: &[Need]) -> bool {
            needs.iter().any(|need| match need {
                Need::Stop => true,
                Need::Tried { then, .. } => all(then),
                Need::Written { .. } | Need::Sunk { .. } => false,
            })
        }
        all(&self.all)
    }

    /// Whether the flow stops at this record somewhere, though not in every way that it may take.
    pub(super) fn may_stop(&self) -> bool {
        fn any(needs: &[Need]) -> bool {
            needs.iter().any(|need| match need {
                Need::Stop => true,
                Need::Tried { then, spent, .. } => any(then) || spent.as_deref().is_some_and(any),
                Need::Written { refused, .. } => refused.as_deref().is_some_and(any),
                Need::Sunk { business, delivery, .. } => {
                    business.as_deref().is_some_and(any) || delivery.as_deref().is_some_and(any)
                }
            })
        }
        any(&self.all)
    }

    /// Whether the flow stops where this step's retries are used up.
    pub(super) fn stops_at_step(&self, step: usize) -> bool {
        fn find(needs: &[Need], step: usize) -> bool {
            needs.iter().any(|need| match need {
                Need::Tried { step: own, spent, .. } if *own == step => spent.is_none(),
                Need::Tried { then, .. } => find(then, step),
                Need::Written { .. } | Need::Sunk { .. } | Need::Stop => false,
            })
        }
        find(&self.all, step)
    }

    /// The leaves and how often each was written, for people.
    pub(super) fn told(&self, progress: Option<&Progress>) -> Vec<String> {
        let done = |leaf: usize| progress.map_or(0, |progress| progress.done[leaf]);
        let leaves = self.leaves.iter().enumerate();
        leaves.map(|(at, leaf)| format!("{:?} {} ×{}", leaf.place, leaf.label, done(at))).collect()
    }
}
