//! Register and redeem with so many records outstanding. The figure is for one record: one registration and one
//! redemption, the oldest record's, so that the ring moves at every step. Budget: 50 ns, whatever is outstanding.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use loom_delivery::{Accounts, Token};
use loom_types::{CommitOffset, Ending, PartitionId, RecordOffset};

fn fill(accounts: &mut Accounts, partition: PartitionId, outstanding: i64) -> VecDeque<Token> {
    (0..outstanding).map(|offset| accounts.register(partition, RecordOffset(offset), 200)).collect()
}

fn in_order(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tracker/in_order");
    group.throughput(Throughput::Elements(1));
    for outstanding in [1, 1_000, 1_000_000] {
        let mut accounts = Accounts::tracked();
        let partition = accounts.add_partition(CommitOffset(0), None);
        let mut tokens = fill(&mut accounts, partition, outstanding);
        let mut next = outstanding;
        group.bench_function(outstanding.to_string(), |bencher| {
            bencher.iter(|| {
                tokens.push_back(accounts.register(partition, RecordOffset(next), 200));
                next += 1;
                let oldest = tokens.pop_front().expect("a token for each outstanding record");
                accounts.redeem(black_box(oldest), Ending::Topic);
            });
        });
        tokens.into_iter().for_each(Token::give_up);
    }
    group.finish();
}

/// The oldest record of a thousand stays open and the others end newest first; then it ends too, and all are forgotten
/// at once.
fn out_of_order(criterion: &mut Criterion) {
    const BATCH: i64 = 1_000;
    let mut group = criterion.benchmark_group("tracker/out_of_order");
    group.throughput(Throughput::Elements(BATCH as u64));
    let mut accounts = Accounts::tracked();
    let partition = accounts.add_partition(CommitOffset(0), None);
    let mut tokens = Vec::with_capacity(BATCH as usize);
    let mut next = 0;
    group.bench_function(BATCH.to_string(), |bencher| {
        bencher.iter(|| {
            for _ in 0..BATCH {
                tokens.push(accounts.register(partition, RecordOffset(next), 200));
                next += 1;
            }
            while let Some(token) = tokens.pop() {
                accounts.redeem(black_box(token), Ending::Topic);
            }
        });
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    in_order(&mut criterion);
    out_of_order(&mut criterion);
    criterion.final_summary();
}
