"""The metadata quorum on real processes: commit latency, changes per second, failover.

Commit latency is measured inside the process that leads, from the decision to the commit of its records, in
turns with the two things it cannot do without: one small append with its fdatasync, on the same disk, and one
round trip by gRPC on loopback, to a follower. Changes per second are counted there as well, with many under
way at once. What clients see stands beside it, of a quorum that was started as anybody would start it, at the
defaults: their rate is bounded by the calls, one for each change, more than by the quorum.

    python -m bench.quorum
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from bench.figure import Figure, show
from quorate.chaos.quorum_drills.fake_brokers import (
    FAKE_BROKER_SETTINGS,
    BrokerSession,
    register_fake_brokers,
)
from quorate.chaos.quorum_drills.voters import DrillVoters
from quorate.chaos.raft_control.latency import measure_commit_latencies
from quorate.errors import QuorateError
from quorate.node.cluster_layout import HOST, free_ports
from quorate.node.local_cluster import LocalCluster
from quorate.v1 import controller_pb2

__all__ = ["run"]

VOTERS: Final = 3
COMMITS: Final = 2_000
RATE_S: Final = 5.0
IN_FLIGHT: Final = 256
CLIENT_PROCESSES: Final = 2
FAILOVERS: Final = 10
_STARTED_WITHIN_S: Final = 60.0
_POLL_S: Final = 0.01
_LINE_BYTES_MAX: Final = 16 << 20


# --- inside the leader --------------------------------------------------------------------------------


class _Voter:
    """A process that runs ``bench.quorum_voter``."""

    def __init__(self, process: asyncio.subprocess.Process, address: str) -> None:
        self._process = process
        self.address = address

    async def ask(self, request: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(request.encode() + b"\n")
        answer: dict[str, Any] = json.loads(await self._process.stdout.readline())
        return answer

    async def end(self) -> None:
        self._process.kill()
        await self._process.wait()


@contextlib.asynccontextmanager
async def _measuring_voters() -> AsyncIterator[tuple[_Voter, _Voter]]:
    """The one that leads, and one that follows."""
    directory = tempfile.mkdtemp(prefix="quorate-bench-")
    addresses = [f"{HOST}:{port}" for port in free_ports(VOTERS)]
    founders = ",".join(f"{number}@{address}" for number, address in enumerate(addresses, start=1))
    voters = []
    try:
        for number, address in enumerate(addresses, start=1):
            own = f"{directory}/{number}"
            os.mkdir(own)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "bench.quorum_voter", str(number), founders, own),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_LINE_BYTES_MAX,
            )
            voters.append(_Voter(process, address))
        leader = await _active(voters)
        yield leader, next(voter for voter in voters if voter is not leader)
    finally:
        for voter in voters:
            await voter.end()
        shutil.rmtree(directory)


async def _active(voters: list[_Voter]) -> _Voter:
    async with asyncio.timeout(_STARTED_WITHIN_S):
        while True:
            for voter in voters:
                if (await voter.ask("status"))["is_active"]:
                    return voter
            await asyncio.sleep(_POLL_S)


async def latency_figures() -> list[Figure]:
    async with _measuring_voters() as (leader, follower):
        measured = await leader.ask(f"latencies {COMMITS} {follower.address}")
        rate = await leader.ask(f"rate {RATE_S} {IN_FLIGHT}")
    sync, round_trip, commit = (_p50_ms(measured[name]) for name in ("sync_s", "round_trip_s", "commit_s"))
    p99 = statistics.quantiles(measured["commit_s"], n=100)[98] * 1e3
    control = await measure_commit_latencies()
    changes = rate["changes"] / rate["seconds"]
    return [
        Figure.at_most(
            "commit latency p50 / (fdatasync + gRPC round trip)",
            commit / (sync + round_trip),
            "x",
            2.0,
            f"{commit:.2f} ms (p99 {p99:.2f}) against {sync:.2f} + {round_trip:.2f} ms, {COMMITS:,} in turns",
        ),
        Figure.at_most(
            "commit latency p50 of pysyncobj, tuned",
            _p50_ms(control),
            "ms",
            None,
            "nothing is synced, no file at all",
        ),
        Figure.against(
            "changes per second",
            changes,
            "/s",
            2_000,
            f"{IN_FLIGHT} decided and committed at a time, {RATE_S:g} s",
        ),
    ]


def _p50_ms(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1e3


# --- as clients see it --------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _quorum() -> AsyncIterator[tuple[DrillVoters, str, BrokerSession]]:
    """As `quorate up` starts it, the controller that is active, and a broker that may ask it for changes."""
    async with LocalCluster.create(controllers=VOTERS, brokers=0, settings=FAKE_BROKER_SETTINGS) as cluster:
        voters = DrillVoters(cluster)
        try:
            controller = voters.name_of((await voters.describe_quorum()).leader)
            [broker] = await register_fake_brokers(voters, controller, 1)
            yield voters, controller, broker
        finally:
            await voters.close()


async def _change(voters: DrillVoters, controller: str, broker: BrokerSession, timeout_s: float = 10) -> None:
    request = controller_pb2.AllocateProducerIdsRequest(
        broker_id=broker.broker_id, broker_epoch=broker.broker_epoch
    )
    await voters.control(controller, "AllocateProducerIds", request, timeout_s=timeout_s)


async def client_figures() -> list[Figure]:
    async with _quorum() as (voters, controller, broker):
        latencies = []
        for _ in range(COMMITS // 2):
            began = time.perf_counter()
            await _change(voters, controller, broker)
            latencies.append(time.perf_counter() - began)
        address = voters.address(controller)
        ceiling = await _rate_of_processes(address, broker, "DescribeImage")
        rate = await _rate_of_processes(address, broker, "AllocateProducerIds")
        failovers = [await _failover_s(voters, broker) for _ in range(FAILOVERS)]
    how = (
        f"{CLIENT_PROCESSES} processes, {IN_FLIGHT} calls in flight, one change each; "
        f"calls that change nothing: {ceiling:,.0f}/s"
    )
    return [
        Figure.at_most(
            "latency of a change, at a client", _p50_ms(latencies), "ms", None, f"p50 of {len(latencies):,}"
        ),
        Figure.against("changes of concurrent clients, by gRPC", rate, "/s", None, how),
        Figure.at_most(
            "failover after kill -9 of the leader",
            max(failovers),
            "s",
            1.5,
            f"the longest of {FAILOVERS} in a row; median {statistics.median(failovers):.2f} s; "
            "until a change is acknowledged again",
        ),
    ]


async def _rate_of_processes(address: str, broker: BrokerSession, method: str) -> float:
    """Clients in processes of their own: one event loop would measure itself."""
    command = [sys.executable, "-m", "bench.quorum_client", address, method]
    arguments = (broker.broker_id, broker.broker_epoch, RATE_S, IN_FLIGHT // CLIENT_PROCESSES)
    clients = [
        await asyncio.create_subprocess_exec(*command, *map(str, arguments), stdout=asyncio.subprocess.PIPE)
        for _ in range(CLIENT_PROCESSES)
    ]
    printed = await asyncio.gather(*(client.communicate() for client in clients))
    return sum(float(output) for output, _ in printed)


async def _failover_s(voters: DrillVoters, broker: BrokerSession) -> float:
    """From the signal until somebody else has committed a change; then all voters are there again."""
    leader = voters.name_of((await voters.describe_quorum()).leader)
    began = time.perf_counter()
    await voters.kill(leader)
    seconds = await _until_changed(voters, broker) - began
    await voters.start(leader)
    await _until_all_follow(voters)
    return seconds


async def _until_changed(voters: DrillVoters, broker: BrokerSession) -> float:
    while True:
        for name in voters.running:
            with contextlib.suppress(QuorateError):
                await _change(voters, name, broker, timeout_s=1.0)
                return time.perf_counter()
        await asyncio.sleep(_POLL_S)


async def _until_all_follow(voters: DrillVoters) -> None:
    async with asyncio.timeout(_STARTED_WITHIN_S):
        while True:
            with contextlib.suppress(QuorateError):
                states = [voter.state for voter in (await voters.describe_quorum()).voters]
                if sorted(states) == ["follower"] * (VOTERS - 1) + ["leader"]:
                    return
            await asyncio.sleep(_POLL_S)


async def run() -> list[Figure]:
    return [*await latency_figures(), *await client_figures()]


if __name__ == "__main__":
    show("The metadata quorum", asyncio.run(run()))
