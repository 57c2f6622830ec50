"""Errors of the metadata quorum and the controller: a branch of the tree in ``quorate.errors``."""

from __future__ import annotations

from quorate.core.error_base import QuorateError

__all__ = [
    "BrokerNotAvailable",
    "ControllerError",
    "ControllerMoved",
    "DuplicateBroker",
    "InconsistentMetadata",
    "IneligibleReplica",
    "InvalidReplicaAssignment",
    "InvalidUpdateVersion",
    "NoController",
    "NotController",
    "NotEnoughReplicas",
    "NotEnoughReplicasAfterAppend",
    "NotFounded",
    "OperationNotAttempted",
    "QuorumDamaged",
    "ReassignmentInProgress",
    "RecoveryRefused",
    "StaleBrokerEpoch",
    "UnexpectedBrokerEpoch",
    "UnsafeReassignment",
    "UnsupportedFeatureLevel",
    "VoterChangeRefused",
]


class ControllerError(QuorateError):
    """The metadata quorum or its controller cannot do what was asked."""

    code = "CONTROLLER_ERROR"
    grpc_status = "FAILED_PRECONDITION"


class NotController(ControllerError):
    """Another node is the active controller; the facts say which, if it is known. Nothing was done."""

    code = "NOT_CONTROLLER"
    retriable = True
    refresh_metadata = True


class NoController(ControllerError):
    """The quorum has no leader that could act right now. Nothing was done."""

    code = "NO_CONTROLLER"
    retriable = True
    refresh_metadata = True
    grpc_status = "UNAVAILABLE"


class ControllerMoved(ControllerError):
    """Leadership was lost while the change was under way: it may or may not have been made (rule 39)."""

    code = "CONTROLLER_MOVED"
    retriable = True
    refresh_metadata = True
    outcome_unknown = True
    grpc_status = "UNAVAILABLE"


class QuorumDamaged(ControllerError):
    """Files of the metadata quorum are damaged; the message says which, and what to do (rule 42)."""

    code = "QUORUM_DAMAGED"
    grpc_status = "DATA_LOSS"


class NotFounded(ControllerError):
    """The voters have not yet all met for the first time; the message says who is missing."""

    code = "NOT_FOUNDED"
    retriable = True
    grpc_status = "UNAVAILABLE"


class VoterChangeRefused(ControllerError):
    """The set of voters cannot be changed like that, or not now. Nothing was done."""

    code = "VOTER_CHANGE_REFUSED"


class UnsupportedFeatureLevel(ControllerError):
    """The cluster's feature level is beyond this software, or the wanted level beyond some node's."""

    code = "UNSUPPORTED_FEATURE_LEVEL"


class InconsistentMetadata(ControllerError):
    """Committed metadata does not fit what was before it: a bug, or damage. The node must stop."""

    code = "INCONSISTENT_METADATA"
    grpc_status = "DATA_LOSS"


class StaleBrokerEpoch(ControllerError):
    """The broker has registered again since: whoever speaks with the old epoch is fenced (rule 2)."""

    code = "STALE_BROKER_EPOCH"


class DuplicateBroker(ControllerError):
    """A broker with that id is alive (rule 35). Stop it, or wait until its session has lapsed."""

    code = "DUPLICATE_BROKER_REGISTRATION"
    retriable = True


class UnexpectedBrokerEpoch(ControllerError):
    """The registration names another last one than stands (compare and set); ``current_broker_epoch`` does.

    Nothing was done. Whoever lives asks again with that one; a late copy of its request never does (rule 35).
    """

    code = "UNEXPECTED_BROKER_EPOCH"
    retriable = True


class BrokerNotAvailable(ControllerError):
    """No broker with that id is registered, or it cannot take part in what was asked."""

    code = "BROKER_NOT_AVAILABLE"


class InvalidUpdateVersion(ControllerError):
    """The partition's metadata has changed since the request was made. Nothing was changed."""

    code = "INVALID_UPDATE_VERSION"
    refresh_metadata = True


class IneligibleReplica(ControllerError):
    """The wanted ISR has a member that is fenced, stopping or of an old epoch. Nothing was changed."""

    code = "INELIGIBLE_REPLICA"


class OperationNotAttempted(ControllerError):
    """Something else in the request was wrong, so this was not tried. Nothing was changed."""

    code = "OPERATION_NOT_ATTEMPTED"
    retriable = True


class NotEnoughReplicas(ControllerError):
    """There are fewer brokers, or fewer replicas in sync, than are needed. Nothing was done."""

    code = "NOT_ENOUGH_REPLICAS"
    retriable = True


class NotEnoughReplicasAfterAppend(ControllerError):
    """Appended, then too few replicas were left in sync: whether it stays is not known (rule 15)."""

    code = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    retriable = True
    outcome_unknown = True
    grpc_status = "UNAVAILABLE"


class InvalidReplicaAssignment(ControllerError):
    """A list of replicas is empty, has doubles, or names a broker that does not exist."""

    code = "INVALID_REPLICA_ASSIGNMENT"
    grpc_status = "INVALID_ARGUMENT"


class ReassignmentInProgress(ControllerError):
    """The partition is being moved; wait for it, or call it off."""

    code = "REASSIGNMENT_IN_PROGRESS"
    retriable = True


class UnsafeReassignment(ControllerError):
    """The move, or calling it off, would leave fewer replicas in sync than MinISR (rule 47)."""

    code = "UNSAFE_REASSIGNMENT"


class RecoveryRefused(ControllerError):
    """The partition need not, or cannot, be recovered by hand (rule 33); the message says why."""

    code = "RECOVERY_REFUSED"
