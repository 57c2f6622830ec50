"""A broker says that nothing of a deleted topic is left only when nothing is, or can still come (rule 42)."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Sequence
from typing import NoReturn

import pytest
from immutables import Map

from quorate.broker.removed_topics import RemovedTopics
from quorate.chaos.models.log.log_harness import HastyClock, os_error
from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.disk_faults import fail_nth
from quorate.core.clock import SystemClock
from quorate.core.ids import BrokerId, TopicId, TopicName
from quorate.metadata.image import MetadataImage, RemovedTopicImage
from quorate.storage import LogContext, LogDirectory, OpenFiles, PartitionKey, StartKind

GONE = TopicId("g" * 22)
OTHERS = TopicId("o" * 22)


def removed(topic_id: TopicId, *broker_ids: int) -> RemovedTopicImage:
    return RemovedTopicImage(topic_id, TopicName("t"), 0, tuple(map(BrokerId, broker_ids)))


IMAGE = MetadataImage(removed_topics=Map({GONE: removed(GONE, 1, 2), OTHERS: removed(OTHERS, 2)}))


class World:
    def __init__(self, disk: SimDisk, logs: LogDirectory) -> None:
        self.disk = disk
        self.confirmed: list[list[TopicId]] = []
        self.creating: set[TopicId] = set()
        self.topics = RemovedTopics(
            BrokerId(1),
            logs,
            clock=HastyClock(),
            confirm=self._confirm,
            is_creating_any_of=lambda topic_id: topic_id in self.creating,
        )

    async def _confirm(self, topic_ids: Sequence[TopicId]) -> None:
        self.confirmed.append(list(topic_ids))

    def make_log_directory(self) -> str:
        path = f"/data/{PartitionKey.parse(f't-0.{GONE}').directory_name}"  # type: ignore[union-attr]
        self.disk.make_directory(path)
        return path


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    disk = SimDisk()
    disk.make_directory("/data")
    context = LogContext(disk, SystemClock(), OpenFiles(disk, files_max=8), _die)
    world = World(disk, await LogDirectory.open(context, "/data", start=StartKind.CLEAN))
    running = asyncio.create_task(world.topics.run())
    yield world
    running.cancel()
    await asyncio.wait([running])


def _die(reason: str) -> NoReturn:
    raise AssertionError(reason)


async def test_topic_of_which_nothing_is_here_is_confirmed_and_no_other(world: World) -> None:
    world.topics.image_changed(IMAGE)
    await turns()
    assert world.confirmed == [[GONE]]


async def test_topic_is_confirmed_once_its_last_log_is_deleted(world: World) -> None:
    path = world.make_log_directory()
    world.topics.image_changed(IMAGE)
    await turns()
    assert world.confirmed == []
    world.disk.remove_directory(path)
    world.topics.log_deleted()
    await turns()
    assert world.confirmed == [[GONE]]


async def test_want_of_descriptors_puts_the_confirmation_off_and_ends_nothing(world: World) -> None:
    path = world.make_log_directory()
    world.disk.fault_hook = fail_nth(1, os_error(errno.EMFILE), names={"list"})
    world.topics.image_changed(IMAGE)
    await turns()
    assert world.confirmed == [], "its log is here"
    world.disk.remove_directory(path)
    world.disk.fault_hook = fail_nth(1, os_error(errno.EMFILE), names={"list"})
    world.topics.log_deleted()
    await turns()
    assert world.confirmed == [[GONE]]


async def test_topic_whose_log_is_being_made_is_not_confirmed(world: World) -> None:
    """It would appear on disk when nobody remembers the topic any more, and could never be deleted."""
    world.creating.add(GONE)
    world.topics.image_changed(IMAGE)
    await turns()
    assert world.confirmed == []
    world.creating.clear()
    world.topics.log_deleted()
    await turns()
    assert world.confirmed == [[GONE]]
