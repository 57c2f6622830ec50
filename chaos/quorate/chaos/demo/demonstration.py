"""The story: three nodes under load, two of them killed one after the other, and every record accounted for.

Every node is a broker and a voter, so three processes are a whole cluster, and the second victim is the
active controller: both ways to lose a leader are seen. One of the two coordinates the group that consumes, so
that its coordinator moves as well; between the kills a member joins, so that partitions do. Times are what
the defaults give; nothing is tuned. Load, history and checks are those of the drills.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from quorate.chaos.checks.check_all import check_all
from quorate.chaos.checks.final_state import FinalState
from quorate.chaos.checks.violation import Violation
from quorate.chaos.demo.reading_group import ReadingGroup
from quorate.chaos.history.entries import Outcome
from quorate.chaos.history.history import History
from quorate.chaos.live.answers import Answer, ask
from quorate.chaos.live.final_state import read_files
from quorate.chaos.live.load import LedgerLoad
from quorate.chaos.live.reach import Reach
from quorate.chaos.live.waiting import until_whole
from quorate.client import AsyncAdmin
from quorate.client.admin.types import TopicDescription
from quorate.core.clock import SystemClock
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from quorate.core.os_disk import OsDisk
from quorate.node.cluster_file import ClusterNode
from quorate.node.local_cluster import LocalCluster
from quorate.storage.inspect import ProblemKind, verify

__all__ = ["Demonstration"]

_TOPIC: Final = TopicName("demo")
_GROUP: Final = "demo-readers"
_NODES: Final = 3
_PARTITIONS: Final = tuple(TopicPartition(_TOPIC, PartitionId(number)) for number in range(6))
_PRODUCERS: Final = 3
_CONSUMERS: Final = 2
_FINDINGS_SHOWN_MAX: Final = 20
_PROGRESS_S: Final = 0.1

Answers = Mapping[TopicPartition, Answer]


@dataclass(slots=True)
class Demonstration:
    console: Console
    directory: str
    #: how long it writes before, between and after the kills
    seconds: float
    _clock: SystemClock = field(default_factory=SystemClock)
    _history: History = field(default_factory=History)
    #: what is not as promised
    _findings: list[str] = field(default_factory=list)

    async def run(self) -> bool:
        """Whether the proof held."""
        self._say("[bold]Quorate[/]: nodes are killed under load. Nothing acknowledged may be lost.")
        cluster = LocalCluster.create(f"{self.directory}/cluster", brokers=_NODES, is_combined=True)
        answers: Answers = {}
        try:
            await self._start(cluster)
            async with AsyncAdmin(cluster.bootstrap) as admin:
                group = ReadingGroup(cluster.bootstrap, _PARTITIONS, group=_GROUP, history=self._history)
                consumed = await self._under_load(cluster, admin, group)
                answers = await self._ask(cluster, admin)
            self._prove_consumed(consumed)
        except Violation as violation:
            self._findings.append(str(violation))
        finally:
            killed = await cluster.stop()
        self._say("[green]stop[/]     every node, by SIGTERM")
        self._findings += [f"{name} did not stop when it was asked to" for name in killed]
        self._verify_files(cluster, answers)
        for finding in self._findings[:_FINDINGS_SHOWN_MAX]:
            self._say(f"[red]fault[/]    {finding}")
        if self._findings:
            self._say(f"[bold red]The proof FAILED[/]: the files are kept in {self.directory}")
        else:
            self._say("[bold green]The proof holds[/]: two leaders killed, nothing lost, nothing twice.")
        return not self._findings

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)

    def _since(self, moment: float) -> str:
        return f"{self._clock.monotonic() - moment:.2f} s"

    # -- the story

    async def _start(self, cluster: LocalCluster) -> None:
        began = self._clock.monotonic()
        await cluster.start()
        names = ", ".join(f"{node.name} (process {_pid(node)})" for node in cluster.nodes)
        self._say(f"[green]start[/]    {names}: ready after {self._since(began)}")

    async def _under_load(self, cluster: LocalCluster, admin: AsyncAdmin, group: ReadingGroup) -> _Consumed:
        """What the group has read in the end."""
        await admin.create_topic(
            _TOPIC,
            partitions=len(_PARTITIONS),
            replication_factor=_NODES,
            # Small segments, so that kills meet rolls as well.
            configs={"min.insync.replicas": "2", "segment.bytes": "1MiB"},
        )
        self._say(
            f"[green]topic[/]    {len(_PARTITIONS)} partitions on {_NODES} nodes each, "
            f"min.insync.replicas=2; {_PRODUCERS} producers with acks=all, a group of {_CONSUMERS} consumers"
        )
        async with (
            group,
            LedgerLoad(
                cluster.bootstrap, _PARTITIONS, producers=_PRODUCERS, readers=0, history=self._history
            ) as load,
            self._progress(load, group),
        ):
            for number in range(_CONSUMERS):
                await group.join(f"consumer-{number + 1}")
            await self._write_for_a_while(load)
            await self._kill(cluster, admin, load, is_controller=False)
            await self._join(group)
            await self._write_for_a_while(load)
            await self._kill(cluster, admin, load, is_controller=True)
            await self._write_for_a_while(load)
            await load.end()
            listed = await admin.list_offsets(_TOPIC)
            ends = {each: Offset(listed[each].offset or 0) for each in _PARTITIONS}
            await group.reads_to(ends)
            group.has_read_all()
        # Before anybody else reads: what the group has missed is not made up for.
        findings = [*group.rivals(), *await _uncommitted(admin, ends)]
        return _Consumed(group.seen(), group.repeated_count(), findings)

    async def _join(self, group: ReadingGroup) -> None:
        began = self._clock.monotonic()
        name = f"consumer-{_CONSUMERS + 1}"
        given = await group.join(name)
        self._say(
            f"[green]join[/]     {name}: has partitions {_listed(given)} after {self._since(began)}; "
            "the others are read on meanwhile"
        )

    async def _write_for_a_while(self, load: LedgerLoad) -> None:
        before, began = load.acknowledged_count, self._clock.monotonic()
        await self._clock.sleep(self.seconds)
        count = load.acknowledged_count - before
        self._say(f"[cyan]write[/]    {count:,} records acknowledged in {self._since(began)}")

    async def _kill(
        self, cluster: LocalCluster, admin: AsyncAdmin, load: LedgerLoad, *, is_controller: bool
    ) -> None:
        """A leader, under load; then let it come back, and wait until all replicas are in sync."""
        controller = (await admin.describe_cluster()).controller
        coordinator = (await admin.describe_group(_GROUP)).coordinator
        topic = await admin.describe_topic(_TOPIC)
        candidates = [
            node
            for node in cluster.nodes
            if (node.id == controller) == is_controller and _led_by(node.id, topic)
        ]
        victim = min(candidates, key=lambda node: node.id != coordinator)
        led = _led_by(victim.id, topic)
        others = [each for each in _PARTITIONS if each not in led]
        killed_at = self._clock.monotonic()
        on_the_way = load.unanswered_count
        await cluster.kill(victim.name)
        offices = "the active controller, " if is_controller else ""
        offices += "the coordinator of the group, " if victim.id == coordinator else ""
        self._say(
            f"[red]kill -9[/]  {victim.name} (process {_pid(victim)}), {offices}the leader of partitions "
            f"{_listed(led)}; {on_the_way:,} records on their way"
        )
        theirs, rest = await asyncio.gather(self._acknowledged(load, led), self._acknowledged(load, others))
        self._say(
            f"[green]failover[/] partitions {_listed(led)} acknowledge again after "
            f"{theirs - killed_at:.2f} s, the others after {rest - killed_at:.2f} s"
        )
        began = self._clock.monotonic()
        await cluster.start([victim.name])
        serves = self._since(began)
        await until_whole(admin, _TOPIC)
        self._say(
            f"[green]restart[/]  {victim.name}: serves after {serves}, "
            f"in sync again after {self._since(began)}"
        )

    async def _acknowledged(self, load: LedgerLoad, partitions: Sequence[TopicPartition]) -> float:
        """When each of them had acknowledged a record that was sent from now on."""
        await load.acknowledges(1, partitions=partitions)
        return self._clock.monotonic()

    # -- the proof

    async def _ask(self, cluster: LocalCluster, admin: AsyncAdmin) -> Answers:
        answers = await ask(Reach.of(cluster), self._history, [_TOPIC])
        topic = await admin.describe_topic(_TOPIC)
        elections = sum(partition.leader_epoch for partition in topic.partitions)
        unclean = sum(len(answer.unclean_leader_epochs) for answer in answers.values())
        outcomes = self._history.outcomes()
        self._say(
            f"[cyan]in all[/]   {outcomes[Outcome.ACKNOWLEDGED]:,} records acknowledged, "
            f"{outcomes[Outcome.REFUSED]:,} refused, {outcomes[Outcome.UNKNOWN]:,} without an answer; "
            f"{elections} elections, {unclean} of them unclean"
        )
        if unclean:
            self._findings.append(f"{unclean} unclean elections")
        return answers

    def _prove_consumed(self, consumed: _Consumed) -> None:
        self._findings += [f"consumed: {finding}" for finding in consumed.findings]
        if self._holds("consumed", consumed.seen) and not consumed.findings:
            twice = f"{consumed.repeated_count:,} again" if consumed.repeated_count else "none twice"
            self._say(
                f"[green]read[/]     {_record_count(consumed.seen):,} records by the group meanwhile: "
                f"each acknowledged one at its offset, in order, {twice}; committed to the last one"
            )

    def _verify_files(self, cluster: LocalCluster, answers: Answers) -> None:
        if not answers:
            return
        self._findings += _damage(cluster)
        final = read_files(Reach.of(cluster), answers)
        copies = [copy for partition in final.partitions.values() for copy in partition.copies.values()]
        batches = sum(len(copy.batches) for copy in copies)
        if self._holds("on disk", final):
            self._say(
                f"[green]verify[/]   {len(copies)} replicas on disk, {batches:,} batches: sound, "
                f"the same bytes on every node, {_record_count(final):,} records"
            )

    def _holds(self, where: str, final: FinalState) -> bool:
        """Whether all that clients were told is so there."""
        failed = [verdict for verdict in check_all(self._history, final) if not verdict.passed]
        self._findings += [
            f"{where}: {verdict.check}: {finding}" for verdict in failed for finding in verdict.findings
        ]
        return not failed

    # -- around it

    @asynccontextmanager
    async def _progress(self, load: LedgerLoad, group: ReadingGroup) -> AsyncIterator[None]:
        """Live counts on a terminal; nothing elsewhere."""
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        hidden = not self.console.is_terminal
        with Progress(*columns, console=self.console, transient=True, disable=hidden) as bar:
            task = bar.add_task("writing")

            async def watch() -> None:
                while True:
                    consumed = sum(group.positions.values())
                    bar.update(
                        task,
                        description=f"{load.acknowledged_count:,} acknowledged, {consumed:,} consumed, "
                        f"{load.unanswered_count:,} on their way",
                    )
                    await self._clock.sleep(_PROGRESS_S)

            watching = asyncio.create_task(watch())
            try:
                yield
            finally:
                watching.cancel()


class _Consumed(NamedTuple):
    seen: FinalState
    repeated_count: int
    #: what a group promises, and this one did not do
    findings: list[str]


async def _uncommitted(admin: AsyncAdmin, ends: Mapping[TopicPartition, Offset]) -> list[str]:
    """The group's members have committed and left: it would go on at the ends, neither before nor behind."""
    committed = await admin.list_group_offsets(_GROUP)
    found = {each: committed[each].offset if each in committed else 0 for each in ends}
    return [
        f"{each}: {found[each]} is committed, and all was read up to {end}"
        for each, end in ends.items()
        if found[each] != end
    ]


def _led_by(node_id: int, topic: TopicDescription) -> list[TopicPartition]:
    led = {each.partition for each in topic.partitions if each.leader == node_id}
    return [each for each in _PARTITIONS if each.partition in led]


def _pid(node: ClusterNode) -> int:
    assert node.process is not None  # it was started
    return node.process.pid


def _listed(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(str(each.partition) for each in partitions)


def _record_count(final: FinalState) -> int:
    return sum(len(partition.records) for partition in final.partitions.values())


def _damage(cluster: LocalCluster) -> Iterator[str]:
    """What ``quorate log verify`` would call damage, in indexes and checkpoints, too."""
    disk = OsDisk(read_only=True)
    try:
        for node in cluster.nodes:
            for report in verify(disk, node.data_dir):
                for problem in report.problems:
                    if problem.kind is ProblemKind.DAMAGE:
                        yield f"on disk: {node.name}: {problem.path}: {problem.reason}"
    finally:
        disk.close()
