//! Rows of several sets, put back into the order of their source.

use std::cmp::Ordering;

use loom_delivery::Token;
use loom_types::{Batch, PartitionId, Place, RecordOffset, compare_rows};

use crate::rows::{Parts, RowSet};

/// Bytes of rows that are copied into one batch, at most; a single row may have more.
const BATCH_BYTES: usize = 16 << 20;

/// Compares rows of one partition: by record, and rows of one record by their names.
pub(super) fn compare(one: (&Batch, u32), other: (&Batch, u32)) -> Ordering {
    let offset = |(batch, id): (&Batch, u32)| batch.source(id).offset;
    offset(one).cmp(&offset(other)).then_with(|| compare_rows(one.0.name(one.1), other.0.name(other.1)))
}

/// A row of one of the sets.
struct Slot {
    partition: PartitionId,
    offset: RecordOffset,
    set: usize,
    at: usize,
}

/// The same rows in as few sets as may be, each partition's in the order of its source.
pub(super) fn merge(mut sets: Vec<RowSet>) -> Vec<RowSet> {
    let mut merged = Vec::new();
    while let Some(first) = sets.first() {
        let route = first.route;
        let (alike, others) = sets.into_iter().partition(|set| set.route == route);
        merge_alike(alike, &mut merged);
        sets = others;
    }
    merged
}

/// Merges sets of one route.
fn merge_alike(mut sets: Vec<RowSet>, merged: &mut Vec<RowSet>) {
    if sets.len() == 1 {
        merged.append(&mut sets);
        return;
    }
    let mut slots = Vec::with_capacity(sets.iter().map(RowSet::len).sum());
    for (set, rows) in sets.iter().enumerate() {
        for (at, (id, token)) in rows.ids.iter().zip(&rows.tokens).enumerate() {
            let offset = rows.batch.source(*id).offset;
            slots.push(Slot { partition: token.partition(), offset, set, at });
        }
    }
    let name = |slot: &Slot| sets[slot.set].batch.name(sets[slot.set].ids[slot.at]);
    // The sets are in order mostly, and runs are cheap to sort.
    slots.sort_by(|one, other| {
        let key = |slot: &Slot| (slot.partition, slot.offset);
        key(one).cmp(&key(other)).then_with(|| compare_rows(name(one), name(other)))
    });
    let mut parts = Parts::default();
    let part_of: Vec<u32> = sets.iter().map(|set| parts.number(&set.batch)).collect();
    let places = slots.iter().map(|slot| (part_of[slot.set], sets[slot.set].ids[slot.at]));
    let places: Vec<Place> = places.collect();
    let route = sets[0].route;
    let mut tokens: Vec<Vec<Option<Token>>> =
        sets.into_iter().map(|set| set.tokens.into_iter().map(Some).collect()).collect();
    let tokens = slots.iter().filter_map(|slot| tokens[slot.set][slot.at].take()).collect();
    if let Some(batch) = parts.only() {
        let ids = places.into_iter().map(|(_, id)| id).collect();
        merged.push(RowSet { batch: batch.clone(), ids, tokens, route });
        return;
    }
    gather(&parts, places, tokens, |batch, tokens| merged.push(RowSet::all(batch, tokens, route)));
}

/// Makes batches of rows of several, none of which is larger than a row has to be.
pub(in crate::nodes) fn gather(
    parts: &Parts,
    mut places: Vec<Place>,
    mut tokens: Vec<Token>,
    mut each: impl FnMut(Batch, Vec<Token>),
) {
    while !places.is_empty() {
        let mut bytes = 0;
        let fits = places.iter().take_while(|place| {
            bytes += parts.row_memory(**place);
            bytes <= BATCH_BYTES
        });
        let mut rows = fits.count().max(1);
        let batch = loop {
            match parts.gather(&places[..rows]) {
                Ok(batch) => break batch,
                Err(_) if rows == 1 => break parts.one(places[0]),
                Err(_) => rows /= 2,
            }
        };
        let (later, behind) = (places.split_off(rows), tokens.split_off(rows));
        each(batch, tokens);
        (places, tokens) = (later, behind);
    }
}
