//! What plugins do with each record, and for how long services that they use are away: fixed by the seed.
//!
//! A record's final verdict at a plugin depends on the plugin and the record alone, so that it is the same when the
//! record is tried again, after a crash too. How often it is tried before that is up to time.

use std::time::Duration;

use fastrand::Rng;
use loom_plugin::Cause;
use loom_types::ErrorKind;

/// What a step comes to with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It goes on as it is.
    Pass,
    /// It goes on changed.
    Mark,
    Fails(ErrorKind),
}

/// The manner of one step or predicate: chances out of 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    mark: f64,
    reject: f64,
    fail: f64,
    trap: f64,
    timeout: f64,
    /// Answers `retry` first.
    retry: f64,
    /// So often, at most.
    retries: u32,
    /// The service that it needs is away: it answers `retry`.
    pub away: Option<(Duration, Duration)>,
}

/// Lets everything pass as it is.
const GOOD: Manner =
    Manner { mark: 0.0, reject: 0.0, fail: 0.0, trap: 0.0, timeout: 0.0, retry: 0.0, retries: 0, away: None };

/// All plugins' manners.
#[derive(Clone, Debug)]
pub(super) struct Fates {
    seed: u64,
    /// A record that every plugin asks to be given again, until then.
    stuck: Option<(u64, Duration)>,
    steps: Vec<Manner>,
    predicates: Vec<Manner>,
}

/// How a call on a record ends at last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Plain,
    Marked,
    Failure(Cause),
}

impl Manner {
    fn draw(dice: &mut Rng, horizon: Duration) -> Manner {
        // Most plugins are good; some are bad in one way, a few in many.
        let mut some = |chance: f64, most: f64| if dice.f64() < chance { dice.f64() * most } else { 0.0 };
        let mut manner = Manner {
            mark: some(0.7, 1.0),
            reject: some(0.3, 0.3),
            fail: some(0.3, 0.3),
            trap: some(0.2, 0.3),
            timeout: some(0.1, 0.2),
            retry: some(0.35, 0.5),
            retries: 0,
            away: None,
        };
        manner.retries = dice.u32(1..5);
        if dice.f64() < 0.03 {
            // A broken release: its node's breaker opens.
            manner.trap = 0.99;
        }
        if dice.f64() < 0.2 {
            let from = horizon.mul_f64(dice.f64());
            manner.away = Some((from, from + Duration::from_millis(dice.u64(1..60_000))));
        }
        manner
    }

    fn verdict(&self, roll: f64) -> Verdict {
        let mut bound = 0.0;
        for (chance, cause) in [
            (self.reject, Cause::Reject),
            (self.fail, Cause::Fail),
            (self.trap, Cause::Trap),
            (self.timeout, Cause::Timeout),
        ] {
            bound += chance;
            if roll < bound {
                return Verdict::Failure(cause);
            }
        }
        if roll < bound + self.mark { Verdict::Marked } else { Verdict::Plain }
    }
}

impl Fates {
    pub(super) fn draw(dice: &mut Rng, steps: usize, predicates: usize, horizon: Duration) -> Fates {
        let seed = dice.u64(..);
        // In some simulations nothing holds rows back: there they may overtake one another nowhere.
        let prompt = dice.f64() < 0.4;
        let mut some = |count| {
            let manners = (0..count).map(|_| Manner::draw(dice, horizon));
            let prompted = manners
                .map(|manner| if prompt { Manner { retry: 0.0, away: None, ..manner } } else { manner });
            prompted.collect()
        };
        Fates { seed, stuck: None, steps: some(steps), predicates: some(predicates) }
    }

    /// One step that lets everything pass.
    pub(super) fn good() -> Fates {
        Fates { seed: 0, stuck: None, steps: vec![GOOD], predicates: Vec::new() }
    }

    /// One step that fails on everything.
    pub(super) fn failing() -> Fates {
        Fates { steps: vec![Manner { fail: 1.0, ..GOOD }], ..Fates::good() }
    }

    /// One step that lets everything pass, but this record, which is answered `retry` until then.
    pub(super) fn stuck(number: u64, until: Duration) -> Fates {
        Fates { stuck: Some((number, until)), ..Fates::good() }
    }

    pub(super) fn is_stuck(&self, number: u64, now: Duration) -> bool {
        self.stuck.is_some_and(|(stuck, until)| stuck == number && now < until)
    }

    fn roll(&self, salt: u64, plugin: usize, number: u64) -> f64 {
        let mut mixed = self.seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for part in [plugin as u64, number] {
            mixed = (mixed ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^= mixed >> 31;
        }
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// What a step comes to with a record, in the words of the naive walk.
    pub(super) fn step(&self, step: usize, number: u64) -> Answer {
        match self.step_verdict(step, number) {
            Verdict::Plain => Answer::Pass,
            Verdict::Marked => Answer::Mark,
            Verdict::Failure(cause) => Answer::Fails(kind(cause)),
        }
    }

    /// How many rows an expander makes of a row of a record, which it does not fail on.
    pub(super) fn rows(&self, step: usize, number: u64) -> usize {
        [0, 1, 1, 2, 2, 3][(self.roll(5, step, number) * 6.0) as usize]
    }

    /// What a predicate says of a record.
    pub(super) fn predicate(&self, plugin: usize, number: u64) -> Result<bool, ErrorKind> {
        match self.predicate_verdict(plugin, number) {
            Verdict::Plain => Ok(false),
            Verdict::Marked => Ok(true),
            Verdict::Failure(cause) => Err(kind(cause)),
        }
    }

    pub(super) fn step_verdict(&self, step: usize, number: u64) -> Verdict {
        self.steps[step].verdict(self.roll(1, step, number))
    }

    pub(super) fn predicate_verdict(&self, plugin: usize, number: u64) -> Verdict {
        self.predicates[plugin].verdict(self.roll(2, plugin, number))
    }

    /// How often a plugin answers `retry` to a record before its verdict.
    pub(super) fn retries(&self, predicate: bool, plugin: usize, number: u64) -> u32 {
        let manner = self.manner(predicate, plugin);
        let roll = self.roll(3 + u64::from(predicate), plugin, number);
        if roll < manner.retry { 1 + (roll / manner.retry * f64::from(manner.retries)) as u32 } else { 0 }
    }

    pub(super) fn manner(&self, predicate: bool, plugin: usize) -> &Manner {
        if predicate { &self.predicates[plugin] } else { &self.steps[plugin] }
    }

    /// Whether no plugin ever answers `retry` or holds its node, so that rows overtake one another nowhere.
    pub(super) fn are_prompt(&self) -> bool {
        let mut all = self.steps.iter().chain(&self.predicates);
        all.all(|manner| manner.retry == 0.0 && manner.away.is_none() && manner.trap < 0.5)
    }
}

fn kind(cause: Cause) -> ErrorKind {
    match cause {
        Cause::Reject => ErrorKind::Business,
        Cause::Retry | Cause::Fail | Cause::Trap | Cause::Timeout | Cause::Protocol | Cause::Stopped => {
            ErrorKind::Task
        }
    }
}
