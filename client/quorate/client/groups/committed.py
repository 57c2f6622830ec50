"""How far a group has come, as its coordinator says."""

from __future__ import annotations

from collections.abc import Iterable

from quorate.client.groups.coordinator import FETCH_OFFSETS, CoordinatorLink
from quorate.client.groups.offsets import OffsetAndMetadata, offset_from
from quorate.client.groups.partitions import GroupPartition, partitions_to
from quorate.core.ids import PartitionId, TopicId
from quorate.errors import UnknownServerError
from quorate.v1 import group_pb2

__all__ = ["fetch_committed", "fetch_revision"]


async def fetch_revision(
    link: CoordinatorLink, partitions: Iterable[GroupPartition], *, timeout_s: float
) -> str:
    """Of the group's offsets as they are now: what a change of them names that is not a member's."""
    request = group_pb2.FetchOffsetsRequest(group=link.group, partitions=partitions_to(partitions))
    response = await link.call_once(FETCH_OFFSETS, request, timeout_s=timeout_s)
    return response.revision


async def fetch_committed(
    link: CoordinatorLink,
    partitions: Iterable[GroupPartition],
    *,
    member: tuple[str, int] | None = None,
    timeout_s: float,
) -> dict[GroupPartition, OffsetAndMetadata]:
    """Of those that have one. ``member``: the name and the epoch of the one that asks; None: none does."""
    wanted = {(each.topic_id, each.partition): each for each in partitions}
    if not wanted:
        return {}
    member_id, member_epoch = member or ("", 0)
    request = group_pb2.FetchOffsetsRequest(
        group=link.group,
        partitions=partitions_to(wanted.values()),
        member_id=member_id,
        member_epoch=member_epoch,
    )
    response = await link.call(FETCH_OFFSETS, request, timeout_s=timeout_s)
    answers = {
        (TopicId(each.topic_id), PartitionId(each.partition)): offset_from(each) for each in response.offsets
    }
    if answers.keys() != wanted.keys():
        # What is not answered is not known: it must not be taken for "nothing is committed" (rule 63).
        raise UnknownServerError("FetchOffsets: the answer is not about the partitions that were asked for")
    return {wanted[each]: committed for each, committed in answers.items() if committed is not None}
