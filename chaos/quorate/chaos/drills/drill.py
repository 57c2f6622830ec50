"""A drill under way: what a story may look at, do, and expect.

Everything that is done to a node is remembered until it is undone. A story that fails half-way, or is
interrupted, therefore leaves a cluster that can be mended, which matters most where it is somebody else's.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from quorate.chaos.checks.violation import Violation
from quorate.chaos.drills.agent import ClusterAgent
from quorate.chaos.drills.timeline import EventKind, Timeline
from quorate.chaos.faults.network import NetworkFaults
from quorate.chaos.live.load import LedgerLoad
from quorate.chaos.live.reader import LedgerReader
from quorate.chaos.live.replica_files import replica_directory
from quorate.chaos.live.sight import Sight
from quorate.chaos.live.waiting import until_so, until_whole
from quorate.client import AsyncAdmin
from quorate.core.ids import Offset, TopicId, TopicPartition
from quorate.core.os_disk import OsDisk
from quorate.errors import QuorateError

__all__ = ["Drill", "Pace"]

T = TypeVar("T")

_READER_DIES: Final = 0.3
_WEEK_MS: Final = 7 * 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds; a random share of each."""

    calm_s: float = 2.0
    quiet_s: float = 2.0
    #: how long a fault lasts where nothing else says when it ends
    fault_s: float = 5.0


@dataclass(slots=True)
class Drill(Sight):
    agent: ClusterAgent
    admin: AsyncAdmin
    #: of those who ask for acks=all
    load: LedgerLoad
    other_loads: Sequence[LedgerLoad]
    timeline: Timeline
    random: random.Random
    pace: Pace
    #: as the story calls a topic, and the topic that was made for this run
    topics: dict[str, str]
    #: those that are written with acks=all
    partitions: Sequence[TopicPartition]
    tell: Callable[[str], None]
    #: what must have been seen in the end, or the faults were none
    leaves: set[EventKind]
    #: what the story expected and did not get
    findings: list[str] = field(default_factory=list)
    #: what clients have found themselves
    violations: list[Violation] = field(default_factory=list)
    expectations: int = 0
    rounds: int = 0
    #: how many times stored bytes were changed where a broker has to notice
    damage_done: int = 0
    #: by power losses
    lost_bytes: int = 0
    #: what the story found out beside verdicts: figures for the report
    figures: dict[str, str] = field(default_factory=dict)
    #: what ``next_of`` has still to give, by name
    _left: dict[str, list[Any]] = field(default_factory=dict)
    _down: set[str] = field(default_factory=set)
    _paused: set[str] = field(default_factory=set)
    _is_network_disturbed: bool = False

    # -- the rhythm of a story

    async def calm(self) -> None:
        """The cluster serves, and nothing is done to it."""
        # Clients die, too: a reader that comes back has to find what it had read (rule 66).
        if self.random.random() < _READER_DIES:
            await self.load.readers[0].restart()
        await self.acknowledges()
        await self.lasts(self.pace.calm_s)

    async def lasts(self, seconds: float) -> None:
        await asyncio.sleep(self.random.uniform(0.5, 1.0) * seconds)

    @contextmanager
    def fault(self, kind: str, target: str) -> Iterator[None]:
        """Inside, the cluster is broken. ``kind`` is the same each time it is told."""
        self.tell(f"{kind}: {target}")
        with self.timeline.fault(kind, target):
            yield

    def expect(self, is_so: bool, otherwise: str) -> None:  # noqa: FBT001  # reads as a sentence
        self.expectations += 1
        if not is_so:
            self.fails(otherwise)

    def fails(self, finding: str) -> None:
        self.findings.append(finding)
        self.tell(f"NOT AS PROMISED: {finding}")

    def shuffled(self, choices: Sequence[T]) -> list[T]:
        return self.random.sample(choices, len(choices))

    def next_of(self, name: str, choices: Sequence[T]) -> T:
        """Every choice once, in a random order, before any of them comes again."""
        left = self._left.get(name) or self.shuffled(choices)
        chosen: T = left.pop()
        self._left[name] = left
        self.figures[name] = f"{len(choices) - len(left)} of {len(choices)}"
        return chosen

    async def acknowledges(self, partitions: Sequence[TopicPartition] = ()) -> None:
        """Writes that begin now are acknowledged, in these partitions or in all."""
        await self.load.acknowledges(partitions=partitions)

    def acknowledged_since(self, since_s: float, partition: TopicPartition) -> int:
        """Of the records that were sent since then to that partition."""
        count = 0
        for sent in reversed(self.timeline.history.sent):
            if sent.begun_s < since_s:
                break
            count += sent.is_acknowledged and sent.partition == partition
        return count

    # -- looking

    @property
    def nodes(self) -> list[str]:
        return [node.name for node in self.agent.nodes]

    @property
    def brokers(self) -> list[str]:
        return [node.name for node in self.agent.nodes if node.is_broker]

    @property
    def controllers(self) -> list[str]:
        return [node.name for node in self.agent.nodes if node.is_controller]

    @property
    def node_names(self) -> dict[int, str]:
        return {node.id: node.name for node in self.agent.nodes}

    def a_partition(self, topic: str | None = None) -> TopicPartition:
        """Any; of that topic of the story."""
        return self.random.choice(self.partitions if topic is None else self.of_topic(topic))

    def of_topic(self, topic: str) -> list[TopicPartition]:
        return [each for each in self.partitions if each.topic == self.topics[topic]]

    async def stops_moving(self) -> None:
        await until_so(
            "partitions that move", self.moving, lambda moving: set(moving).isdisjoint(self.partitions)
        )

    # -- doing

    async def kill(self, *names: str) -> None:
        self._down.update(names)
        await self.agent.kill(*names)

    async def stop(self, *names: str) -> None:
        self._down.update(names)
        await self.agent.stop(*names)

    async def start(self, *names: str) -> None:
        await self.agent.start(*names)
        self._down.difference_update(names)

    async def pause(self, name: str) -> None:
        self._paused.add(name)
        await self.agent.pause(name)

    async def resume(self, name: str) -> None:
        await self.agent.resume(name)
        self._paused.discard(name)

    async def isolate(self, name: str) -> None:
        self._is_network_disturbed = True
        await self.agent.isolate(name)

    def disturb_network(self) -> NetworkFaults:
        """For faults of single links, until ``heal``."""
        assert self.agent.network is not None, "the story says that it needs links"
        self._is_network_disturbed = True
        return self.agent.network

    async def heal(self) -> None:
        await self.agent.heal()
        self._is_network_disturbed = False

    def lose_power(self, name: str) -> None:
        """Of a node that was killed: what it had not synced is gone, some of it torn."""
        lost = self.agent.disk(name).lose_power(self.random)
        self.lost_bytes += lost.lost_bytes
        self.figures["unsynced bytes lost"] = f"{self.lost_bytes:,}"

    async def changes_metadata(self) -> None:
        """Something harmless, confirmed by a quorum."""
        later_ms = _WEEK_MS + self.random.randrange(_WEEK_MS)
        await self.admin.alter_config(self.a_partition().topic, {"segment.ms": later_ms})

    async def start_and_kill(self, name: str, *, after_s: float) -> None:
        """A start that does not come far; wherever it is then."""
        starting = asyncio.create_task(self.agent.start(name))
        self._down.add(name)
        await asyncio.sleep(after_s)
        await self.agent.kill(name)
        # It says that the node did not start, unless it was quicker.
        with suppress(QuorateError):
            await starting

    async def starts(self, name: str) -> bool:
        """Whether a node that may refuse to start does."""
        try:
            await self.agent.start(name)
        except QuorateError:
            return False
        return True

    async def reads_all(self, partition: TopicPartition) -> None:
        """A reader of its own, from the first record to the last that is there now."""
        end = (
            await self.described_until(partition, lambda each: each.high_watermark is not None)
        ).high_watermark
        assert end is not None
        name = f"reader of all, {self.timeline.history.last_serial}"
        reader = LedgerReader(self.agent.bootstrap, [partition], history=self.timeline.history, name=name)
        reader.start()
        try:
            await reader.reads_to({partition: Offset(end)})
        finally:
            await reader.kill()

    def data_dir(self, name: str) -> str:
        found = self.agent.data_dir(name)
        assert found is not None, "the story says that it needs files"
        return found

    async def replica_directory(self, name: str, partition: TopicPartition) -> str:
        """Where that node keeps its replica."""
        topic_id = TopicId((await self.admin.describe_topic(partition.topic)).topic_id)
        disk = OsDisk(read_only=True)
        try:
            found = replica_directory(disk, self.data_dir(name), topic_id, partition.partition)
        finally:
            disk.close()
        assert found is not None, f"{name} is a replica of {partition}"
        return found

    async def mend(self) -> None:
        """Whatever is still broken."""
        if self._is_network_disturbed:
            await self.heal()
        for name in sorted(self._paused):
            await self.resume(name)
        if self._down:
            await self.start(*sorted(self._down))

    async def becomes_whole(self) -> None:
        """Every replica of every partition is in sync again."""
        for topic in self.topics.values():
            await until_whole(self.admin, topic)
        self.timeline.note_whole()
