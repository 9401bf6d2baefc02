//! The accounting of a batch that became rows: each row that was made stands for some of the batch's records, and each
//! record waits for all rows that stand for it.

use loom_delivery::{Accounts, Made, Token};
use loom_plugin::Origins;
use loom_types::Batch;

/// The tokens of so many rows that were made of these records, in the order of the rows.
///
/// `tokens`: those of the records that are through, by their position in the call; one that no row stands for is redeemed at
/// once. A row of one record has a share of it. Rows of several records that name the same ones share one group, whose
/// parents are shares of theirs: so this costs what the sets and the rows are together, never their product.
pub(crate) fn derive(
    accounts: &mut Accounts,
    tokens: impl IntoIterator<Item = (u32, Token)>,
    origins: &Origins,
    rows: u32,
) -> Vec<Token> {
    let mut rows_of: Vec<usize> = vec![0; origins.sets()];
    (0..rows).for_each(|row| rows_of[origins.set_of(row)] += 1);
    let mut sets_of: Vec<Vec<usize>> = Vec::new();
    for set in 0..origins.sets() {
        for position in origins.set(set) {
            let position = *position as usize;
            if position >= sets_of.len() {
                sets_of.resize_with(position + 1, Vec::new);
            }
            sets_of[position].push(set);
        }
    }
    let is_one = |set: usize| origins.set(set).len() == 1;
    // Of one record, a share for each of its rows; of several, one for their group.
    let shares_for = |set: usize| if is_one(set) { rows_of[set] } else { 1 };
    let mut shares: Vec<Vec<Token>> = rows_of.iter().map(|_| Vec::new()).collect();
    for (position, token) in tokens {
        let sets = sets_of.get(position as usize).map_or(&[][..], Vec::as_slice);
        let count = sets.iter().map(|set| shares_for(*set)).sum();
        let mut takers = sets.iter().flat_map(|set| std::iter::repeat_n(*set, shares_for(*set)));
        accounts.split(token, count, |_, share| {
            let set = takers.next().expect("there are as many shares as there are takers");
            shares[set].push(share);
        });
    }
    for set in 0..origins.sets() {
        if !is_one(set)
            && let Some(group) = accounts.group(std::mem::take(&mut shares[set]))
        {
            accounts.split(group, rows_of[set], |_, share| shares[set].push(share));
        }
    }
    let mut shares: Vec<_> = shares.into_iter().map(Vec::into_iter).collect();
    let of_row = |row| shares[origins.set_of(row)].next();
    (0..rows).map(of_row).map(|token| token.expect("a record that a row stands for has a token")).collect()
}

/// Counts what was made of so many records against the bounds of their partitions: the rows beyond as many as the records were,
/// which count already themselves.
pub(super) fn count(accounts: &mut Accounts, records: usize, made: &Batch, tokens: &[Token]) {
    for (row, token) in tokens.iter().enumerate().skip(records) {
        accounts.count_made(token, Made { rows: 1, bytes: made.row_bytes(row as u32) as u64 });
    }
}
