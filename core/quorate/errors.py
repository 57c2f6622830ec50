"""Every error Quorate raises on purpose, in one tree.

A class says all that a caller may decide on; nobody should ever look at a message text:

- ``code``              stable name, carried over the wire and printed by the command line
- ``retriable``         the same request may succeed later without being changed
- ``refresh_metadata``  the caller's picture of the cluster is old: refresh it before retrying
- ``outcome_unknown``   the request may have taken effect; a retry has to be idempotent
- ``grpc_status``       the gRPC status that carries the error (translated in quorate.rpc)

::

    QuorateError
    ├── InvalidRequest              the caller's mistake; unchanged, it will never succeed
    │   ├── InvalidConfig
    │   ├── InvalidTopic
    │   ├── InvalidPattern          a subscription's regular expression
    │   ├── InvalidRecord
    │   │   └── InvalidTimestamp    too far from the broker's clock for its topic
    │   ├── CorruptBatch            bytes that are no record batch, or whose checksum is wrong
    │   ├── UnsupportedBatch        a well-formed batch that is not accepted here
    │   └── BatchTooLarge
    ├── MissingExtra                an optional package is not installed
    ├── OffsetOutOfRange
    │   └── NoOffsetForPartition    nothing is committed, and the consumer was told to begin nowhere by itself
    ├── OffsetNotAvailable          not yet: the replica has to catch up first
    ├── OffsetMismatch              a conditional append found the log longer than expected
    ├── LogTruncated                records that were read are no longer in the log (rule 66)
    ├── UnknownTopicOrPartition
    ├── TopicAlreadyExists
    ├── ProducerError               idempotent producers
    │   ├── OutOfOrderSequence
    │   ├── DuplicateSequence
    │   ├── UnknownProducer
    │   └── InvalidProducerEpoch
    ├── LeadershipError             asked the wrong replica, or with an old epoch
    │   ├── NotLeaderOrFollower
    │   ├── FencedLeaderEpoch
    │   ├── UnknownLeaderEpoch
    │   └── BrokerFenced            the broker has lost touch with the controller (rule 37)
    ├── ControllerError             the metadata quorum and the controller
    │   ├── NotController           asked a controller that is not the active one
    │   ├── NoController            nobody leads the quorum right now
    │   ├── ControllerMoved         the change was begun, and leadership lost before it was committed
    │   ├── QuorumDamaged           a voter's files are damaged: it must not start
    │   ├── NotFounded              the quorum waits for its voters to meet for the first time
    │   ├── VoterChangeRefused
    │   ├── UnsupportedFeatureLevel
    │   ├── InconsistentMetadata    a metadata record does not fit what was before it: the node must stop
    │   ├── StaleBrokerEpoch        an earlier run of the broker speaks
    │   ├── DuplicateBroker         another process with that id is alive
    │   ├── UnexpectedBrokerEpoch   the broker has been registered since (compare and set)
    │   ├── BrokerNotAvailable      no such broker, or it is fenced
    │   ├── InvalidUpdateVersion    the partition has changed since (compare and set)
    │   ├── IneligibleReplica       a replica that may not be in the ISR; nothing was changed
    │   ├── OperationNotAttempted   nothing was changed
    │   ├── NotEnoughReplicas       fewer brokers, or replicas in sync, than needed
    │   ├── NotEnoughReplicasAfterAppend
    │   ├── InvalidReplicaAssignment
    │   ├── ReassignmentInProgress
    │   ├── UnsafeReassignment
    │   └── RecoveryRefused
    ├── GroupError                  consumer groups and their coordinators
    │   ├── NotCoordinator          asked a broker that does not coordinate the group
    │   ├── CoordinatorNotAvailable
    │   ├── CoordinatorLoadInProgress  not yet: never "no offset" (rule 63)
    │   ├── UnknownMember
    │   ├── FencedMemberEpoch       the member has to give up everything and join again
    │   ├── StaleMemberEpoch        not the one who may commit there (rule 62)
    │   ├── CommitOvertaken         a later commit of the same member stands (rule 62)
    │   ├── HeartbeatOvertaken      a later call of the same member was heard
    │   ├── UnreleasedInstance      a static member's name is in use
    │   ├── GroupNotFound
    │   ├── GroupNotEmpty
    │   └── GroupFull
    ├── ClientError                 raised by this process's own producer, consumer or admin
    │   ├── BufferExhausted         the producer's buffer stayed full for too long; not sent
    │   ├── DeliveryTimedOut        not acknowledged in time; it may be written, now or later
    │   ├── DeliveryExpired         its time was over before it was sent: not written
    │   ├── DeliveryUnknown         given up, and whether it was written cannot be found out
    │   └── ClientClosed
    ├── UnsupportedOperation        this node, or this version, does not do that
    ├── StorageError                this replica's disk
    │   ├── DiskFull
    │   ├── TooManyOpenFiles
    │   ├── LogDamaged
    │   ├── LogBusy
    │   ├── LogClosed
    │   ├── ReplicaDiverged         its leader would cut off what is committed (rule 11)
    │   └── StorageFailed
    └── TransportError              between two processes
        ├── Unavailable
        ├── RequestTimedOut
        ├── Overloaded
        ├── UnknownServerError
        └── CannotListen            this process cannot have the address it was told to serve on
"""

from __future__ import annotations

from typing import Final

from quorate.core.controller_errors import (
    BrokerNotAvailable,
    ControllerError,
    ControllerMoved,
    DuplicateBroker,
    InconsistentMetadata,
    IneligibleReplica,
    InvalidReplicaAssignment,
    InvalidUpdateVersion,
    NoController,
    NotController,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotFounded,
    OperationNotAttempted,
    QuorumDamaged,
    ReassignmentInProgress,
    RecoveryRefused,
    StaleBrokerEpoch,
    UnexpectedBrokerEpoch,
    UnsafeReassignment,
    UnsupportedFeatureLevel,
    VoterChangeRefused,
)
from quorate.core.error_base import Fact, QuorateError, copy_of
from quorate.core.group_errors import (
    CommitOvertaken,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedMemberEpoch,
    GroupError,
    GroupFull,
    GroupNotEmpty,
    GroupNotFound,
    HeartbeatOvertaken,
    NotCoordinator,
    StaleMemberEpoch,
    UnknownMember,
    UnreleasedInstance,
)

__all__ = [
    "ERRORS_BY_CODE",
    "BatchTooLarge",
    "BrokerFenced",
    "BrokerNotAvailable",
    "BufferExhausted",
    "CannotListen",
    "ClientClosed",
    "ClientError",
    "CommitOvertaken",
    "ControllerError",
    "ControllerMoved",
    "CoordinatorLoadInProgress",
    "CoordinatorNotAvailable",
    "CorruptBatch",
    "DeliveryExpired",
    "DeliveryTimedOut",
    "DeliveryUnknown",
    "DiskFull",
    "DuplicateBroker",
    "DuplicateSequence",
    "Fact",
    "FencedLeaderEpoch",
    "FencedMemberEpoch",
    "GroupError",
    "GroupFull",
    "GroupNotEmpty",
    "GroupNotFound",
    "HeartbeatOvertaken",
    "InconsistentMetadata",
    "IneligibleReplica",
    "InvalidConfig",
    "InvalidPattern",
    "InvalidProducerEpoch",
    "InvalidRecord",
    "InvalidReplicaAssignment",
    "InvalidRequest",
    "InvalidTimestamp",
    "InvalidTopic",
    "InvalidUpdateVersion",
    "LeadershipError",
    "LogBusy",
    "LogClosed",
    "LogDamaged",
    "LogTruncated",
    "MissingExtra",
    "NoController",
    "NoOffsetForPartition",
    "NotController",
    "NotCoordinator",
    "NotEnoughReplicas",
    "NotEnoughReplicasAfterAppend",
    "NotFounded",
    "NotLeaderOrFollower",
    "OffsetMismatch",
    "OffsetNotAvailable",
    "OffsetOutOfRange",
    "OperationNotAttempted",
    "OutOfOrderSequence",
    "Overloaded",
    "ProducerError",
    "QuorateError",
    "QuorumDamaged",
    "ReassignmentInProgress",
    "RecoveryRefused",
    "ReplicaDiverged",
    "RequestTimedOut",
    "StaleBrokerEpoch",
    "StaleMemberEpoch",
    "StorageError",
    "StorageFailed",
    "TooManyOpenFiles",
    "TopicAlreadyExists",
    "TransportError",
    "Unavailable",
    "UnexpectedBrokerEpoch",
    "UnknownLeaderEpoch",
    "UnknownMember",
    "UnknownProducer",
    "UnknownServerError",
    "UnknownTopicOrPartition",
    "UnreleasedInstance",
    "UnsafeReassignment",
    "UnsupportedBatch",
    "UnsupportedFeatureLevel",
    "UnsupportedOperation",
    "VoterChangeRefused",
    "copy_of",
    "wrong_leader_epoch",
]


class InvalidRequest(QuorateError):
    """The request breaks a rule of the interface; sending it again cannot help."""

    code = "INVALID_REQUEST"
    grpc_status = "INVALID_ARGUMENT"


class InvalidConfig(InvalidRequest):
    """A configuration key or value is not acceptable; the message names the key."""

    code = "INVALID_CONFIG"


class InvalidTopic(InvalidRequest):
    """A topic name or partition count is not acceptable."""

    code = "INVALID_TOPIC"


class InvalidPattern(InvalidRequest):
    """A subscription's pattern is not RE2's syntax, or would take too much memory."""

    code = "INVALID_REGULAR_EXPRESSION"


class InvalidRecord(InvalidRequest):
    """A record cannot be put into a batch: wrong type, too many records, a timestamp out of range."""

    code = "INVALID_RECORD"


class InvalidTimestamp(InvalidRecord):
    """A timestamp lies further from the broker's clock than the topic allows. Not written."""

    code = "INVALID_TIMESTAMP"


class CorruptBatch(InvalidRequest):
    """The bytes are not a record batch, or do not match their checksum."""

    code = "CORRUPT_BATCH"
    grpc_status = "DATA_LOSS"


class UnsupportedBatch(InvalidRequest):
    """The batch is well formed, but of a kind that is not accepted (magic, compression, attributes)."""

    code = "UNSUPPORTED_BATCH"


class BatchTooLarge(InvalidRequest):
    """The batch exceeds a size limit; the facts say which limit."""

    code = "MESSAGE_TOO_LARGE"


class MissingExtra(QuorateError):
    """What was asked for needs an optional package; the message says how to install it."""

    code = "MISSING_EXTRA"
    grpc_status = "UNIMPLEMENTED"


class OffsetOutOfRange(QuorateError):
    """The log does not hold that offset: it was deleted, or is not written yet."""

    code = "OFFSET_OUT_OF_RANGE"
    grpc_status = "OUT_OF_RANGE"


class NoOffsetForPartition(OffsetOutOfRange):
    """The group has committed nothing there, and ``auto_offset_reset`` is "fail"."""

    code = "NO_OFFSET_FOR_PARTITION"


class OffsetNotAvailable(QuorateError):
    """Not yet: a new leader does not know how far the log is committed (rule 17), or a follower is behind."""

    code = "OFFSET_NOT_AVAILABLE"
    retriable = True
    grpc_status = "UNAVAILABLE"


class OffsetMismatch(QuorateError):
    """A conditional append expected another end of the log; ``actual_offset`` is committed. Not written."""

    code = "OFFSET_MISMATCH"
    grpc_status = "ABORTED"


class LogTruncated(QuorateError):
    """What was read up to ``offset`` is in the log only to ``end_offset``: records have vanished (rule 66).

    Never in a clean cluster: only after an unclean election or an operator's recovery.
    """

    code = "LOG_TRUNCATED"
    grpc_status = "DATA_LOSS"


class UnknownTopicOrPartition(QuorateError):
    """No such topic or partition here, as far as this node knows."""

    code = "UNKNOWN_TOPIC_OR_PARTITION"
    retriable = True
    refresh_metadata = True
    grpc_status = "NOT_FOUND"


class TopicAlreadyExists(QuorateError):
    """A topic of that name exists."""

    code = "TOPIC_ALREADY_EXISTS"
    grpc_status = "ALREADY_EXISTS"


class ProducerError(QuorateError):
    """An idempotent producer's batch does not follow from what the log holds of it."""

    code = "PRODUCER_ERROR"
    grpc_status = "FAILED_PRECONDITION"


class OutOfOrderSequence(ProducerError):
    """A batch before this one is missing; never the answer to a duplicate (rule 51)."""

    code = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class DuplicateSequence(ProducerError):
    """The batch was written before, so long ago that its offset is no longer remembered."""

    code = "DUPLICATE_SEQUENCE_NUMBER"


class UnknownProducer(ProducerError):
    """The log remembers nothing of this producer, and the batch is not its first."""

    code = "UNKNOWN_PRODUCER_ID"


class InvalidProducerEpoch(ProducerError):
    """A newer incarnation of this producer has written: this one is fenced."""

    code = "INVALID_PRODUCER_EPOCH"


class LeadershipError(QuorateError):
    """The replica asked cannot answer as leader in the epoch that the request names."""

    code = "LEADERSHIP_ERROR"
    retriable = True
    refresh_metadata = True
    grpc_status = "FAILED_PRECONDITION"


class NotLeaderOrFollower(LeadershipError):
    """This node is not the leader (or not a replica) of the partition."""

    code = "NOT_LEADER_OR_FOLLOWER"


class FencedLeaderEpoch(LeadershipError):
    """The request's leader epoch is older than the replica's (rule 3)."""

    code = "FENCED_LEADER_EPOCH"


class UnknownLeaderEpoch(LeadershipError):
    """The request's leader epoch is newer than the replica's (rule 3)."""

    code = "UNKNOWN_LEADER_EPOCH"


class BrokerFenced(LeadershipError):
    """The broker has not heard from the controller for too long, so another may have taken over (rule 37)."""

    code = "BROKER_FENCED"


def wrong_leader_epoch(of: object, *, request: int, current: int) -> LeadershipError:
    """The error for a request in another leader epoch than the one that ``of`` is in."""
    kind = FencedLeaderEpoch if request < current else UnknownLeaderEpoch
    return kind(
        f"{of} is in leader epoch {current}, the request in {request}",
        request_leader_epoch=request,
        current_leader_epoch=current,
    )


class ClientError(QuorateError):
    """Raised by this process's own producer, consumer or admin client."""

    code = "CLIENT_ERROR"


class BufferExhausted(ClientError):
    """The producer's buffer was full for ``max_block_ms``: the cluster takes less than is sent. Not sent."""

    code = "BUFFER_EXHAUSTED"
    retriable = True


class DeliveryTimedOut(ClientError):
    """Sent, and not acknowledged within ``delivery_timeout_ms``: it may be in the log, or get there yet."""

    code = "DELIVERY_TIMED_OUT"
    outcome_unknown = True


class DeliveryExpired(ClientError):
    """Not sent within ``delivery_timeout_ms``, so certainly not written."""

    code = "DELIVERY_EXPIRED"
    retriable = True


class DeliveryUnknown(ClientError):
    """Given up before its time: it may be in the log, and no further attempt could tell or would be safe."""

    code = "DELIVERY_UNKNOWN"
    outcome_unknown = True


class ClientClosed(ClientError):
    """The client was closed."""

    code = "CLIENT_CLOSED"


class UnsupportedOperation(QuorateError):
    """This node does not offer that: wrong role, or not in this version."""

    code = "UNSUPPORTED_OPERATION"
    grpc_status = "UNIMPLEMENTED"


class StorageError(QuorateError):
    """This replica's storage cannot do what was asked."""

    code = "STORAGE_ERROR"
    grpc_status = "INTERNAL"


class DiskFull(StorageError):
    """No room: nothing of the append was kept, reads go on. Free some space, or add a disk."""

    code = "DISK_FULL"
    retriable = True
    grpc_status = "RESOURCE_EXHAUSTED"


class TooManyOpenFiles(StorageError):
    """The process has no file descriptor left. Raise its limit (ulimit -n), or close connections."""

    code = "TOO_MANY_OPEN_FILES"
    retriable = True
    outcome_unknown = True
    grpc_status = "RESOURCE_EXHAUSTED"


class LogDamaged(StorageError):
    """The log holds bytes that fail their checks: quarantined, never served (rule 44)."""

    code = "LOG_DAMAGED"
    grpc_status = "DATA_LOSS"


class LogBusy(StorageError):
    """The log is being truncated or reset; it takes appends again in a moment."""

    code = "LOG_BUSY"
    retriable = True
    grpc_status = "UNAVAILABLE"


class LogClosed(StorageError):
    """The log was closed; the node is shutting down or the partition was moved."""

    code = "LOG_CLOSED"
    retriable = True
    refresh_metadata = True
    grpc_status = "UNAVAILABLE"


class ReplicaDiverged(StorageError):
    """The leader's log lacks records that this replica knows to be committed (rule 11): nothing was cut."""

    code = "REPLICA_DIVERGED"
    grpc_status = "DATA_LOSS"


class StorageFailed(StorageError):
    """The disk refused a read or a write; the replica is offline until the node restarts."""

    code = "STORAGE_FAILED"


class TransportError(QuorateError):
    """A call did not get its answer."""

    code = "TRANSPORT_ERROR"
    retriable = True
    grpc_status = "UNAVAILABLE"


class Unavailable(TransportError):
    """Nobody answers at that address, or the connection broke; the outcome is unknown."""

    code = "UNAVAILABLE"
    refresh_metadata = True
    outcome_unknown = True


class RequestTimedOut(TransportError):
    """No answer within the deadline; the outcome is unknown."""

    code = "REQUEST_TIMED_OUT"
    outcome_unknown = True
    grpc_status = "DEADLINE_EXCEEDED"


class Overloaded(TransportError):
    """A bound on requests or memory is reached; nothing was done. Back off and retry."""

    code = "OVERLOADED"
    grpc_status = "RESOURCE_EXHAUSTED"


class UnknownServerError(TransportError):
    """The server failed in a way it did not expect; the outcome is unknown."""

    code = "UNKNOWN_SERVER_ERROR"
    retriable = False
    outcome_unknown = True
    grpc_status = "INTERNAL"


class CannotListen(TransportError):
    """The address to serve on is taken, not this machine's, or not allowed; another may do."""

    code = "CANNOT_LISTEN"
    retriable = False


def _collect(kind: type[QuorateError]) -> dict[str, type[QuorateError]]:
    found = {kind.code: kind}
    for child in kind.__subclasses__():
        found.update(_collect(child))
    return found


#: code on the wire -> class, for the side that receives an error
ERRORS_BY_CODE: Final[dict[str, type[QuorateError]]] = _collect(QuorateError)
