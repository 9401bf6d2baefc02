//! The protocol against a scripted sink: whatever it answers, every row ends once, and completed rows are never written
//! again.

mod bench;
mod cases;
mod random;
