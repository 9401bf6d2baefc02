//! What each code means for the flow, by explicit lists. librdkafka has a flag "retriable" on its errors; it answers
//! whether *it* would try again, so it is not asked.
//!
//! A code that stands in no list is [`Kind::Other`]: not tried again.

use rdkafka::types::RDKafkaErrorCode as E;

use super::raw::Code;
use crate::error::{KafkaError, Kind};

/// What a code means, whatever was asked.
pub(super) fn kind(code: Code) -> Kind {
    let Some(known) = code.known() else { return Kind::Other };
    match known {
        E::NotCoordinator
        | E::CoordinatorLoadInProgress
        | E::CoordinatorNotAvailable
        | E::WaitingForCoordinator
        | E::UnstableOffsetCommit => Kind::Coordinator,

        E::BrokerTransportFailure
        | E::AllBrokersDown
        | E::Resolve
        | E::OperationTimedOut
        | E::TimedOutQueue
        | E::MessageTimedOut
        | E::RequestTimedOut
        | E::NetworkException
        | E::BrokerNotAvailable
        | E::LeaderNotAvailable
        | E::NotLeaderForPartition
        | E::ReplicaNotAvailable
        | E::PreferredLeaderNotAvailable
        | E::FencedLeaderEpoch
        | E::UnknownLeaderEpoch
        | E::OffsetNotAvailable
        | E::NotController
        | E::NotEnoughReplicas
        | E::NotEnoughReplicasAfterAppend
        | E::KafkaStorageError
        | E::ThrottlingQuotaExceeded
        | E::Retry
        | E::InProgress
        | E::PreviousInProgress
        | E::QueueFull
        | E::WaitCache
        | E::DestroyBroker
        | E::NodeUpdate
        | E::UnknownBroker => Kind::Transient,

        E::UnknownTopic | E::UnknownPartition | E::UnknownTopicOrPartition | E::UnknownTopicId => {
            Kind::UnknownTopic
        }

        E::TopicAuthorizationFailed
        | E::GroupAuthorizationFailed
        | E::ClusterAuthorizationFailed
        | E::TransactionalIdAuthorizationFailed => Kind::Authorization,

        E::Authentication
        | E::SaslAuthenticationFailed
        | E::SSL
        | E::UnsupportedSASLMechanism
        | E::IllegalSASLState => Kind::Authentication,

        E::MessageSizeTooLarge
        | E::MessageBatchTooLarge
        | E::InvalidMessageSize
        | E::InvalidRecord
        | E::InvalidTimestamp
        | E::InvalidTopic
        | E::PolicyViolation
        | E::UnsupportedForMessageFormat => Kind::Refused,

        E::InvalidMessage => Kind::Corrupt,

        E::UnknownMemberId
        | E::IllegalGeneration
        | E::RebalanceInProgress
        | E::FencedMemberEpoch
        | E::StaleMemberEpoch
        | E::NonEmptyGroup => Kind::GroupInUse,

        E::Fatal
        | E::GaplessGuarantee
        | E::OutOfOrderSequenceNumber
        | E::UnknownProducerId
        | E::InvalidProducerEpoch
        | E::ProducerFenced
        | E::Fenced
        | E::FencedInstanceId
        | E::BrokerDestroy => Kind::Fatal,

        E::InvalidArgument
        | E::UnknownProtocol
        | E::UnknownGroup
        | E::NotConfigured
        | E::UnsupportedFeature
        | E::InvalidConfig
        | E::InvalidGroupId
        | E::InvalidCommitOffsetSize
        | E::OffsetMetadataTooLarge => Kind::Configuration,

        _ => Kind::Other,
    }
}

/// What a topic's own error in metadata means. A topic is missing only where that is said; what is neither that nor a
/// verdict on its name or on a right may pass, as an election does, whatever the code.
pub(super) fn metadata_kind(code: Code) -> Kind {
    match kind(code) {
        said @ (Kind::UnknownTopic | Kind::Authorization | Kind::Authentication | Kind::Refused) => said,
        _ => Kind::Transient,
    }
}

/// What a code means in an answer of the group's coordinator: there, "away" and "not in time" are waited out as a
/// coordinator that moves is.
pub(super) fn group_kind(code: Code) -> Kind {
    match kind(code) {
        Kind::Transient => Kind::Coordinator,
        other => other,
    }
}

/// What became of a record that was produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Written.
    Written,
    /// Refused for good.
    Refused(Kind),
    /// Nobody knows: given back by a purge, or left behind by a client that cannot go on.
    Unknown,
}

/// The verdict of a delivery report.
pub(super) fn verdict(code: Code) -> Verdict {
    if !code.is_error() {
        return Verdict::Written;
    }
    if matches!(code.known(), Some(E::PurgeQueue | E::PurgeInflight)) {
        return Verdict::Unknown;
    }
    match kind(code) {
        // Producers try these again for ever; one that is reported all the same is no refusal.
        Kind::Transient | Kind::Coordinator | Kind::Fatal => Verdict::Unknown,
        other => Verdict::Refused(other),
    }
}

/// An error with what was being done, and what is wrong.
pub(super) fn error(kind: Kind, code: Code, doing: impl std::fmt::Display) -> KafkaError {
    KafkaError { kind, code: code.name(), message: format!("{doing}: {}", code.text()) }
}

/// An error of a configuration that librdkafka refused, in its own words.
pub(super) fn configuration(message: String) -> KafkaError {
    KafkaError { kind: Kind::Configuration, code: "_INVALID_ARG", message }
}

#[cfg(test)]
mod tests {
    use super::{Verdict, error, group_kind, kind, metadata_kind, verdict};
    use crate::error::Kind;
    use crate::librdkafka::raw::Code;

    /// Codes by their numbers in Kafka's protocol, or in librdkafka's header.
    const NOT_COORDINATOR: Code = Code(16);
    const LOADING: Code = Code(14);
    const NOT_AVAILABLE: Code = Code(15);
    const TIMED_OUT: Code = Code(-185);
    const TRANSPORT: Code = Code(-195);

    #[test]
    fn a_coordinator_that_moves_loads_or_is_late_is_waited_for() {
        for code in [NOT_COORDINATOR, LOADING, NOT_AVAILABLE] {
            assert_eq!(kind(code), Kind::Coordinator, "{}", code.name());
        }
        for code in [TIMED_OUT, TRANSPORT, Code(7)] {
            assert_eq!(group_kind(code), Kind::Coordinator, "{}", code.name());
            assert_eq!(kind(code), Kind::Transient, "{}", code.name());
        }
    }

    #[test]
    fn a_topic_is_missing_only_where_metadata_say_so() {
        for number in [3, 100, -188] {
            assert_eq!(metadata_kind(Code(number)), Kind::UnknownTopic, "{}", Code(number).name());
        }
        assert_eq!(metadata_kind(Code(29)), Kind::Authorization);
        assert_eq!(metadata_kind(Code(17)), Kind::Refused, "no topic can have the name");
        // A leader that is chosen, uncleanly or not, a listener that is not there, a disk, what nobody knows.
        for number in [5, 72, 83, 84, 56, -1, 31_999] {
            assert_eq!(metadata_kind(Code(number)), Kind::Transient, "{}", Code(number).name());
        }
    }

    #[test]
    fn a_missing_right_is_not_waited_for() {
        for number in [29, 30, 31] {
            assert_eq!(group_kind(Code(number)), Kind::Authorization);
        }
    }

    #[test]
    fn a_group_with_members_and_a_batch_called_corrupt_have_kinds_of_their_own() {
        for number in [22, 25, 27, 68] {
            assert_eq!(group_kind(Code(number)), Kind::GroupInUse, "{}", Code(number).name());
        }
        assert_eq!(verdict(Code(2)), Verdict::Refused(Kind::Corrupt));
    }

    #[test]
    fn what_speaks_of_size_is_known_by_its_code() {
        for (number, large) in [(10, true), (18, true), (87, false), (32, false), (29, false)] {
            let refused = error(kind(Code(number)), Code(number), "writing");
            assert_eq!(refused.is_too_large(), large, "{}", refused.code);
        }
        for number in [10, 18, 87, 32] {
            assert_eq!(verdict(Code(number)), Verdict::Refused(Kind::Refused), "{}", Code(number).name());
        }
        assert_eq!(verdict(Code(3)), Verdict::Refused(Kind::UnknownTopic));
        for number in [-144, 45, 47, 59, 90] {
            assert_eq!(verdict(Code(number)), Verdict::Unknown, "{}", Code(number).name());
        }
    }

    #[test]
    fn only_a_listed_refusal_is_a_refusal() {
        assert_eq!(verdict(Code::NONE), Verdict::Written);
        assert_eq!(verdict(Code(10)), Verdict::Refused(Kind::Refused), "too large");
        assert_eq!(verdict(Code(29)), Verdict::Refused(Kind::Authorization));
        assert_eq!(verdict(Code(-152)), Verdict::Unknown, "purged in the queue");
        assert_eq!(verdict(Code(-151)), Verdict::Unknown, "purged in flight");
        assert_eq!(verdict(Code(-150)), Verdict::Unknown, "fatal");
        assert_eq!(verdict(TIMED_OUT), Verdict::Unknown);
        assert_eq!(verdict(Code(31_999)), Verdict::Refused(Kind::Other), "a code from the future");
    }
}
