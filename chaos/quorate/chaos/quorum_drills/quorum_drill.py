"""One drill: a quorum of real processes under load, one kind of fault again and again, then the checks.

Faults must leave one good copy of everything that was acknowledged, or losing it would be right. Those that
damage a disk therefore wait, with the voter stopped, until the others have acknowledged changes without it:
what was acknowledged before is then on a majority that does not need the damaged one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from quorate.chaos.live.committed_metadata import committed_metadata
from quorate.chaos.quorum_drills.fake_brokers import FAKE_BROKER_SETTINGS, register_fake_brokers
from quorate.chaos.quorum_drills.metadata_ledger import MetadataLedger
from quorate.chaos.quorum_drills.metadata_load import MetadataLoad
from quorate.chaos.quorum_drills.voters import DrillVoters
from quorate.errors import QuorateError
from quorate.metadata.digest import digest_to_bytes, full_digest
from quorate.node.local_cluster import LocalCluster

__all__ = ["QuorumDrill", "QuorumDrillReport", "QuorumFault", "run_quorum_drill"]

#: before each strike, so that it strikes a quorum under load
_CHANGES_BEFORE: Final = 50
_BROKERS: Final = 3
#: for a quorum that has all its voters to acknowledge changes; an election takes about a second
_HEAL_TIMEOUT_S: Final = 30.0
#: each look costs every voter a new connection
_POLL_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class QuorumFault:
    name: str
    voters: int
    strike: Callable[[QuorumDrill], Awaitable[None]]
    settings: Mapping[str, str] = field(default_factory=dict)
    #: events that the voters' logs must hold afterwards, or the fault was none
    signs: tuple[str, ...] = ()
    #: errors that may be logged besides
    may_leave: tuple[str, ...] = ()


@dataclass(slots=True)
class QuorumDrillReport:
    faults: str
    voters: int
    strikes: int = 0
    acknowledged: int = 0
    unknown: int = 0
    reads: int = 0
    longest_gap_s: float = 0.0
    #: each check, and what it found wrong; nothing: it passed
    findings: dict[str, list[str]] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return not any(self.findings.values())

    def __str__(self) -> str:
        if self.passed:
            return f"{self.faults}, {self.voters} voters: {self.acknowledged:,} changes, nothing wrong"
        wrong = [f"  {check}: {each}" for check, found in self.findings.items() for each in found]
        return "\n".join([f"{self.faults}, {self.voters} voters:", *wrong])


class QuorumDrill:
    """What a fault may do and look at."""

    def __init__(self, voters: DrillVoters, ledger: MetadataLedger, load: MetadataLoad) -> None:
        self.voters = voters
        self.cluster = voters.cluster
        self.load = load
        self.ledger = ledger
        #: of the fault itself: what it expected and did not get
        self.findings: list[str] = []

    def expect(self, is_so: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as a sentence
        if not is_so:
            self.findings.append(otherwise)

    async def leader(self) -> str:
        async with asyncio.timeout(_HEAL_TIMEOUT_S):
            while True:
                try:
                    return self.voters.name_of((await self.voters.describe_quorum()).leader)
                except QuorateError:
                    await asyncio.sleep(_POLL_S)

    async def followers(self) -> list[str]:
        leader = await self.leader()
        return [name for name in self.voters.names if name != leader]

    async def acknowledges(self, count: int = 1) -> None:
        """The quorum as it is now serves changes, this many at least."""
        if not await self.load.acknowledged(count, within_s=_HEAL_TIMEOUT_S):
            self.findings.append(f"{count} changes were not acknowledged within {_HEAL_TIMEOUT_S:g} s")

    async def until_all_vote(self) -> None:
        """Every voter is there, counts, and has caught up with what was committed by now."""
        async with asyncio.timeout(_HEAL_TIMEOUT_S):
            goal = None
            while True:
                try:
                    quorum = await self.voters.describe_quorum()
                except QuorateError:
                    await asyncio.sleep(_POLL_S)
                    continue
                goal = goal or quorum.commit_index
                states = {each.state for each in quorum.voters}
                if states <= {"leader", "follower"} and min(v.match_index for v in quorum.voters) >= goal:
                    return
                await asyncio.sleep(_POLL_S)

    async def is_taken_back(self, name: str) -> bool:
        """Waits until the voter follows again, or the leader will have nothing to do with it."""
        node_id = self.voters.node_id(name)
        async with asyncio.timeout(_HEAL_TIMEOUT_S):
            while True:
                with suppress(QuorateError):
                    voters = (await self.voters.describe_quorum()).voters
                    state = next(voter.state for voter in voters if voter.node_id == node_id)
                    if state in ("follower", "refused"):
                        return state == "follower"
                await asyncio.sleep(_POLL_S)


async def run_quorum_drill(
    faults: Sequence[QuorumFault],
    *,
    seconds: float,
    clients: int,
    seed: int = 1,
    on_strike: Callable[[int], None] = lambda _: None,
) -> QuorumDrillReport:
    """Strikes with each in turn until the time is up, at least once."""
    [voters_count] = {fault.voters for fault in faults}
    settings = dict(FAKE_BROKER_SETTINGS)
    for fault in faults:
        settings.update(fault.settings)
    report = QuorumDrillReport(", ".join(fault.name for fault in faults), voters_count)
    async with LocalCluster.create(controllers=voters_count, brokers=0, settings=settings) as cluster:
        voters = DrillVoters(cluster)
        try:
            drill = await _begin(voters, clients=clients, seed=seed)
            await _strike(drill, faults, report, seconds=seconds, on_strike=on_strike)
            await _judge(drill, faults, report)
        finally:
            await voters.close()
    return report


async def _begin(voters: DrillVoters, *, clients: int, seed: int) -> QuorumDrill:
    controller = voters.name_of((await voters.describe_quorum()).leader)
    brokers = await register_fake_brokers(voters, controller, _BROKERS)
    ledger = MetadataLedger()
    return QuorumDrill(voters, ledger, MetadataLoad(voters, ledger, brokers, clients=clients, seed=seed))


async def _strike(
    drill: QuorumDrill,
    faults: Sequence[QuorumFault],
    report: QuorumDrillReport,
    *,
    seconds: float,
    on_strike: Callable[[int], None],
) -> None:
    drill.load.start()
    try:
        end = time.monotonic() + seconds
        while report.strikes == 0 or time.monotonic() < end:
            for fault in faults:
                await drill.acknowledges(_CHANGES_BEFORE)
                await fault.strike(drill)
                report.strikes += 1
                on_strike(report.strikes)
        await drill.acknowledges()
    finally:
        await drill.load.stop()


async def _judge(drill: QuorumDrill, faults: Sequence[QuorumFault], report: QuorumDrillReport) -> None:
    await drill.until_all_vote()
    ledger = drill.ledger
    report.acknowledged, report.unknown, report.reads = ledger.acknowledged, ledger.unknown, ledger.reads
    report.longest_gap_s = drill.load.longest_gap_s
    while_it_ran = list(ledger.findings)
    ledger.findings.clear()
    differing = await _compare_all(drill.voters, ledger)
    signs = {event for fault in faults for event in fault.signs}
    allowed = signs.union(event for fault in faults for event in fault.may_leave)
    events = drill.voters.log_events()
    missing = [f"no voter has logged {event}" for event in sorted(signs) if event not in events]
    report.findings = {
        "answers, reads": while_it_ran,
        "lost, invented": ledger.findings,
        "images": differing,
        "fault": drill.findings + missing,
        "errors logged": [
            event for event, level in sorted(events.items()) if level == "error" and event not in allowed
        ],
    }


async def _compare_all(voters: DrillVoters, ledger: MetadataLedger) -> list[str]:
    """Every voter's image with the ledger; returns how they differ from one another."""
    offset, digests = await _settled_digests(voters)
    findings = [] if len(set(digests.values())) == 1 else [f"digests at {offset} differ: {digests}"]
    for name in voters.names:
        # As that voter serves it to brokers.
        image = await committed_metadata(voters.transport, [voters.address(name)], offset)
        if digest_to_bytes(full_digest(image)).hex() != digests[name]:
            findings.append(f"{name} serves another image than its digest is of")
        ledger.compare(image, name)
    return findings


async def _settled_digests(voters: DrillVoters) -> tuple[int, dict[str, str]]:
    """Once nothing changes any more, all voters are at the same offset."""
    async with asyncio.timeout(_HEAL_TIMEOUT_S):
        while True:
            try:
                images = {name: await voters.describe_image(name) for name in voters.names}
            except QuorateError:
                images = {}
            if len({image.offset for image in images.values()}) == 1:
                offset = images[voters.names[0]].offset
                return offset, {name: image.digest for name, image in images.items()}
            await asyncio.sleep(_POLL_S)
