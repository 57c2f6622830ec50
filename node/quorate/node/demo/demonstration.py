"""The story: three nodes under load, two of them killed one after the other, and every record accounted for.

Every node is a broker and a voter, so three processes are a whole cluster, and the second victim is the
active controller: both ways to lose a leader are seen. Times are what the defaults give; nothing is tuned.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from quorate.client import AsyncAdmin
from quorate.client.admin.types import TopicDescription
from quorate.core.clock import SystemClock
from quorate.errors import QuorateError
from quorate.node.cluster_file import ClusterNode
from quorate.node.demo.ledger import Ledger, Proof
from quorate.node.demo.load import TOPIC, Reading, Writing, reading, writing
from quorate.node.demo.replica_files import prove_files
from quorate.node.local_cluster import LocalCluster

__all__ = ["Demonstration"]

_NODES: Final = 3
_PARTITIONS: Final = 6
_PRODUCERS: Final = 3
_CONSUMERS: Final = 2
_FAULTS_SHOWN_MAX: Final = 20
_POLL_S: Final = 0.1


@dataclass(slots=True)
class Demonstration:
    console: Console
    directory: str
    #: how long it writes before, between and after the kills
    seconds: float
    _clock: SystemClock = field(default_factory=SystemClock)
    _ledgers: list[Ledger] = field(default_factory=lambda: [Ledger(number) for number in range(_PARTITIONS)])
    _faults: list[str] = field(default_factory=list)

    async def run(self) -> bool:
        """Whether the proof held."""
        self._say("[bold]Quorate[/]: nodes are killed under load. Nothing acknowledged may be lost.")
        cluster = LocalCluster.create(f"{self.directory}/cluster", brokers=_NODES, is_combined=True)
        try:
            await self._start(cluster)
            async with AsyncAdmin(cluster.bootstrap) as admin:
                await self._under_load(cluster, admin)
        finally:
            killed = await cluster.stop()
        self._say("[green]stop[/]     every node, by SIGTERM")
        self._faults += [f"{name} did not stop when it was asked to" for name in killed]
        self._prove_files(cluster)
        for fault in self._faults[:_FAULTS_SHOWN_MAX]:
            self._say(f"[red]fault[/]    {fault}")
        if self._faults:
            self._say(f"[bold red]The proof FAILED[/]: the files are kept in {self.directory}")
        else:
            self._say("[bold green]The proof holds[/]: two leaders killed, nothing lost, nothing twice.")
        return not self._faults

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)

    async def _start(self, cluster: LocalCluster) -> None:
        began = self._clock.monotonic()
        await cluster.start()
        names = ", ".join(f"{node.name} (process {_pid(node)})" for node in cluster.nodes)
        self._say(f"[green]start[/]    {names}: ready after {self._since(began)}")

    def _since(self, moment: float) -> str:
        return f"{self._clock.monotonic() - moment:.2f} s"

    async def _under_load(self, cluster: LocalCluster, admin: AsyncAdmin) -> None:
        await admin.create_topic(
            TOPIC,
            partitions=_PARTITIONS,
            replication_factor=_NODES,
            # Small segments, so that kills meet rolls as well.
            configs={"min.insync.replicas": "2", "segment.bytes": "1MiB"},
        )
        self._say(
            f"[green]topic[/]    {_PARTITIONS} partitions on {_NODES} nodes each, min.insync.replicas=2; "
            f"{_PRODUCERS} producers with acks=all, {_CONSUMERS} consumers"
        )
        partitions = range(_PARTITIONS)
        async with (
            reading(cluster.bootstrap, partitions, consumers=_CONSUMERS) as consumed,
            writing(cluster.bootstrap, self._ledgers, self._clock, producers=_PRODUCERS) as load,
            self._progress(load, consumed),
        ):
            await self._write_for_a_while(load)
            await self._kill(cluster, admin, load, is_controller=False)
            await self._write_for_a_while(load)
            await self._kill(cluster, admin, load, is_controller=True)
            await self._write_for_a_while(load)
            await load.finish()
            await self._tell_end(cluster, admin, load)
            await consumed.until({ledger.partition: _end_of(ledger) for ledger in self._ledgers})
        self._prove_consumed(consumed)

    async def _write_for_a_while(self, load: Writing) -> None:
        before, began = load.acknowledged_count, self._clock.monotonic()
        await self._clock.sleep(self.seconds)
        count = load.acknowledged_count - before
        self._say(f"[cyan]write[/]    {count:,} records acknowledged in {self._since(began)}")

    async def _kill(
        self, cluster: LocalCluster, admin: AsyncAdmin, load: Writing, *, is_controller: bool
    ) -> None:
        """A leader, under load; then let it come back, and wait until all replicas are in sync."""
        controller = (await admin.describe_cluster()).controller
        topic = await admin.describe_topic(TOPIC)
        victim = next(
            node
            for node in cluster.nodes
            if (node.id == controller) == is_controller and _led_by(node.id, topic)
        )
        led = _led_by(victim.id, topic)
        others = [partition for partition in range(_PARTITIONS) if partition not in led]
        killed_at = self._clock.monotonic()
        on_the_way = load.unanswered_count
        await cluster.kill(victim.name)
        gone_at = self._clock.monotonic()
        office = "the active controller, and " if is_controller else ""
        self._say(
            f"[red]kill -9[/]  {victim.name} (process {_pid(victim)}), {office}the leader of partitions "
            f"{_listed(led)}; {on_the_way:,} records on their way"
        )
        theirs, rest = await asyncio.gather(
            load.until_acknowledged(led, since=gone_at), load.until_acknowledged(others, since=gone_at)
        )
        self._say(
            f"[green]failover[/] partitions {_listed(led)} acknowledge again after "
            f"{theirs - killed_at:.2f} s, the others after {rest - killed_at:.2f} s"
        )
        began = self._clock.monotonic()
        await cluster.start([victim.name])
        serves = self._since(began)
        await _until_in_sync(admin)
        self._say(
            f"[green]restart[/]  {victim.name}: serves after {serves}, "
            f"in sync again after {self._since(began)}"
        )

    async def _tell_end(self, cluster: LocalCluster, admin: AsyncAdmin, load: Writing) -> None:
        await _until_in_sync(admin)
        topic = await admin.describe_topic(TOPIC)
        elections = sum(partition.leader_epoch for partition in topic.partitions)
        unclean = sum(map(_unclean_elections, (node.log_file for node in cluster.nodes)))
        refused = sum(len(ledger.refused) for ledger in self._ledgers)
        self._say(
            f"[cyan]in all[/]   {load.acknowledged_count:,} records acknowledged, {refused:,} refused, "
            f"{load.unanswered_count:,} without an answer; {elections} elections, {unclean} of them unclean"
        )
        if unclean:
            self._faults.append(f"{unclean} unclean elections")
        if load.acknowledged_count == 0:
            self._faults.append("nothing was acknowledged")

    def _prove_consumed(self, consumed: Reading) -> None:
        proof = Proof()
        for ledger in self._ledgers:
            proof.compare(ledger, consumed.records[ledger.partition])
        self._faults += [f"consumed: {fault}" for fault in proof.faults]
        if not proof.faults:
            self._say(
                f"[green]read[/]     {proof.records:,} records by the consumers meanwhile: "
                "each acknowledged one at its offset, in order, none twice"
            )

    def _prove_files(self, cluster: LocalCluster) -> None:
        found = prove_files({node.name: node.data_dir for node in cluster.nodes}, TOPIC, self._ledgers)
        if found.replicas != _NODES * _PARTITIONS:
            self._faults.append(f"{found.replicas} replicas on disk, not {_NODES * _PARTITIONS}")
        self._faults += [f"on disk: {fault}" for fault in found.faults]
        if not found.faults:
            self._say(
                f"[green]verify[/]   {found.replicas} replicas on disk, {found.batches:,} batches: sound, "
                f"the same bytes on every node, {found.records:,} records"
            )

    @asynccontextmanager
    async def _progress(self, load: Writing, consumed: Reading) -> AsyncIterator[None]:
        """Live counts on a terminal; nothing elsewhere."""
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        hidden = not self.console.is_terminal
        with Progress(*columns, console=self.console, transient=True, disable=hidden) as bar:
            task = bar.add_task("writing")

            async def watch() -> None:
                while True:
                    bar.update(
                        task,
                        description=f"{load.acknowledged_count:,} acknowledged, {consumed.count:,} consumed, "
                        f"{load.unanswered_count:,} on their way",
                    )
                    await self._clock.sleep(_POLL_S)

            watching = asyncio.create_task(watch())
            try:
                yield
            finally:
                watching.cancel()


async def _until_in_sync(admin: AsyncAdmin) -> None:
    while True:
        try:
            topic = await admin.describe_topic(TOPIC)
        except QuorateError as error:
            if not error.retriable:
                raise
        else:
            if all(len(partition.isr) == _NODES for partition in topic.partitions):
                return
        await asyncio.sleep(_POLL_S)


def _led_by(node_id: int, topic: TopicDescription) -> list[int]:
    return [each.partition for each in topic.partitions if each.leader == node_id]


def _pid(node: ClusterNode) -> int:
    assert node.process is not None  # it was started
    return node.process.pid


def _end_of(ledger: Ledger) -> int:
    return max(ledger.acknowledged, default=-1) + 1


def _listed(partitions: Iterable[int]) -> str:
    return ", ".join(map(str, partitions))


def _unclean_elections(log_file: str) -> int:
    """As its node has logged them, if it was the controller."""
    with open(log_file, encoding="utf-8") as file:
        return sum(
            json.loads(line)["event"] == "unclean_leader_election" for line in file if "unclean" in line
        )
