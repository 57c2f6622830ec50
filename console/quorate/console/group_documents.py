"""How groups are shown: in short, with all there is to know, and what becomes of their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import click

from quorate.client import TopicPartition
from quorate.client.admin.group_types import (
    GroupDescription,
    GroupProgress,
    MemberDescription,
    OffsetReset,
)
from quorate.console.output import print_json, print_table
from quorate.console.record_document import timestamp_text
from quorate.console.session import Session

__all__ = ["partitions_text", "print_group", "print_groups", "print_resets"]

#: key of a group's document in a list -> heading of its column
_GROUP_COLUMNS: Final = {
    "group": "GROUP",
    "state": "STATE",
    "members": "MEMBERS",
    "topics": "TOPICS",
    "partitions": "PARTITIONS",
    "lag": "LAG",
}
_MEMBER_COLUMNS: Final = (
    "MEMBER",
    "INSTANCE",
    "CLIENT",
    "HOST",
    "EPOCH",
    "STATE",
    "SUBSCRIBES",
    "ASSIGNMENT",
)
_PROGRESS_COLUMNS: Final = (
    "TOPIC",
    "PARTITION",
    "COMMITTED",
    "END",
    "LAG",
    "LAG SECONDS",
    "OF RETENTION",
    "LAST COMMIT",
    "OWNER",
)
_RESET_COLUMNS: Final = ("TOPIC", "PARTITION", "COMMITTED", "NEW", "CHANGE")


def print_groups(groups: Iterable[GroupDescription], session: Session) -> None:
    documents = [_short_document(each) for each in groups]
    if session.json:
        print_json({"groups": documents})
    else:
        rows = [{**each, "lag": _lag_text(each)} for each in documents]
        print_table(_GROUP_COLUMNS.values(), [[each[key] for key in _GROUP_COLUMNS] for each in rows])


def print_group(group: GroupDescription, session: Session, *, missing: Sequence[str] = ()) -> None:
    """``missing``: topics that members subscribe to and that there are not."""
    if session.json:
        print_json({**_document(group), "missing_topics": list(missing)})
        return
    click.echo(_headline(group))
    click.echo()
    if group.members:
        print_table(_MEMBER_COLUMNS, [_member_row(each) for each in group.members])
    else:
        click.echo("no members")
    click.echo()
    if group.progress:
        print_table(_PROGRESS_COLUMNS, [_progress_row(each) for each in group.progress])
    else:
        click.echo("no offsets are committed, and no partition is read")
    for each in group.progress:
        if each.error is not None:
            click.echo(f"{partitions_text([each.partition])}: {each.error.code}: {each.error.message}")
    for topic in missing:
        click.echo(f"{topic}: there is no such topic; it is waited for")


def print_resets(
    group: str, plan: Mapping[TopicPartition, OffsetReset], session: Session, *, is_executed: bool
) -> None:
    if session.json:
        offsets = [
            {**_partition_document(partition), "before": reset.before, "after": reset.after}
            for partition, reset in plan.items()
        ]
        print_json({"group": group, "is_executed": is_executed, "offsets": offsets})
    else:
        print_table(_RESET_COLUMNS, [_reset_row(partition, reset) for partition, reset in plan.items()])


def partitions_text(partitions: Iterable[tuple[str, int]]) -> str:
    """``orders:0,1,2 payments:4``."""
    by_topic = groupby(sorted(partitions), key=itemgetter(0))
    return " ".join(f"{topic}:{','.join(str(number) for _, number in found)}" for topic, found in by_topic)


# -- documents


def _short_document(group: GroupDescription) -> dict[str, Any]:
    return {
        "group": group.group,
        "state": group.state,
        "members": len(group.members),
        "topics": sorted({each.partition.topic for each in group.progress}),
        "partitions": len(group.progress),
        "uncommitted_partitions": sum(each.committed_offset is None for each in group.progress),
        "lag": group.lag,
    }


def _document(group: GroupDescription) -> dict[str, Any]:
    return {
        "group": group.group,
        "state": group.state,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": group.assignor or None,
        "coordinator": group.coordinator,
        "lag": group.lag,
        "members": [_member_document(each) for each in group.members],
        "partitions": [_progress_document(each) for each in group.progress],
    }


def _member_document(member: MemberDescription) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id or None,
        "client_id": member.client_id or None,
        "host": member.host or None,
        "rack": member.rack or None,
        "member_epoch": member.member_epoch,
        "state": _member_state(member),
        "topics": list(member.topics),
        "pattern": member.pattern or None,
        "assignment": _partition_documents(member.assignment),
        "target": _partition_documents(member.target),
        "revoking": _partition_documents(member.revoking),
        "silent_ms": member.silent_ms,
    }


def _progress_document(progress: GroupProgress) -> dict[str, Any]:
    error = progress.error
    return {
        **_partition_document(progress.partition),
        "topic_id": progress.topic_id,
        "member_id": progress.member_id,
        "committed_offset": progress.committed_offset,
        "committed_at_ms": progress.committed_at_ms,
        "log_start_offset": progress.log_start_offset,
        "end_offset": progress.end_offset,
        "lag": progress.lag,
        "lag_ms": progress.lag_ms,
        "lag_of_retention": progress.lag_of_retention,
        "metadata": progress.metadata,
        "error": None if error is None else {"code": error.code, "message": error.message},
    }


def _partition_documents(partitions: Sequence[TopicPartition]) -> list[dict[str, Any]]:
    return [_partition_document(each) for each in partitions]


def _partition_document(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}


# -- for people


def _lag_text(group: Mapping[str, Any]) -> str | None:
    """Where nothing is committed in a partition, its lag is what there is, and nobody has said so."""
    lag, uncommitted = group["lag"], group["uncommitted_partitions"]
    if lag is None:
        return None
    if not uncommitted:
        return str(lag)
    # With their unit: beside a lag a number alone would be read as records.
    return f"{lag} (without a commit: {uncommitted} partition{'' if uncommitted == 1 else 's'})"


def _headline(group: GroupDescription) -> str:
    epoch = str(group.group_epoch)
    # Of a stable group it only says that the last change, a restart of a static member say, moved nothing.
    if group.assignment_epoch != group.group_epoch and group.state != "stable":
        epoch += f" (assigned for {group.assignment_epoch})"
    lag = "-" if group.lag is None else group.lag
    return (
        f"group {group.group}  state {group.state}  epoch {epoch}  assignor {group.assignor or '-'}  "
        f"coordinator {group.coordinator}  lag {lag}"
    )


def _member_row(member: MemberDescription) -> Sequence[object]:
    return (
        member.member_id,
        member.instance_id or None,
        member.client_id or None,
        member.host or None,
        member.member_epoch,
        _member_state(member),
        _subscribed(member) or None,
        partitions_text([*member.assignment, *member.revoking]) or None,
    )


def _subscribed(member: MemberDescription) -> str:
    return " ".join([*member.topics, *([f"/{member.pattern}/"] if member.pattern else [])])


def _member_state(member: MemberDescription) -> str:
    """Idle: it has nothing to read, nor is it to have anything; there are more members than partitions."""
    if member.is_away:
        return "away"
    if member.revoking:
        return f"giving up {partitions_text(member.revoking)}"
    awaited = set(member.target) - set(member.assignment)
    if awaited:
        return f"waiting for {partitions_text(awaited)}"
    return "reading" if member.assignment else "idle"


def _progress_row(progress: GroupProgress) -> Sequence[object]:
    share, committed_at = progress.lag_of_retention, progress.committed_at_ms
    return (
        progress.partition.topic,
        progress.partition.partition,
        progress.committed_offset,
        progress.end_offset,
        progress.lag,
        None if progress.lag_ms is None else round(progress.lag_ms / 1000, 1),
        None if share is None else f"{share:.1%}",
        None if committed_at is None else timestamp_text(committed_at),
        progress.member_id,
    )


def _reset_row(partition: TopicPartition, reset: OffsetReset) -> Sequence[object]:
    change = None if reset.before is None else reset.after - reset.before
    return (
        partition.topic,
        partition.partition,
        reset.before,
        reset.after,
        None if change is None else f"{change:+d}" if change else "0",
    )
