//! What is asked at assembly, where nobody answers, or not at once.

use std::time::{Duration, Instant};

use loom_kafka::librdkafka::KafkaBroker;
use loom_kafka::{Broker, Kind};
use rdkafka::types::RDKafkaRespErr;

use crate::support::{PATIENCE, broker, mock, output, settings};

#[test]
fn a_broker_that_is_not_there_is_named_with_the_cause() {
    let nobody = KafkaBroker::new(settings("127.0.0.1:1".into())).unwrap();
    let began = Instant::now();
    let error = nobody.topics(&["in"], Duration::from_secs(3)).unwrap_err();
    assert_eq!(error.kind, Kind::Transient, "{error}");
    assert!(error.message.contains("127.0.0.1:1"), "{error}");
    assert!(error.message.to_lowercase().contains("refused"), "{error}");
    assert!((2..6).contains(&began.elapsed().as_secs()), "it took {:?}", began.elapsed());
}

#[test]
fn a_wrong_key_is_a_configuration_error() {
    let mut settings = settings("127.0.0.1:1".into());
    settings.extra.insert("fetch.max.bytes".into(), loom_kafka::Sensitive("10".into()));
    let Err(error) = KafkaBroker::new(settings) else { panic!("it was accepted") };
    assert_eq!(error.kind, Kind::Configuration);
    assert!(error.message.contains("fetch.max.bytes"), "{error}");
}

#[test]
fn a_topic_s_own_error_stands_in_its_place() {
    let cluster = mock("in");
    cluster.create_topic("secret", 2, 1).unwrap();
    let denied = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.topic_error("secret", denied).unwrap();
    let broker = broker(&cluster);
    let facts = broker.topics(&["in", "secret"], PATIENCE).unwrap();
    assert_eq!(facts[0].as_ref().unwrap().partitions, 1);
    let error = facts[1].as_ref().unwrap_err();
    assert_eq!((error.kind, error.code), (Kind::Authorization, "TOPIC_AUTHORIZATION_FAILED"));
    assert!(error.message.contains("missing right: `Read` on `secret`"), "{error}");

    let outputs = [output(&cluster, "secret", &[]), output(&cluster, "in", &[])];
    let facts = broker.output_topics(&outputs, PATIENCE).unwrap();
    let error = facts[0].as_ref().unwrap_err();
    assert_eq!(error.kind, Kind::Authorization);
    assert!(error.message.contains("missing right: `Write` on `secret`"), "{error}");
    assert_eq!(facts[1].as_ref().unwrap().partitions, 1);
}

#[test]
fn an_error_of_a_topic_is_not_taken_for_a_missing_topic() {
    for code in [
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_LISTENER_NOT_FOUND,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN,
    ] {
        let cluster = mock("in");
        cluster.topic_error("in", code).unwrap();
        let broker = broker(&cluster);
        let error = broker.topics(&["in"], Duration::from_millis(300)).unwrap().remove(0).unwrap_err();
        assert_eq!(error.kind, Kind::Transient, "{error}");
        let outputs = [output(&cluster, "in", &[])];
        let error =
            broker.output_topics(&outputs, Duration::from_millis(300)).unwrap().remove(0).unwrap_err();
        assert_eq!(error.kind, Kind::Transient, "{error}");
        cluster.topic_error("in", RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).unwrap();
        assert!(broker.topics(&["in"], PATIENCE).unwrap()[0].is_ok(), "and it comes back");
    }
}

#[test]
fn a_topic_whose_leader_is_being_chosen_is_waited_for() {
    let cluster = mock("in");
    cluster.topic_error("in", RDKafkaRespErr::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE).unwrap();
    let broker = broker(&cluster);
    let facts = broker.topics(&["in"], Duration::from_millis(300)).unwrap();
    assert_eq!(facts[0].as_ref().unwrap_err().kind, Kind::Transient, "and not for ever");
    std::thread::scope(|scope| {
        let facts = scope.spawn(|| broker.topics(&["in"], PATIENCE).unwrap());
        cluster.topic_error("in", RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).unwrap();
        assert_eq!(facts.join().unwrap()[0].as_ref().unwrap().partitions, 1);
    });
}
