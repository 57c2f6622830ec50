"""A thousand groups on a cluster of ours: `bench.groups.committing_process` twice, asked together."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from bench.groups.member_process import LineProcess, line_process
from bench.groups.sides import QuorateSide
from quorate.client import AsyncProducer
from quorate.core.topic_names import OFFSETS_TOPIC

__all__ = ["ManyGroups", "many_groups", "offsets_bytes"]

_TOPIC: Final = "committed"
_CLIENTS: Final = 2
#: offsets that can be committed; each commit is about the next one
_RECORDS: Final = 5_000
_JOIN_TIMEOUT_S: Final = 180.0


class ManyGroups:
    def __init__(self, clients: Sequence[LineProcess]) -> None:
        self._clients = clients

    async def ask(self, line: str, *, timeout_s: float) -> dict[str, list[Any]]:
        """What each of the processes answers, key by key one after the other."""
        for client in self._clients:
            client.tell(line)
        answers = await asyncio.gather(*(client.said(timeout_s) for client in self._clients))
        return merged(answers)


def merged(answers: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for answer in answers:
        for key, value in answer.items():
            found.setdefault(key, []).extend(value if isinstance(value, list) else [value])
    return found


@asynccontextmanager
async def many_groups(
    side: QuorateSide, *, count: int, partitions: int, has_members: bool
) -> AsyncIterator[ManyGroups]:
    """Each group has joined, and holds all its partitions."""
    await side.create_topic(_TOPIC, partitions)
    await _fill(side.bootstrap, partitions)
    async with AsyncExitStack() as processes:
        clients = []
        for number in range(_CLIENTS):
            first, end = count * number // _CLIENTS, count * (number + 1) // _CLIENTS
            command = (sys.executable, "-m", "bench.groups.committing_process", side.bootstrap, _TOPIC)
            numbers = map(str, (partitions, first, end - first))
            options = () if has_members else ("--without-members",)
            clients.append(await processes.enter_async_context(line_process(*command, *numbers, *options)))
        await asyncio.gather(*(client.said(_JOIN_TIMEOUT_S) for client in clients))
        yield ManyGroups(clients)


async def _fill(bootstrap: str, partitions: int) -> None:
    async with AsyncProducer(bootstrap) as producer:
        for partition in range(partitions):
            await producer.send_many(_TOPIC, [b""] * _RECORDS, partition=partition)
        await producer.flush(60)


def offsets_bytes(data_dir: str) -> list[int]:
    """Of each partition of the topic of offsets that this node keeps: what its files hold, indexes too."""
    folders = [each for each in Path(data_dir).rglob(f"{OFFSETS_TOPIC}-*") if each.is_dir()]
    return [sum(_size(file) for file in _files(folder)) for folder in folders]


def _files(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return [each for each in entries if each.is_file()]


def _size(file: os.DirEntry[str]) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0  # compaction has just replaced it
