"""Whether partitions are where they were to be, once none of their moves is under way any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from quorate.console.output import CodedError
from quorate.errors import UnknownTopicOrPartition
from quorate.v1 import admin_pb2

if TYPE_CHECKING:
    from quorate.client.admin_calls import AdminCalls

__all__ = ["MoveNotDone", "check_done"]

_NAMED_MAX: Final = 3


class MoveNotDone(CodedError):
    """A move that has gone from the list need not have arrived: anybody may call it off, or begin another."""

    code = "MOVE_NOT_DONE"
    what_to_do = "somebody called it off or began another one: look, and run it again if it is still wanted"


async def check_done(connection: AdminCalls, moves: Sequence[admin_pb2.PartitionMove]) -> None:
    """``MoveNotDone`` where a partition is elsewhere; one that was deleted meanwhile is not looked for."""
    wanted = {(move.partition.topic, move.partition.partition): list(move.replicas) for move in moves}
    elsewhere = []
    for topic in sorted({topic for topic, _ in wanted}):
        try:
            described = await connection.describe_topic(topic)
        except UnknownTopicOrPartition:
            continue
        for each in described.partitions:
            replicas = wanted.get((topic, each.partition))
            if replicas is not None and replicas != list(each.replicas):
                elsewhere.append(
                    f"{topic}:{each.partition} is on {_ids(each.replicas)}, and was to be on {_ids(replicas)}"
                )
    if elsewhere:
        more = f" and {len(elsewhere) - _NAMED_MAX} more" if len(elsewhere) > _NAMED_MAX else ""
        raise MoveNotDone("; ".join(elsewhere[:_NAMED_MAX]) + more)


def _ids(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas))
