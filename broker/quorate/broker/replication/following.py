"""What a follower does next with one partition, without any waiting.

A follower goes round in a circle: it names its position, the leader answers, and the answer says what has to
happen before the position is named again. Naming a position acknowledges everything before it (rule 16), so
all that acknowledging demands stands in one place, ``before_naming``, and no way leads around it: not after
an append, not after a cut, not when a stream is opened anew, nor when a leader becomes a follower and still
has records that were never synced.

What the leader says is believed only in the leader epoch in which it was asked (rule 10); the caller drops
the rest. Trouble falls into three kinds, which must not be mixed up:

- *The leader's, or the way's*: it does not lead, it is behind in its metadata, its bytes fail their
  checksums. The log stays as it is, and the position is named again later. In particular, nothing is cut
  because a question got no answer (rule 9).
- *The log's*: damaged bytes, a failed write. The replica has failed: it neither leads nor follows (rule 44).
- *Nobody's*, a disk that is full for the moment: as the first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from quorate.broker.replica.compacted_copies import has_to_begin_anew
from quorate.broker.replica.log_trouble import is_log_trouble
from quorate.broker.replica.partition import Partition
from quorate.broker.replica.partition_state import PartitionState
from quorate.broker.replica.unclean_epochs import crosses_unclean_epoch
from quorate.broker.replication.compaction_messages import compacted_from, compacted_to
from quorate.broker.replication.truncation import truncation_offset
from quorate.core.config import Durability
from quorate.core.ids import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset
from quorate.errors import (
    OffsetOutOfRange,
    QuorateError,
    ReplicaDiverged,
    UnknownServerError,
)
from quorate.rpc.error_detail import error_from_detail
from quorate.storage import NOT_COMPACTED, Compacted
from quorate.storage.leader_epochs import EpochEnd
from quorate.v1.replica_pb2 import FollowerPosition, ReplicaUpdate

__all__ = [
    "NAME_POSITION",
    "SYNC",
    "WAIT_FOR_CUT",
    "Fail",
    "NamePosition",
    "Next",
    "NoteSuperseded",
    "RaiseLogStart",
    "ResetTo",
    "Sync",
    "TruncateTo",
    "TryAgain",
    "WaitForCut",
    "before_naming",
    "is_throttled",
    "may_be_elected",
    "may_refetch",
    "must_refetch",
    "position_of",
    "take_update",
]


@dataclass(frozen=True, slots=True)
class NamePosition:
    """Nothing stands in the way."""


@dataclass(frozen=True, slots=True)
class Sync:
    """First everything has to be on the device."""


@dataclass(frozen=True, slots=True)
class RaiseLogStart:
    """First what the leader lets go of has to go."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class NoteSuperseded:
    """First it has to be on the device that what comes next may lack records because of newer ones."""

    #: exclusive end of those
    below: Offset


@dataclass(frozen=True, slots=True)
class WaitForCut:
    """First a cut has to be finished that was begun in an earlier leader epoch."""


@dataclass(frozen=True, slots=True)
class TruncateTo:
    #: exclusive end of what stays
    offset: Offset


@dataclass(frozen=True, slots=True)
class ResetTo:
    """Drop everything, and begin at the offset."""

    offset: Offset
    #: what is missing at the leader from there on
    compacted: Compacted = NOT_COMPACTED


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Name the position again, after a pause."""

    error: QuorateError


@dataclass(frozen=True, slots=True)
class Fail:
    """This replica cannot go on."""

    error: QuorateError


Next: TypeAlias = (
    NamePosition | Sync | RaiseLogStart | NoteSuperseded | WaitForCut | TruncateTo | ResetTo | TryAgain | Fail
)

NAME_POSITION: Final = NamePosition()
SYNC: Final = Sync()
WAIT_FOR_CUT: Final = WaitForCut()
_FIRST_OFFSET: Final = Offset(0)


def before_naming(partition: Partition, *, may_refetch: bool = False, must_refetch: bool = False) -> Next:
    """What has to happen before the position may be named."""
    log = partition.log
    if log.is_being_cut:
        return WAIT_FOR_CUT
    failure = log.failure
    if failure is not None and not may_refetch:
        return Fail(failure)
    if failure is not None or must_refetch:
        # Refetched, it is as good as empty; if the leader begins later, it says so.
        return ResetTo(_FIRST_OFFSET)
    log_start = partition.log_start_due
    if log_start is not None:
        return RaiseLogStart(log_start)
    state = partition.state
    assert state is not None
    if state.durability is Durability.FSYNC and log.recovery_point < log.log_end_offset:
        return SYNC
    return NAME_POSITION


def may_refetch(partition: Partition, broker_id: BrokerId) -> bool:
    """Whether a damaged log may be dropped; to be asked when a leader epoch begins, and only then (rule 44).

    While the replica is in ISR or ELR it may be elected, and must not become emptier than it is. Within the
    epoch in which the damage was found it must not either, even if it is in neither: the leader still trusts
    in what the replica acknowledged before, and may be asking to have it back in the ISR. In a new epoch the
    leader has forgotten (rule 7).
    """
    return partition.log.damage is not None and not may_be_elected(partition, broker_id)


def must_refetch(partition: Partition, broker_id: BrokerId) -> bool:
    """Whether what was copied so far rests on records that the leader may lack; asked as ``may_refetch`` is.

    A log that is copied from a compacted one lacks records because of newer ones that are still to come. An
    unclean election since then may have lost those (rule 33), and nobody would notice: no batch is cut.
    Where the log does not know what it lacks, that may be so of any.
    """
    log, unclean = partition.log, _state_of(partition).image.unclean_leader_epochs
    return (
        log.log_end_offset < log.compacted.superseded_below
        and any(epoch > log.latest_leader_epoch for epoch in unclean)
        and not may_be_elected(partition, broker_id)
    )


def may_be_elected(partition: Partition, broker_id: BrokerId) -> bool:
    """Whether this replica holds everything that is committed, and has to go on holding it (rule 1).

    By the metadata of the epoch in which it follows, and that is enough: it joins the ISR there by a position
    that its leader has accepted, and after that nothing is cut.
    """
    image = _state_of(partition).image
    return broker_id in image.isr or broker_id in image.elr


def position_of(partition: Partition, leader_epoch: LeaderEpoch) -> FollowerPosition:
    """Field by field: by its name in a call, each takes protobuf longer."""
    log, position = partition.log, FollowerPosition()
    position.topic_id, position.partition = partition.topic_id, partition.topic_partition.partition
    position.leader_epoch = leader_epoch
    position.fetch_offset = log.log_end_offset
    position.last_fetched_epoch = log.latest_leader_epoch
    position.log_start_offset = log.log_start_offset
    compacted = compacted_to(log.compacted)
    if compacted is not None:
        position.compacted.CopyFrom(compacted)
    return position


def take_update(partition: Partition, update: ReplicaUpdate) -> Next:
    """Do what the leader's answer says, as far as that needs no waiting. Its epoch was checked (rule 10)."""
    if update.HasField("error"):
        return _refused(partition, update)
    if update.HasField("diverging"):
        return _diverged(partition, update)
    if update.HasField("compacted"):
        return _copies_compacted(partition, update)
    batches = update.batches  # once: each look at the field copies it
    if batches:
        try:
            partition.log.append_as_follower(batches)
        except QuorateError as error:
            return Fail(error) if is_log_trouble(error) else TryAgain(error)
    partition.advance_high_watermark_from_leader(Offset(update.high_watermark))
    partition.note_leader_log_start(Offset(update.log_start_offset))
    return before_naming(partition)


def is_throttled(partition: Partition, broker_id: BrokerId) -> bool:
    """A reassignment adds this replica, and nobody counts on it yet."""
    state = partition.state
    assert state is not None
    image = state.image
    return broker_id in image.adding_replicas and broker_id not in image.isr


def _refused(partition: Partition, update: ReplicaUpdate) -> Next:
    error = error_from_detail(update.error)
    log = partition.log
    log_end_offset, leader_start = log.log_end_offset, Offset(update.log_start_offset)
    is_empty = log.log_start_offset == log_end_offset and log.latest_leader_epoch == NO_LEADER_EPOCH
    # What comes next is deleted at the leader, so it was committed and its time was over (rule 48). A log has
    # no gaps, so it begins anew where the leader begins (rule 12). One that has nothing may begin anywhere.
    if isinstance(error, OffsetOutOfRange) and (
        leader_start > log_end_offset or (is_empty and leader_start < log_end_offset)
    ):
        return ResetTo(leader_start)
    return TryAgain(error)


def _diverged(partition: Partition, update: ReplicaUpdate) -> Next:
    log = partition.log
    answer = EpochEnd(LeaderEpoch(update.diverging.epoch), Offset(update.diverging.end_offset))
    offset = truncation_offset(log, answer)
    if offset < partition.high_watermark and not _may_lack_committed(partition):
        return Fail(
            ReplicaDiverged(
                f"{partition.topic_partition}: the leader of epoch {partition.leader_epoch} lacks records "
                f"from offset {offset} on, and those before {partition.high_watermark} are committed",
                topic=partition.topic_partition.topic,
                partition=partition.topic_partition.partition,
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                offset=offset,
                high_watermark=partition.high_watermark,
            )
        )
    leader_start = Offset(update.log_start_offset)
    # An epoch without a batch may stand at the end: cutting takes it away, although no record goes.
    is_empty_epoch_last = log.latest_leader_epoch != log.leader_epoch_at(Offset(log.log_end_offset - 1))
    is_any_to_go = offset < log.log_end_offset or is_empty_epoch_last
    is_shared_part_deleted = answer.end_offset <= leader_start > log.log_start_offset
    # What ends there may be vouched for by what the leader knows of this replica, once the rest is cut.
    is_to_ask_again = offset == leader_start and is_any_to_go
    if offset < log.log_start_offset or (is_shared_part_deleted and not is_to_ask_again):
        # All that the logs may share is deleted at the leader: nothing vouches for what is left (rule 12).
        return ResetTo(leader_start)
    if not is_any_to_go:
        message = f"the leader wants {partition.topic_partition} cut at its end, {offset}, again and again"
        return TryAgain(UnknownServerError(message, offset=offset))
    return TruncateTo(offset)


def _copies_compacted(partition: Partition, update: ReplicaUpdate) -> Next:
    log, leader = partition.log, compacted_from(update.compacted)
    if has_to_begin_anew(leader, end_offset=log.log_end_offset, known=log.compacted):
        return ResetTo(Offset(update.log_start_offset), leader)
    return NoteSuperseded(leader.superseded_below)


def _may_lack_committed(partition: Partition) -> bool:
    return crosses_unclean_epoch(
        partition.log,
        high_watermark=partition.high_watermark,
        leader_epoch=partition.leader_epoch,
        unclean_leader_epochs=_state_of(partition).image.unclean_leader_epochs,
    )


def _state_of(partition: Partition) -> PartitionState:
    state = partition.state
    assert state is not None, "it follows, so metadata has told it whom"
    return state
