"""A drill under way: what a story may look at, do, and expect.

Everything that is done to a node is remembered until it is undone. A story that fails half-way, or is
interrupted, therefore leaves a cluster that can be mended, which matters most where it is somebody else's.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from quorate.chaos.checks.violation import Violation
from quorate.chaos.drills.agent import ClusterAgent
from quorate.chaos.drills.choices import Choices
from quorate.chaos.drills.damages import WatchedDamages
from quorate.chaos.drills.timeline import Timeline
from quorate.chaos.faults.network import NetworkFaults
from quorate.chaos.history.entries import Sent
from quorate.chaos.history.history import History
from quorate.chaos.live.group_load import GroupLoad
from quorate.chaos.live.load import LedgerLoad
from quorate.chaos.live.reader import LedgerReader
from quorate.chaos.live.replica_files import replica_directory
from quorate.chaos.live.sight import Sight
from quorate.chaos.live.waiting import topic_until, until_so, until_whole
from quorate.client import AsyncAdmin
from quorate.core.ids import Offset, PartitionId, TopicId, TopicName, TopicPartition
from quorate.core.os_disk import OsDisk
from quorate.errors import QuorateError

__all__ = ["Drill", "Pace"]

T = TypeVar("T")

_READER_DIES: Final = 0.3
_BYTES_LOST: Final = "unsynced bytes lost"
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
    choices: Choices
    pace: Pace
    #: as the story calls a topic, and the topic that was made for this run
    topics: dict[str, str]
    #: those that are written with acks=all
    partitions: list[TopicPartition]
    #: the consumer group that reads them; None: the story has none
    group: GroupLoad | None
    tell: Callable[[str], None]
    #: what must have been seen in the end, or the faults were none: kinds of events, or names in ``counted``
    signs: set[str]
    counted: Counter[str] = field(default_factory=Counter)
    #: what nodes must have logged in the end
    signs_in_logs: set[str] = field(default_factory=set)
    #: what the story expected and did not get
    findings: list[str] = field(default_factory=list)
    #: what clients have found themselves
    violations: list[Violation] = field(default_factory=list)
    expectations: int = 0
    rounds: int = 0
    #: what the story found out beside verdicts: figures for the report
    figures: dict[str, str] = field(default_factory=dict)
    #: stored bytes that were changed where a broker has to notice
    damages: WatchedDamages = field(init=False)
    _down: set[str] = field(default_factory=set)
    _paused: set[str] = field(default_factory=set)
    _is_network_disturbed: bool = False

    def __post_init__(self) -> None:
        self.damages = WatchedDamages(self.agent)

    # -- the rhythm of a story

    async def calm(self) -> None:
        """The cluster serves, and nothing is done to it."""
        # Clients die, too: a reader that comes back has to find what it had read (rule 66).
        if self.random.random() < _READER_DIES:
            await self.load.readers[0].restart()
        await self.acknowledges()
        await self.rest(self.pace.calm_s)

    async def rest(self, seconds: float) -> None:
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
            self.note_failure(otherwise)

    def note_failure(self, finding: str) -> None:
        self.findings.append(finding)
        self.tell(f"NOT AS PROMISED: {finding}")

    def shuffled(self, choices: Sequence[T]) -> list[T]:
        return self.random.sample(choices, len(choices))

    async def acknowledges(self, partitions: Sequence[TopicPartition] = ()) -> None:
        """Writes that begin now are acknowledged, in these partitions or in all."""
        await self.load.acknowledges(partitions=partitions)

    def sent_since(self, since_s: float, *partitions: TopicPartition) -> list[Sent]:
        """To these partitions; the last one first."""
        latest = itertools.takewhile(lambda sent: sent.begun_s >= since_s, reversed(self.history.sent))
        return [sent for sent in latest if sent.partition in partitions]

    def expect_silence(self, since_s: float, partitions: Sequence[TopicPartition], because: str) -> None:
        """Somebody has written to these partitions since then, and nothing of it was acknowledged."""
        sent = self.sent_since(since_s, *partitions)
        names = ", ".join(map(str, partitions))
        self.expect(bool(sent), f"nobody has written to {names}: {because} was not put to the test")
        count = sum(each.is_acknowledged for each in sent)
        self.expect(count == 0, f"{count} records were acknowledged by {because}")

    async def stays_silent(self, partition: TopicPartition, leader: str, because: str) -> None:
        """For as long as a fault lasts, this leader acknowledges nothing."""
        begun_s = self.history.now_s()
        await self.rest(self.pace.fault_s)
        # Leaders are moved to where they belong now and then; another one may acknowledge.
        if await self.leader(partition) == leader:
            self.expect_silence(begun_s, [partition], because)

    def count(self, what: str, count: int) -> None:
        """In the end there must have been some of it."""
        self.signs.add(what)
        self.counted[what] += count

    # -- looking

    @property
    def members(self) -> GroupLoad:
        assert self.group is not None, "the story says that it has a group"
        return self.group

    @property
    def history(self) -> History:
        return self.timeline.history

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
        self.count(_BYTES_LOST, lost.lost_bytes)
        self.figures[_BYTES_LOST] = f"{self.counted[_BYTES_LOST]:,}"

    async def change_metadata(self) -> None:
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

    async def refuses_to_start(self, name: str) -> str | None:
        """What a node says that may refuse to start; None: it has started."""
        try:
            await self.start(name)
        except QuorateError as error:
            return error.message
        return None

    async def add_partition(self, topic: str) -> None:
        """Another partition for that topic of the story, which is written to and read from then on."""
        name = TopicName(self.topics[topic])
        count = len((await self.admin.describe_topic(name)).partitions)
        await self.admin.create_partitions(name, count + 1)
        added = TopicPartition(name, PartitionId(count))
        await topic_until(self.admin, name, lambda found: len(found.partitions) > count)
        self.partitions.append(added)
        await self.load.take_up([added])

    async def recreate_topic(self, topic: str, arguments: Mapping[str, Any]) -> None:
        """That topic of the story, under its name and under load: deleted, and made again like this."""
        name = TopicName(self.topics[topic])
        deletion = self.history.delete_topic(name)
        await self.admin.delete_topic(name)
        await self.admin.create_topic(name, **arguments)
        # Until all who hold the new one have heard of it, some may still acknowledge for the old one.
        await until_whole(self.admin, name)
        self.history.topic_deleted(deletion)
        for reader in self.load.readers:
            await reader.take_up(self.of_topic(topic))

    async def reads_all(self, partition: TopicPartition) -> list[bytes]:
        """A reader of its own, from the first record to the last that is there now; returns their values."""
        end = (
            await self.described_until(partition, lambda each: each.high_watermark is not None)
        ).high_watermark
        assert end is not None
        name = f"reader of all, {self.history.last_serial}"
        reader = LedgerReader(self.agent.bootstrap, [partition], history=self.history, name=name)
        reader.start()
        try:
            await reader.reads_to({partition: Offset(end)})
        finally:
            await reader.kill()
        polls = (poll for poll in self.history.polls if poll.assignment.reader == name)
        return [value for poll in polls for _, value in poll.records]

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
