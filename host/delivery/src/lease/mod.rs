//! Who owns a group's partitions: decided from what is read in the owner group, one beat at a time.
//!
//! The entry lies in a group of its own and is written by beats only: read, then commit the holder's name with the beat's
//! number. There is no compare-and-set, so this detects two owners, it does not fence them:
//! - an owner that reads another's entry stops;
//! - a newcomer that finds another's entry commits nothing while it watches for two intervals: an entry that moves is a
//!   live owner's, and the newcomer stops; one that does not is taken. It writes nothing meanwhile, since its mark would
//!   stop the owner;
//! - who takes over writes at once and at each beat, and commits nothing for two intervals;
//! - of two newcomers that took the same entry the lower run id stays, unless the other never gets to read its entry; where
//!   it comes second it commits nothing until the other has had two intervals to read it.
//!
//! Of two that write, the one whose entry is read by the other stays, so that not both stop.

mod holder;
#[cfg(test)]
mod tests;

pub use holder::{Holder, Layout};

use crate::mark::RunId;

/// How many intervals a newcomer watches, and for how long a fresh owner counts as a newcomer.
const INTERVALS: u8 = 2;

/// How often in a row a newcomer that should stay reads another's entry before it goes: the other never reads its own,
/// since they beat in step.
const UNSEEN: u8 = 4;

/// The entry as it lies at the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The beat's number.
    pub beat: i64,
    /// Who wrote it; none when the text is not of this format.
    pub holder: Option<Holder>,
}

/// What to do after a reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write the own entry with this number.
    Write(i64),
    /// Write nothing; read again after an interval.
    Watch,
    /// Stop.
    Stop(Stop),
}

/// Why a host stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It is a newcomer, and this owner lives: a refusal.
    Live(Holder),
    /// It was the owner, and this one took over.
    Deposed(Holder),
}

#[derive(Clone, Debug)]
enum State {
    New,
    Watching {
        seen: Seen,
        left: u8,
    },
    /// The own entry was written, and read back less than [`INTERVALS`] times. `before`: the entry that was taken; it is
    /// read again where the own one was lost. `unseen`: how often in a row another's entry was read since.
    Claiming {
        before: Option<Seen>,
        left: u8,
        unseen: u8,
    },
    Holding,
    Over,
}

fn run_of(seen: Option<&Seen>) -> Option<RunId> {
    Some(seen?.holder.as_ref()?.run)
}

/// One host's part in it.
#[derive(Clone, Debug)]
pub struct Lease {
    me: Holder,
    state: State,
    beat: i64,
    /// No input offset may be committed.
    held: bool,
}

impl Lease {
    /// Of a host that has read nothing yet. `me.take_over` says whether it takes over.
    #[must_use]
    pub fn new(me: Holder) -> Self {
        Lease { me, state: State::New, beat: 0, held: false }
    }

    /// Decides after a reading. `gone`: whether the holder's process was one of this very machine and is no more.
    pub fn read(&mut self, seen: Option<Seen>, gone: impl FnOnce(&Holder) -> bool) -> Step {
        let beat = seen.as_ref().map_or(0, |seen| seen.beat);
        // What somebody else's tool wrote there, or nothing, is no owner.
        let other =
            seen.as_ref().and_then(|seen| seen.holder.as_ref()).filter(|other| other.run != self.me.run);
        let live = other.filter(|other| !other.released);
        match std::mem::replace(&mut self.state, State::Over) {
            State::Over => Step::Watch,
            State::New => match live {
                Some(_) if self.me.take_over => {
                    self.held = true;
                    self.claim(beat, seen)
                }
                Some(other) if !gone(other) => {
                    self.held = true;
                    self.state = State::Watching { seen: seen.expect("it has a holder"), left: INTERVALS };
                    Step::Watch
                }
                _ => self.claim(beat, seen),
            },
            State::Watching { seen: before, left } => {
                let watched = run_of(Some(&before));
                match live {
                    // It was released, or it is gone.
                    None => self.take(beat, seen),
                    Some(other) if seen.as_ref() == Some(&before) => {
                        // Nobody is left who could move it.
                        if left <= 1 || gone(other) {
                            return self.take(beat, seen);
                        }
                        self.state = State::Watching { seen: before, left: left - 1 };
                        Step::Watch
                    }
                    // Another newcomer took it first, and may commit until it reads this one's entry.
                    Some(other) if Some(other.run) != watched && self.stays_before(other) => {
                        self.claim(beat, seen)
                    }
                    Some(other) => Step::Stop(Stop::Live(other.clone())),
                }
            }
            State::Claiming { before, left, unseen } => match live {
                // The own entry.
                None if run_of(seen.as_ref()) == Some(self.me.run) => {
                    self.state = if left > 1 {
                        State::Claiming { before, left: left - 1, unseen: 0 }
                    } else {
                        self.held = false;
                        State::Holding
                    };
                    self.write(beat)
                }
                Some(other) if seen != before => {
                    // The owner's last beat may have crossed the first one of who takes over.
                    let over = run_of(before.as_ref()) == Some(other.run);
                    let goes = !(over && self.me.take_over) && (over || !self.stays_before(other));
                    if goes || unseen + 1 >= UNSEEN {
                        let stop =
                            if other.take_over && !self.me.take_over { Stop::Deposed } else { Stop::Live };
                        return Step::Stop(stop(other.clone()));
                    }
                    self.state = State::Claiming { before, left, unseen: unseen + 1 };
                    self.write(beat)
                }
                // What was there before, or nothing: the own entry was lost.
                _ => {
                    self.state = State::Claiming { before, left, unseen };
                    self.write(beat)
                }
            },
            State::Holding => match live {
                Some(other) => Step::Stop(Stop::Deposed(other.clone())),
                None => {
                    self.state = State::Holding;
                    self.write(beat)
                }
            },
        }
    }

    /// Whether, of two newcomers, this one stays.
    fn stays_before(&self, other: &Holder) -> bool {
        if self.me.take_over == other.take_over { self.me.run < other.run } else { self.me.take_over }
    }

    fn take(&mut self, beat: i64, before: Option<Seen>) -> Step {
        self.held = false;
        self.claim(beat, before)
    }

    fn claim(&mut self, beat: i64, before: Option<Seen>) -> Step {
        self.state = State::Claiming { before, left: INTERVALS, unseen: 0 };
        self.write(beat)
    }

    fn write(&mut self, seen: i64) -> Step {
        self.beat = self.beat.max(seen).saturating_add(1);
        Step::Write(self.beat)
    }

    /// Whether input offsets must not be committed now, but for a start that was chosen where the group has nothing.
    #[must_use]
    pub fn holds_commits(&self) -> bool {
        self.held
    }

    /// Whether this host's entry stands, as far as it knows.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        matches!(self.state, State::Claiming { .. } | State::Holding)
    }

    /// The holder that is being watched, if one is.
    #[must_use]
    pub fn watched(&self) -> Option<&Holder> {
        match &self.state {
            State::Watching { seen, .. } => seen.holder.as_ref(),
            _ => None,
        }
    }

    /// What the entry of this host says.
    #[must_use]
    pub fn entry(&self) -> &Holder {
        &self.me
    }

    /// A clean stop of the owner: its last entry, by which the next one need not watch. None for who owns nothing.
    pub fn release(&mut self) -> Option<(i64, Holder)> {
        if !self.is_owner() {
            return None;
        }
        self.state = State::Over;
        self.beat = self.beat.saturating_add(1);
        Some((self.beat, Holder { released: true, ..self.me.clone() }))
    }
}
