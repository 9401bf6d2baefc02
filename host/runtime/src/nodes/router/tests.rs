use std::sync::Arc;

use loom_delivery::Accounts;
use loom_types::{Batch, BatchBuilder, CommitOffset, Ending, Moment, PartitionId, RecordOffset, RecordRef};

use super::{Firsts, JoinNode, merge};
use crate::nodes::Target;
use crate::rows::RowSet;

/// Rows of one partition, each an offset and a name such as `2.0`.
fn batch(rows: &[(i64, &str)]) -> Batch {
    let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
    for (offset, row) in rows {
        let text = format!("{offset}/{row}");
        builder
            .push(RecordRef {
                topic: 0,
                partition: 0,
                offset: RecordOffset(*offset),
                timestamp_ms: None,
                key: None,
                payload: Some(text.as_bytes()),
                row,
            })
            .unwrap();
    }
    builder.finish()
}

struct World {
    accounts: Accounts,
    join: JoinNode,
}

impl World {
    fn new() -> World {
        let mut accounts = Accounts::untracked();
        accounts.add_partition(CommitOffset(0), None);
        World { accounts, join: JoinNode::new(Target::End(Ending::Drained)) }
    }

    fn comes(&mut self, rows: &[(i64, &str)]) {
        let token =
            |(offset, _): &(i64, &str)| self.accounts.register(PartitionId(0), RecordOffset(*offset), 1);
        let tokens = rows.iter().map(token).collect();
        self.join.came.push(RowSet::all(batch(rows), tokens, None));
    }

    /// What leaves while these rows are inside: each set, and its rows' payloads.
    fn leaves(&mut self, inside: &[(i64, &str)]) -> Vec<Vec<String>> {
        let rows = Arc::new(batch(inside));
        let inside: Firsts = inside.iter().map(|_| (PartitionId(0), (rows.clone(), 0))).collect();
        let sets = merge::merge(self.join.let_out(&inside, Moment::START));
        let texts = sets.into_iter().map(|set| {
            set.into_rows(0)
                .map(|row| {
                    let text = String::from_utf8(row.batch.payload(row.id).unwrap().to_vec()).unwrap();
                    self.accounts.redeem(row.token, Ending::Drained);
                    text
                })
                .collect()
        });
        texts.collect()
    }
}

#[test]
fn what_branches_bring_in_one_walk_leaves_together_in_order() {
    let mut world = World::new();
    world.comes(&[(1, "0"), (1, "2"), (4, "")]);
    world.comes(&[(1, "1"), (1, "10"), (3, "")]);
    world.comes(&[(2, "")]);
    assert_eq!(world.leaves(&[]), [["1/0", "1/1", "1/2", "1/10", "2/", "3/", "4/"]]);
    assert!(world.join.is_empty());
}

#[test]
fn nothing_passes_a_row_that_is_inside_by_record_and_by_name() {
    let mut world = World::new();
    world.comes(&[(1, "1"), (3, "")]);
    world.comes(&[(0, "")]);
    assert_eq!(world.leaves(&[(1, "0")]), [["0/"]]);
    assert_eq!(world.join.waiting(), 2);
    // What comes later and belongs before what waits already is put there.
    world.comes(&[(2, ""), (1, "0")]);
    assert_eq!(world.leaves(&[(2, "5")]), [["1/0", "1/1", "2/"]]);
    assert_eq!(world.leaves(&[(2, "5")]), [[""; 0]; 0]);
    assert_eq!(world.leaves(&[]), [["3/"]]);
}

#[test]
fn at_a_stop_only_what_is_behind_what_is_given_up_is_given_up_too() {
    let mut world = World::new();
    world.comes(&[(1, ""), (3, ""), (5, "")]);
    assert_eq!(world.leaves(&[(0, "")]), [[""; 0]; 0]);
    let lost = Firsts::from([(PartitionId(0), (Arc::new(batch(&[(4, "")])), 0))]);
    world.join.give_up_behind(&lost);
    assert_eq!(world.leaves(&[]), [["1/", "3/"]]);
    assert!(world.join.is_empty());
}
