//! Routers, and components that choose, on a real Kafka.

use anyhow::Result;
use loom_tests::guests::component;
use loom_tests::host::Host;
use loom_tests::kafka::{Record, shared};

use super::nodes::folder;

#[test]
fn a_router_and_a_partitioner_keep_order_and_the_keys_that_are_there() -> Result<()> {
    let Some(broker) = shared() else { return Ok(()) };
    let space = broker.space();
    let (input, output, group) = (space.topic("in", 2)?, space.topic("out", 1)?, space.group("g"));
    for partition in 0..2 {
        let record = |n: usize| {
            let label = ["label:a", "none", "label:b"][n % 3];
            let record = Record::new(format!("{{\"do\":\"{label}\",\"n\":{n}}}")).partition(partition);
            if n.is_multiple_of(2) { record.key(format!("own{partition}")) } else { record }
        };
        broker.write(&input, (0..600).map(record))?;
    }
    let (roles, step) = (component("probe-roles")?, component("probe-step")?);
    let text = format!(
        "plugins:
  choose: {{ component: {roles} }}
  spread: {{ component: {roles}, config: {{ command: 'key:made' }} }}
  s: {{ component: {step}, config: {{ command: nothing }} }}
process:
  - router:
      by: {{ plugin: choose }}
      branches: {{ a: [ {{ step: s, concurrency: 3 }} ], b: [ {{ map: payload }} ] }}
      default: pass
  - into_topic: {output}
    partitioner: spread
",
        roles = roles.display(),
        step = step.display()
    );
    let folder = folder(&space, &group, &input, &text)?;
    let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
    let rows = broker.reader(&output)?.take(1200)?;
    broker.await_committed(&group, &input, &[(0, 600), (1, 600)])?;
    let ended = host.stop()?;
    ended.expect_status(0)?;
    ended.stopped()?.balances()?;
    let mut seen = [Vec::new(), Vec::new()];
    for row in rows {
        let number =
            row.text().split_once("\"n\":").and_then(|(_, rest)| rest.strip_suffix('}')?.parse().ok());
        let number: usize = number.expect("a number");
        let key = row.key_text().expect("a key");
        if number.is_multiple_of(2) {
            let source = usize::from(key == "own1");
            assert_eq!(key, format!("own{source}"));
            seen[source].push(number);
        } else {
            assert_eq!(key, "made");
        }
    }
    for source in seen {
        assert_eq!(source, (0..600).step_by(2).collect::<Vec<_>>());
    }
    Ok(())
}
