//! The ledger of one partition: what was registered, what became of it, and two equations that hold at every step.
//!
//! records: registered = resolved + outstanding;
//! tokens: minted (registrations, splits, groups) = ended + consumed by splits and groups + live.

use loom_types::Ending;

/// Counts of one partition, or of several added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Records registered.
    pub registered: u64,
    /// Records whose full weight was redeemed.
    pub resolved: u64,
    /// Records registered and not resolved.
    pub outstanding: u64,
    /// Tokens minted by registrations, splits and groups.
    pub minted: u64,
    /// Tokens consumed by splits and groups.
    pub consumed: u64,
    /// Tokens that are somewhere in the flow.
    pub live: u64,
    /// Tombstones that were skipped and never registered.
    pub skipped: u64,
    /// Records that a client gave out a second time: ignored.
    pub repeated: u64,
    /// Rows ended, by [`Ending::index`].
    pub ended: [u64; Ending::COUNT],
}

impl Ledger {
    /// Rows that ended, however.
    #[must_use]
    pub fn ended_total(&self) -> u64 {
        self.ended.iter().sum()
    }

    /// Rows that ended so.
    #[must_use]
    pub fn ended(&self, ending: Ending) -> u64 {
        self.ended[ending.index()]
    }

    /// Whether both equations hold.
    #[must_use]
    pub fn balances(&self) -> bool {
        self.registered == self.resolved + self.outstanding
            && self.minted == self.ended_total() + self.consumed + self.live
    }

    /// Adds another partition's counts.
    pub fn add(&mut self, other: &Ledger) {
        self.registered += other.registered;
        self.resolved += other.resolved;
        self.outstanding += other.outstanding;
        self.minted += other.minted;
        self.consumed += other.consumed;
        self.live += other.live;
        self.skipped += other.skipped;
        self.repeated += other.repeated;
        for (mine, theirs) in self.ended.iter_mut().zip(&other.ended) {
            *mine += theirs;
        }
    }
}
