//! The thinnest path through every layer.

use crate::harness::{broker, endings, flow, produce, start};

#[test]
fn records_pass_through_a_step_a_filter_and_a_fork_into_topics_and_offsets_follow() {
    let broker = broker(&["vip", "rest"]);
    produce(&broker, &["a", "b", "vip c"]);
    let running = start(
        &flow(
            "",
            "plugins:
  upper: { component: '{guests}/probe-column-step.wasm', config: { command: upper } }
  vip: { component: '{guests}/probe-predicate.wasm', config: { contains: VIP } }
process:
  - step: upper
  - filter: msg.offset != 1
  - fork:
      when:
        - if: { plugin: vip }
          process: [ { into_topic: vip } ]
      default: [ { into_topic: rest } ]
",
        ),
        &broker,
    );
    running.until_committed(3);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    broker.view(|view| {
        assert_eq!(view.payloads("vip"), [Some("VIP C".to_owned())]);
        assert_eq!(view.payloads("rest"), [Some("A".to_owned())]);
    });
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("filtered", 1), ("topic", 2)]);
}
