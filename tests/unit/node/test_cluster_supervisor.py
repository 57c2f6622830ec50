"""What counts as the death of a node, and when it is started again. On simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from quorate.chaos.sim.clock import run_simulation
from quorate.errors import CannotListen
from quorate.node.cluster_file import ClusterNode, ClusterState
from quorate.node.local_cluster import LocalCluster
from quorate.node.process_identity import ProcessIdentity
from quorate.node.supervisor import Death, Supervisor

#: no process ever has it, so nobody is waited for
PID = 1 << 30


class FakeProcess:
    """Stands in for a ProcessIdentity."""

    def __init__(self, number: int) -> None:
        self.pid = PID + number
        self.is_running = True


@dataclass
class FakeCluster:
    """One node; ``starts`` are the times at which it was started again."""

    log_file: str
    starts: list[float] = field(default_factory=list)
    lifetime_s: float | None = None
    refuses_to_start: bool = False
    processes: list[FakeProcess] = field(default_factory=list)

    def __post_init__(self) -> None:
        node = ClusterNode("n", 1, ("controller",), "h:1", "/data", self.log_file, is_wanted=True)
        self.state = ClusterState("c", (node,), "", {})
        self.run()

    def run(self) -> None:
        process = FakeProcess(len(self.processes))
        self.processes.append(process)
        self.change(process=cast(ProcessIdentity, process))

    def change(self, **changes: Any) -> None:
        [node] = self.state.nodes
        self.state = self.state.with_node(replace(node, **changes))

    def die(self) -> None:
        self.processes[-1].is_running = False

    def forget(self, _name: str, process: ProcessIdentity) -> None:
        if self.state.nodes[0].process is process:
            self.change(process=None)

    def start_again(self, _name: str) -> bool:
        loop = asyncio.get_running_loop()
        self.starts.append(round(loop.time(), 1))
        if self.refuses_to_start:
            raise CannotListen("taken")
        self.run()
        if self.lifetime_s is not None:
            loop.call_later(self.lifetime_s, self.die)
        return True


@dataclass
class Watch:
    cluster: FakeCluster
    deaths: list[Death] = field(default_factory=list)
    failures: int = 0

    def count_failure(self, *_: object) -> None:
        self.failures += 1


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    log = tmp_path / "node.log"
    log.write_text("last words\n")
    return FakeCluster(str(log))


def watch(
    cluster: FakeCluster, scenario: Callable[[Watch], Awaitable[None]], *, restarts: bool = False
) -> Watch:
    async def run() -> Watch:
        seen = Watch(cluster)
        supervisor = Supervisor(
            cast(LocalCluster, cluster),
            restarts=restarts,
            on_death=seen.deaths.append,
            on_failed_restart=seen.count_failure,
        )
        task = asyncio.create_task(supervisor.run())
        await asyncio.sleep(1)
        await scenario(seen)
        cluster.die()
        cluster.change(is_wanted=False)
        cluster.state = replace(cluster.state, is_down=True)
        await task
        return seen

    return run_simulation(lambda _simulation: run(), seed=1)


def test_death_is_reported_once_with_the_last_words_and_left_alone(cluster: FakeCluster) -> None:
    async def scenario(_seen: Watch) -> None:
        cluster.die()
        await asyncio.sleep(100)

    [death] = watch(cluster, scenario).deaths
    assert (death.pid, death.log_tail, death.restart_in_s) == (PID, "last words", None)
    assert cluster.starts == []
    assert cluster.state.nodes[0].process is None


def test_death_that_somebody_else_has_noted_already_is_reported(cluster: FakeCluster) -> None:
    async def scenario(_seen: Watch) -> None:
        cluster.die()
        cluster.change(process=None)
        await asyncio.sleep(1)

    assert len(watch(cluster, scenario).deaths) == 1


def test_node_that_was_stopped_or_replaced_on_purpose_has_not_died(cluster: FakeCluster) -> None:
    async def scenario(_seen: Watch) -> None:
        cluster.change(is_wanted=False)
        cluster.die()
        await asyncio.sleep(1)
        cluster.change(process=None)
        await asyncio.sleep(1)
        cluster.change(is_wanted=True)
        cluster.run()
        await asyncio.sleep(1)
        cluster.die()
        cluster.run()
        await asyncio.sleep(1)

    assert watch(cluster, scenario, restarts=True).deaths == []
    assert cluster.starts == []


def test_process_that_was_never_seen_alive_has_died_all_the_same(cluster: FakeCluster) -> None:
    async def scenario(_seen: Watch) -> None:
        cluster.run()
        cluster.die()
        await asyncio.sleep(1)

    assert len(watch(cluster, scenario).deaths) == 1


def test_node_that_keeps_dying_is_started_again_less_and_less_often(cluster: FakeCluster) -> None:
    cluster.lifetime_s = 0.0

    async def scenario(_seen: Watch) -> None:
        cluster.die()
        await asyncio.sleep(150)

    watch(cluster, scenario, restarts=True)
    pauses = [
        round(later - earlier) for earlier, later in zip(cluster.starts, cluster.starts[1:], strict=False)
    ]
    assert pauses[:5] == [2, 4, 8, 16, 30]
    assert set(pauses[5:]) == {30}


def test_node_that_lived_for_long_is_started_again_soon(cluster: FakeCluster) -> None:
    cluster.lifetime_s = 100.0

    async def scenario(_seen: Watch) -> None:
        cluster.die()
        await asyncio.sleep(450)

    seen = watch(cluster, scenario, restarts=True)
    assert len(seen.deaths) == 5
    assert {death.restart_in_s for death in seen.deaths} == {1.0}


def test_restart_that_fails_is_told_and_tried_again(cluster: FakeCluster) -> None:
    cluster.refuses_to_start = True

    async def scenario(_seen: Watch) -> None:
        cluster.die()
        await asyncio.sleep(10)

    seen = watch(cluster, scenario, restarts=True)
    assert (len(seen.deaths), seen.failures) == (1, 3)


def test_node_that_is_stopped_while_its_restart_waits_stays_down(cluster: FakeCluster) -> None:
    async def scenario(_seen: Watch) -> None:
        cluster.die()
        await asyncio.sleep(0.5)
        cluster.change(is_wanted=False)
        await asyncio.sleep(10)

    watch(cluster, scenario, restarts=True)
    assert cluster.starts == []
