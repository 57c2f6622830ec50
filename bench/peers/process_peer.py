"""A peer whose clients are programs: what NATS and Kafka have in common here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from bench.cluster.processes import ClientFailed, tell
from bench.peers.client_process import ProcessReader, ProcessSender, reading, sending
from quorate.chaos.checks.violation import Violation
from quorate.chaos.peers.peer import Extent, PeerUnavailable
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition

__all__ = ["ProcessPeer"]

_WHOLE_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.2


class ProcessPeer:
    """The program has the commands create-topic, look, send and read; see `bench.peers.client_lines`."""

    def __init__(self, *program: str, bootstrap: str) -> None:
        self._program = program
        self._bootstrap = bootstrap
        self._partitions: dict[str, int] = {}

    async def create_topic(self, topic: str, partitions: int) -> None:
        try:
            await tell(*self._command("create-topic", topic, partitions))
        except ClientFailed as error:
            raise PeerUnavailable(str(error)) from error
        self._partitions[topic] = partitions

    async def until_whole(self, topic: str) -> None:
        last: object = None
        try:
            async with asyncio.timeout(_WHOLE_TIMEOUT_S):
                while True:
                    try:
                        last = await self._look(topic)
                    except ClientFailed as error:
                        # Nobody leads yet, or nobody answers.
                        last = error
                    else:
                        if all(each["is_whole"] for each in last):
                            return
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            message = f"{topic} was not whole within {_WHOLE_TIMEOUT_S:g} s: {last}"
            raise Violation(message, check="unavailable") from None

    async def extents(self, topic: str) -> Mapping[TopicPartition, Extent]:
        try:
            found = await self._look(topic)
        except ClientFailed as error:
            raise Violation(str(error), check="unavailable") from error
        return {
            TopicPartition(TopicName(topic), PartitionId(number)): Extent(
                Offset(each["start"]), Offset(each["end"])
            )
            for number, each in enumerate(found)
        }

    def sender(self) -> AbstractAsyncContextManager[ProcessSender]:
        return sending(*self._command("send"))

    def reader(self, starts: Mapping[TopicPartition, Offset]) -> AbstractAsyncContextManager[ProcessReader]:
        return reading(*self._command("read"), starts=starts)

    async def _look(self, topic: str) -> list[dict[str, Any]]:
        told = await tell(*self._command("look", topic, self._partitions[topic]))
        partitions: list[dict[str, Any]] = told["partitions"]
        return partitions

    def _command(self, command: str, *arguments: object) -> tuple[str, ...]:
        return (*self._program, command, self._bootstrap, *map(str, arguments))
