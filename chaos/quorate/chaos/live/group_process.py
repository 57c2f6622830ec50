"""A process that hosts members of a consumer group: it does as it is told, and tells what happens.

    python -m quorate.chaos.live.group_process BOOTSTRAP GROUP TOPIC…

Commands are lines of JSON on standard input: ``{"do": "join", "member": NAME}``, and so ``leave``, ``crash``
(its connections break without a word of farewell), ``hold`` (it stops over the next records that it is
handed) and ``go`` (then it commits them, and goes on). Events are lines of JSON on standard output. Their
times are those of the monotonic clock, which all processes of a machine share.

What a member is handed is told before it is committed. So wherever this process is killed, nothing is
committed that nobody was told of. When standard input ends, whoever has started this is gone: members leave,
and it ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, Final, NoReturn

from quorate.client import AsyncConsumer, ConsumerRecord, Membership, OffsetAndMetadata, TopicPartition
from quorate.client.groups.coordinator import COMMIT_OFFSETS
from quorate.client.groups.offsets import offset_to
from quorate.client.groups.partitions import GroupPartition
from quorate.core.ids import PartitionId, TopicId, TopicName
from quorate.errors import LogTruncated, OffsetOutOfRange, QuorateError
from quorate.rpc.error_detail import error_from_detail
from quorate.v1 import group_pb2

__all__ = ["main"]

_POLL_S: Final = 0.2
#: between commits of one member: often enough to be struck in the middle of one
_COMMIT_S: Final = 0.1
_COMMIT_TIMEOUT_S: Final = 30.0
_TROUBLE_S: Final = 0.1
_STDOUT: Final = 1

Tell = Callable[..., None]


class _Member:
    def __init__(self, name: str, bootstrap: str, group: str, topics: list[str], tell: Tell) -> None:
        self._name = name
        self._topics = topics
        self._tell = tell
        self._consumer = AsyncConsumer(bootstrap, group=group, client_id=name, enable_auto_commit=False)
        #: behind what it was handed and has not committed
        self._due: dict[TopicPartition, int] = {}
        self._topic_ids: dict[TopicPartition, TopicId] = {}
        self._committed_s = 0.0
        self._commits = 0
        self._is_over = False
        #: told to stop over the next records: when it may go on
        self._go: asyncio.Event | None = None
        self._task = asyncio.create_task(self._live(), name=name)

    # -- commands

    def leave(self) -> None:
        self._is_over = True

    async def left(self) -> None:
        self._is_over = True
        await asyncio.wait([self._task])

    async def crash(self) -> None:
        """As if the process had died: connections break, and nobody says why."""
        self._task.cancel()
        await asyncio.wait([self._task])

    def hold(self) -> None:
        self._go = asyncio.Event()

    def go(self) -> None:
        assert self._go is not None, "it was told to hold"
        self._go.set()

    # -- its life

    async def _live(self) -> None:
        try:
            await self._work()
            await self._consumer.close()
        except asyncio.CancelledError:
            await self._consumer._engine.close()  # noqa: SLF001  # a client has no way to go without a word
        except (LogTruncated, OffsetOutOfRange) as error:
            self._say("failed", error=error.message)
        self._say("gone")

    async def _work(self) -> None:
        self._consumer.subscribe(
            self._topics, on_assigned=self._given, on_revoked=self._revoked, on_lost=self._taken
        )
        while not self._is_over:
            try:
                records = await self._consumer.poll(timeout=_POLL_S)
            except (LogTruncated, OffsetOutOfRange):
                raise
            except QuorateError as error:
                self._say("trouble", error=error.code)
                await asyncio.sleep(_TROUBLE_S)
                continue
            self._note(records)
            if self._go is not None and records:
                await self._hold_until(self._go)
            elif time.monotonic() - self._committed_s >= _COMMIT_S:
                await self._commit(self._due)

    def _note(self, records: Iterable[ConsumerRecord]) -> None:
        for partition, found in groupby(records, _partition_of):
            of_it = list(found)
            self._say(
                "poll",
                partition=partition,
                records=[(each.offset, (each.value or b"").decode("latin-1")) for each in of_it],
            )
            self._due[partition] = of_it[-1].offset + 1
            self._topic_ids[partition] = TopicId(self._consumer.record_id(of_it[-1]).topic_id)

    async def _commit(self, due: Mapping[TopicPartition, int]) -> None:
        offsets = dict(due)
        self._committed_s = time.monotonic()
        for partition in offsets:
            del self._due[partition]
        if not offsets:
            return
        number = self._say_commit(offsets)
        try:
            await self._consumer.commit(dict(offsets.items()), timeout=_COMMIT_TIMEOUT_S)
        except QuorateError as error:
            self._say("committed", number=number, error=error.code)
        else:
            self._say("committed", number=number, error=None)

    def _say_commit(self, offsets: Mapping[TopicPartition, int]) -> int:
        self._commits += 1
        self._say("commit", number=self._commits, offsets=[(*each, at) for each, at in offsets.items()])
        return self._commits

    # -- one who stands still between processing and committing

    async def _hold_until(self, go: asyncio.Event) -> None:
        then = self._consumer.membership()
        self._say("held")
        await go.wait()
        self._go = None
        if then is not None:
            await self._commit_late(then, self._due)
        await self._commit(self._due)

    async def _commit_late(self, then: Membership, due: Mapping[TopicPartition, int]) -> None:
        """In the name that it had then, past all that the client knows by now: like a call under way."""
        number = self._say_commit(due)
        request = group_pb2.CommitOffsetsRequest(
            group=then.group,
            member_id=then.member_id,
            member_epoch=then.epoch,
            offsets=[
                offset_to(GroupPartition(self._topic_ids[each], *each), OffsetAndMetadata(offset))
                for each, offset in due.items()
            ],
        )
        link = self._consumer._engine.in_group()._link  # noqa: SLF001  # a client would not send it any more
        try:
            answer = await link.call(COMMIT_OFFSETS, request, timeout_s=_COMMIT_TIMEOUT_S)
        except QuorateError as error:
            self._say("committed", number=number, error=error.code)
            return
        refused = [error_from_detail(each.error) for each in answer.results if each.HasField("error")]
        self._say("committed", number=number, error=refused[0].code if refused else None)

    # -- what the group tells it

    async def _given(self, partitions: list[TopicPartition]) -> None:
        at_s, membership = time.monotonic(), self._consumer.membership()
        committed = await self._consumer.committed_offsets(*partitions)
        starts = [(*each, committed[each].offset if each in committed else 0) for each in partitions]
        self._say("given", at_s=at_s, partitions=starts, epoch=membership and membership.epoch)

    async def _revoked(self, partitions: list[TopicPartition]) -> None:
        await self._commit({each: at for each, at in self._due.items() if each in partitions})
        self._taken(partitions)

    def _taken(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._due.pop(each, None)
        self._say("taken", partitions=partitions)

    def _say(self, what: str, **facts: Any) -> None:
        self._tell(what, member=self._name, **{"at_s": time.monotonic(), **facts})


class _Host:
    def __init__(self, bootstrap: str, group: str, topics: list[str]) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._topics = topics
        self._members: dict[str, _Member] = {}

    async def run(self) -> None:
        commands = await _standard_input()
        async for line in commands:
            command = json.loads(line)
            await self._obey(command["do"], command["member"])
        await asyncio.gather(*(member.left() for member in self._members.values()))

    async def _obey(self, what: str, name: str) -> None:
        if what == "join":
            self._members[name] = _Member(name, self._bootstrap, self._group, self._topics, _tell)
            return
        member = self._members[name]
        match what:
            case "leave":
                member.leave()
            case "crash":
                await member.crash()
            case "hold":
                member.hold()
            case "go":
                member.go()
            case _:
                raise AssertionError(what)


def _tell(what: str, **facts: Any) -> None:
    line = json.dumps({"type": what, **facts}, separators=(",", ":")).encode() + b"\n"
    while line:
        line = line[os.write(_STDOUT, line) :]


async def _standard_input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    return reader


def _partition_of(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(TopicName(record.topic), PartitionId(record.partition))


def main() -> NoReturn:
    bootstrap, group, *topics = sys.argv[1:]
    asyncio.run(_Host(bootstrap, group, topics).run())
    sys.exit(0)


if __name__ == "__main__":
    main()
