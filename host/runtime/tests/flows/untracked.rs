//! A sink that does not confirm what it writes: refused under at least once wherever it stands, run under at most once.

use loom_kafka::memory::Call;
use loom_runtime::Status;

use crate::harness::{broker, endings, flow, produce, refused, start};
use crate::logs;

const SINK: &str = "plugins:
  quiet: { component: '{guests}/untracked-sink.wasm' }
  x: { component: '{guests}/probe-roles.wasm' }
";

#[test]
fn a_sink_without_a_commit_tracker_is_refused_in_every_place_in_one_report() {
    let everywhere = format!(
        "{SINK}process:
  - map: payload
    errors: {{ task: [ {{ into_sink: quiet }} ] }}
  - fork:
      when:
        - if: payload == 1
          process: [ {{ into_sink: quiet }} ]
        - if: payload == 2
          process: [ {{ broadcast: [ [ {{ into_topic: out }} ], [ {{ into_sink: quiet }} ] ] }} ]
        - if: payload == 3
          process: [ {{ expand_routes: {{ plugin: x, routes: {{ a: [ {{ into_sink: quiet }} ] }}, default: [ {{ into_sink: quiet }} ] }} }} ]
      default:
        - fork: {{ by: payload, branches: {{ a: [ {{ into_sink: quiet }} ] }}, default: [ {{ into_sink: quiet }} ] }}
errors: {{ wire: [ {{ into_sink: quiet }} ] }}
"
    );
    let alone = format!("{SINK}process: [ {{ into_sink: quiet }} ]\n");
    for (rest, places) in [(everywhere, 8), (alone, 1)] {
        let broker = broker(&["out"]);
        produce(&broker, &["1"]);
        let errors = refused(&flow("", &rest), &broker);
        assert_eq!(errors.len(), places, "{errors:?}");
        for error in &errors {
            assert_eq!((error.status, error.code), (Status::Runtime, Some("SINK_UNTRACKED")));
            for named in ["quiet", "untracked-sink.wasm", "bind-commit-tracker"] {
                assert!(error.message.contains(named), "{}", error.message);
            }
        }
        let mut messages: Vec<&str> = errors.iter().map(|error| &*error.message).collect();
        messages.dedup();
        assert_eq!(messages.len(), places, "each names its own place");
        broker.view(|view| {
            assert_eq!((view.calls(Call::Take), view.commits("g").len()), (0, 0));
        });
    }
}

#[test]
fn under_at_most_once_it_runs_and_a_written_row_is_done() {
    logs::keep();
    let broker = broker(&[]);
    produce(&broker, &["first untracked", "second untracked"]);
    let running = start(
        &flow(
            "delivery: at_most_once",
            &format!("{SINK}process: [ {{ into_sink: quiet, flush: {{ records: 2, interval: 1h }} }} ]\n"),
        ),
        &broker,
    );
    running.until_committed(2);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("sink", 2)]);
    assert_eq!(outcome.summary.counters.flushes, 1, "at the bound, not again at the stop");
    let written = logs::lines(|line| line.to_string().contains("first untracked"));
    assert_eq!(written.len(), 1);
}
