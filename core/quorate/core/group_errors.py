"""Errors of consumer groups and their coordinators: a branch of the tree in ``quorate.errors``."""

from __future__ import annotations

from quorate.core.error_base import QuorateError

__all__ = [
    "CommitOvertaken",
    "CoordinatorLoadInProgress",
    "CoordinatorNotAvailable",
    "FencedMemberEpoch",
    "GroupError",
    "GroupFull",
    "GroupNotEmpty",
    "GroupNotFound",
    "HeartbeatOvertaken",
    "NotCoordinator",
    "StaleMemberEpoch",
    "UnknownMember",
    "UnreleasedInstance",
]


class GroupError(QuorateError):
    """A group, or its coordinator, cannot do what was asked."""

    code = "GROUP_ERROR"
    grpc_status = "FAILED_PRECONDITION"


class NotCoordinator(GroupError):
    """Another broker coordinates the group; ``broker_id`` and ``address`` say which, if it is known."""

    code = "NOT_COORDINATOR"
    retriable = True
    refresh_metadata = True


class CoordinatorNotAvailable(GroupError):
    """Nobody coordinates the group right now: its partition of the topic of offsets has no leader."""

    code = "COORDINATOR_NOT_AVAILABLE"
    retriable = True
    refresh_metadata = True
    grpc_status = "UNAVAILABLE"


class CoordinatorLoadInProgress(GroupError):
    """The coordinator is new, and has yet to read what the group has come to (rule 63)."""

    code = "COORDINATOR_LOAD_IN_PROGRESS"
    retriable = True
    grpc_status = "UNAVAILABLE"


class UnknownMember(GroupError):
    """The group has no such member, or none any more: give up every partition, and join again."""

    code = "UNKNOWN_MEMBER_ID"


class FencedMemberEpoch(GroupError):
    """The member speaks of itself in a way that the group does not know: give up everything, join again."""

    code = "FENCED_MEMBER_EPOCH"


class StaleMemberEpoch(GroupError):
    """The member is not, or not yet, or no longer the one who may say that (rule 62). Nothing was done.

    A heartbeat tells it where it stands; what it holds then, it may try again in its new epoch.
    """

    code = "STALE_MEMBER_EPOCH"
    retriable = True


class CommitOvertaken(GroupError):
    """The same member has committed there since, and that one stands (rule 62). Nothing was done."""

    code = "COMMIT_OVERTAKEN"


class HeartbeatOvertaken(GroupError):
    """A later call of the same member was heard, and that one counts. Nothing was done.

    Only a copy that comes late is refused so. Else the member has not counted up ``call_number``.
    """

    code = "HEARTBEAT_OVERTAKEN"


class UnreleasedInstance(GroupError):
    """A member with that instance id is in the group: stop it, or wait until its session is over."""

    code = "UNRELEASED_INSTANCE_ID"


class GroupNotFound(GroupError):
    """There is no such group."""

    code = "GROUP_ID_NOT_FOUND"
    grpc_status = "NOT_FOUND"


class GroupNotEmpty(GroupError):
    """The group has members, or one that reads that topic. Nothing was removed."""

    code = "NON_EMPTY_GROUP"


class GroupFull(GroupError):
    """The group has as many members as it may have, or the coordinator as many groups."""

    code = "GROUP_MAX_SIZE_REACHED"
    retriable = True
    grpc_status = "RESOURCE_EXHAUSTED"
