"""Moving a group: the plan first, then exactly that plan."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import click

from quorate.client import AsyncAdmin, OffsetAndMetadata, TopicPartition
from quorate.client.admin.group_types import OffsetReset
from quorate.client.admin.groups import ResetTo
from quorate.console.group_documents import partitions_text
from quorate.console.offset_choices import OffsetChoice
from quorate.console.option_values import parse_partition
from quorate.console.partition_check import check_partition_exists
from quorate.errors import GroupNotFound

__all__ = ["ResetPlan", "Target", "execute_resets", "parse_targets", "plan_resets"]

#: a topic, and one of its partitions; None: all
Target = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class ResetPlan:
    resets: dict[TopicPartition, OffsetReset]
    #: what to know beside it
    remarks: list[str]


def parse_targets(texts: Sequence[str]) -> list[Target]:
    """``TOPIC`` or ``TOPIC:PARTITION`` of each; a name has no colons."""
    targets: list[Target] = [
        parse_partition(text, hint="--topic") if ":" in text else (text, None) for text in texts
    ]
    if "" in (topic for topic, _ in targets):
        raise click.BadParameter("a topic's name is expected", param_hint="--topic")
    return targets


async def plan_resets(
    admin: AsyncAdmin, group: str, targets: Sequence[Target], choice: OffsetChoice, *, timeout_s: float
) -> ResetPlan:
    remarks = await _of_the_group(admin, group, timeout_s)
    resets: dict[TopicPartition, OffsetReset] = {}
    for topic, partition in targets:
        described = await admin.describe_topic(topic)
        check_partition_exists(described, partition)
        found = await admin.reset_offsets(
            group,
            described.name if partition is None else [(described.name, partition)],
            _to(choice),
            timestamp_ms=choice.value if choice.kind == "time" else None,
            validate_only=True,
            timeout=timeout_s,
        )
        resets.update(found)
    return ResetPlan(resets, [*_nearest(resets, choice), *remarks])


async def execute_resets(admin: AsyncAdmin, group: str, plan: ResetPlan, *, timeout_s: float) -> None:
    """What was shown, and nothing else: "latest" is not looked up a second time."""
    offsets: dict[tuple[str, int], int | OffsetAndMetadata] = {
        partition: reset.after for partition, reset in plan.resets.items()
    }
    await admin.commit_offsets(group, offsets, timeout=timeout_s)


def _to(choice: OffsetChoice) -> ResetTo | None:
    match choice.kind:
        case "beginning":
            return "earliest"
        case "end":
            return "latest"
        case "offset":
            return choice.value
        case "time":
            return None


def _nearest(resets: dict[TopicPartition, OffsetReset], choice: OffsetChoice) -> list[str]:
    if choice.kind == "time" and choice.value > time.time() * 1000:
        return ["that time is still to come: the group goes on at the end of each partition, as it is now"]
    if choice.kind != "offset":
        return []
    return [
        f"{partitions_text([partition])} does not hold {choice.value}: {reset.after} is the nearest it does"
        for partition, reset in resets.items()
        if reset.after != choice.value
    ]


async def _of_the_group(admin: AsyncAdmin, group: str, timeout_s: float) -> list[str]:
    try:
        described = await admin.describe_group(group, timeout=timeout_s)
    except GroupNotFound:
        return [f"there is no group {group} yet: it begins with these offsets"]
    if described.members:
        return [f"{group} has {len(described.members)} member(s): stop them before it is moved"]
    return []
