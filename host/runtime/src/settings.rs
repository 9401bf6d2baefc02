//! From a plan to the settings of Kafka clients.

use std::collections::BTreeMap;
use std::sync::Arc;

use loom_flow::plan::{OutputPlan, Plan, Secret, Security, Tombstones};
use loom_kafka::{
    ConsumerSettings, CredentialSettings, OutputInfo, OutputSettings, ProducerSettings, Sensitive,
};

/// What the plan's consumer is built from. The number of partitions is not known yet; it is set when it is.
#[must_use]
pub fn consumer_settings(plan: &Plan) -> ConsumerSettings {
    let consumer = &plan.consumer;
    ConsumerSettings {
        brokers: consumer.brokers.clone(),
        group_id: consumer.group_id.clone(),
        credentials: credentials(&consumer.security),
        forward_tombstones: consumer.tombstones == Tombstones::Forward,
        prefetch: plan.runtime.prefetch,
        poll_backoff: consumer.poll_backoff,
        extra: sensitive(&consumer.extra),
    }
}

/// The plan's outputs, by their number; outputs of one producer share its settings. `infos`: what is known of their
/// topics, by the same number; nothing is known before the first question.
pub(crate) fn output_settings(outputs: &[OutputPlan], infos: &[OutputInfo]) -> Vec<OutputSettings> {
    let mut largest: BTreeMap<&str, usize> = BTreeMap::new();
    for (output, info) in outputs.iter().zip(infos) {
        let smallest = largest.entry(&output.producer).or_insert(info.max_message_bytes);
        *smallest = (*smallest).min(info.max_message_bytes);
    }
    let mut producers: BTreeMap<&str, Arc<ProducerSettings>> = BTreeMap::new();
    outputs
        .iter()
        .map(|output| {
            let producer = producers.entry(&output.producer).or_insert_with(|| {
                Arc::new(ProducerSettings {
                    brokers: output.brokers.clone(),
                    credentials: credentials(&output.security),
                    compression: output.compression.clone(),
                    idempotence: output.idempotence,
                    largest_batch: largest.get(&*output.producer).copied(),
                    extra: sensitive(&output.extra),
                })
            });
            OutputSettings { topic: output.topic.clone(), producer: producer.clone() }
        })
        .collect()
}

fn credentials(security: &Security) -> CredentialSettings {
    CredentialSettings {
        protocol: security.protocol.clone(),
        sasl_mechanism: security.sasl_mechanism.clone(),
        sasl_username: security.sasl_username.clone(),
        sasl_password: security.sasl_password.as_ref().map(|secret| Sensitive(secret.0.clone())),
    }
}

fn sensitive(extra: &BTreeMap<String, Secret>) -> BTreeMap<String, Sensitive> {
    extra.iter().map(|(key, value)| (key.clone(), Sensitive(value.0.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(name: &str, producer: &str, broker: &str, user: &str) -> OutputPlan {
        OutputPlan {
            name: name.to_owned(),
            topic: name.into(),
            producer: producer.to_owned(),
            brokers: vec![broker.to_owned()],
            security: Security { sasl_username: Some(user.to_owned()), ..Security::default() },
            compression: None,
            idempotence: true,
            extra: BTreeMap::new(),
        }
    }

    #[test]
    fn outputs_have_the_brokers_and_credentials_of_their_producer_and_share_its_settings() {
        let plans = [
            output("audit", "producers.audit", "audit:9092", "auditor"),
            output("one", "producer", "default:9092", "writer"),
            output("other", "producer", "default:9092", "writer"),
        ];
        let settings = output_settings(&plans, &[]);
        for (plan, settings) in plans.iter().zip(&settings) {
            assert_eq!((&settings.topic, &settings.producer.brokers), (&plan.topic, &plan.brokers));
            assert_eq!(settings.producer.credentials.sasl_username, plan.security.sasl_username);
            assert_eq!(settings.producer.credentials.protocol, None);
        }
        assert!(Arc::ptr_eq(&settings[1].producer, &settings[2].producer), "one client for both");
    }
}
