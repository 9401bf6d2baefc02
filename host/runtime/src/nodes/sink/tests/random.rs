//! Any answers in any order: every row ends once, and none is lost.

use std::collections::BTreeSet;
use std::time::Duration;

use loom_flow::plan::FlushBounds;
use loom_plugin::Cause;
use proptest::prelude::*;

use super::bench::{BOUNDS, Bench, Call, Says, good};

/// What one call does, drawn at random; behind the last, the sink works.
#[derive(Clone, Debug)]
struct Draw {
    fails: Option<Cause>,
    /// Of the rows held, those at these residues are completed.
    completes: u8,
    verdict: Option<Cause>,
    babbles: bool,
    lets_go: bool,
    refuses: u32,
}

fn draws() -> impl Strategy<Value = Vec<Draw>> {
    let cause = || {
        prop_oneof![
            Just(Cause::Reject),
            Just(Cause::Retry),
            Just(Cause::Fail),
            Just(Cause::Trap),
            Just(Cause::Timeout),
        ]
    };
    let draw = (
        prop::option::weighted(0.4, cause()),
        0..16_u8,
        prop::option::weighted(0.1, prop_oneof![Just(Cause::Reject), Just(Cause::Retry), Just(Cause::Fail)]),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.05),
        prop_oneof![9 => Just(0_u32), 1 => 1..3_u32],
    );
    let draw = draw.prop_map(|(fails, completes, verdict, babbles, lets_go, refuses)| Draw {
        fails,
        completes,
        verdict,
        babbles,
        lets_go,
        refuses,
    });
    prop::collection::vec(draw, 0..40)
}

proptest! {
    #[test]
    fn whatever_a_sink_answers_every_row_ends_once(
        draws in draws(),
        arrivals in prop::collection::vec((prop::collection::vec(0..3_i32, 1..8), 0..3000_u64), 1..12),
        records in 1..20_usize,
    ) {
        let mut left = draws.clone().into_iter();
        let refuses: u32 = draws.iter().map(|draw| draw.refuses).sum();
        let mut bench = Bench::new(FlushBounds { records, ..BOUNDS }, move |call, own, held| {
            let Some(draw) = left.next() else { return good(call, own, held) };
            let picked = held.iter().enumerate().filter(|(at, _)| draw.completes >> (at % 4) & 1 == 1);
            let verdict = draw.verdict.and_then(|cause| Some((*held.first()?, cause)));
            Says {
                fails: draw.fails,
                completes: picked.map(|(_, place)| *place).collect(),
                verdicts: verdict.into_iter().collect(),
                babbles: draw.babbles,
                lets_go: draw.lets_go,
            }
        });
        bench.world.lock().unwrap().refuses = refuses;
        for (partitions, wait) in arrivals {
            bench.arrive(&partitions);
            bench.now = bench.now + Duration::from_millis(wait);
            bench.progress();
        }
        bench.drain();
        bench.all_ended();
        // First writes keep each partition's order, whatever is written again.
        for partition in 0..3 {
            let mut seen = BTreeSet::new();
            let calls = bench.calls();
            let written = calls.iter().filter(|(call, _)| *call == Call::Write).flat_map(|(_, own)| own);
            let firsts: Vec<i64> = written
                .filter(|place| place.0 == partition && seen.insert(**place))
                .map(|place| place.1)
                .collect();
            prop_assert!(firsts.is_sorted(), "{firsts:?}");
        }
    }
}
