"""One drill of a peer: load, kill -9 of all nodes at once, all of them back, and what the checks say.

The load and the checks are those of our own drills. kill -9 ends processes, not machines: what they have
handed to the kernel stays, synced or not. So this fault asks whether a system finds its way back from what it
left behind in the middle of writing, not whether it syncs.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from quorate.chaos.checks.check_all import check_all
from quorate.chaos.checks.final_state import FinalPartition, FinalState
from quorate.chaos.checks.verdict import Verdict
from quorate.chaos.checks.violation import Violation
from quorate.chaos.history.by_partition import by_partition
from quorate.chaos.history.entries import Outcome
from quorate.chaos.history.history import History
from quorate.chaos.live.load import LedgerLoad
from quorate.chaos.peers.peer import Extent, Peer
from quorate.core.ids import Offset, PartitionId, TopicName, TopicPartition
from quorate.errors import QuorateError

__all__ = ["ACKNOWLEDGED_WITHIN_S", "LOAD", "Load", "PeerReport", "drill_peer"]

_FAULT: Final = "kill -9 of all nodes at once"

#: What takes a look inside a cluster, which nobody took here: their verdicts would say nothing.
_INSIDE: Final = frozenset(
    {
        "replicas-differ",
        "nonmonotonic-epoch",
        "split-brain",
        "unclean-election",
        "undetected-damage",
        "weak-acks",
    }
)
#: While all nodes run. A generous bound: what it is to find is a cluster that does not come back.
ACKNOWLEDGED_WITHIN_S: Final = 60.0
#: without a record, while there are more
_READ_TIMEOUT_S: Final = 60.0
_TOPIC: Final = TopicName("peer-drill")


@dataclass(frozen=True, slots=True)
class Load:
    producers: int = 2
    #: of all producers together
    records_per_s: float = 500.0
    value_bytes: int = 110
    partitions: int = 4
    #: between faults; a random share of it, so that they strike anywhere
    calm_s: float = 4.0


LOAD: Final = Load()


@dataclass(frozen=True, slots=True)
class PeerReport:
    name: str
    version: str
    settings: Mapping[str, str]
    seed: int
    #: how often all nodes were killed
    rounds: int
    verdicts: Sequence[Verdict]
    outcomes: Mapping[str, int]
    #: by all readers together
    records_read: int
    #: below the high watermarks in the end
    committed: int
    seconds: float

    @property
    def violations(self) -> Sequence[Verdict]:
        return [verdict for verdict in self.verdicts if not verdict.passed]


async def drill_peer(
    peer: Peer,
    history: History,
    *,
    seed: int,
    rounds: int,
    load: Load = LOAD,
    tell: Callable[[str], None],
) -> PeerReport:
    """Cluster, load, faults, proof."""
    rng = random.Random(f"peers {seed}")
    partitions = [TopicPartition(_TOPIC, PartitionId(number)) for number in range(load.partitions)]
    failures: list[Verdict] = []
    async with peer.laid_out():
        tell(f"{peer.name} {peer.version}: starting three nodes")
        await peer.start()
        await peer.create_topic(_TOPIC, load.partitions)
        await peer.until_whole(_TOPIC)
        began_s = history.now_s()
        struck = 0
        try:
            async with (
                _reading(peer, history, partitions),
                _load_of(peer, history, partitions, load) as writing,
            ):
                for struck in range(1, rounds + 1):
                    await _strike(peer, writing, history, calm_s=load.calm_s * rng.random())
                    tell(f"{peer.name}: round {struck} of {rounds}, {_told(history)}")
        except Violation as violation:
            failures.append(Verdict.of(violation))
        seconds = history.now_s() - began_s
        tell(f"{peer.name}: reading everything")
        verdicts = [*failures, *await _judged(peer, history, struck)]
    return _report(peer, history, verdicts, seed=seed, rounds=struck, seconds=seconds)


def _load_of(peer: Peer, history: History, partitions: Sequence[TopicPartition], load: Load) -> LedgerLoad:
    return LedgerLoad(
        "",
        partitions,
        producers=load.producers,
        records_per_s=load.records_per_s / load.producers,
        value_bytes=load.value_bytes,
        readers=0,
        history=history,
        sender=peer.sender,
    )


async def _strike(peer: Peer, writing: LedgerLoad, history: History, *, calm_s: float) -> None:
    await writing.acknowledges()
    await asyncio.sleep(calm_s)
    fault = history.inflict(_FAULT, "all")
    await peer.kill_all()
    await peer.start()
    history.heal(fault)
    await writing.acknowledges()
    await peer.until_whole(_TOPIC)


# -- readers


@asynccontextmanager
async def _reading(peer: Peer, history: History, partitions: Sequence[TopicPartition]) -> AsyncIterator[None]:
    """A reader beside the load, through all outages."""
    starts = dict.fromkeys(partitions, Offset(0))

    async def read() -> None:
        async with peer.reader(starts) as reader:
            assignment = history.assign("reader", starts)
            while True:
                history.polled(assignment, await reader.poll())

    reading = asyncio.create_task(read())
    try:
        yield
    finally:
        reading.cancel()
        await asyncio.wait([reading])
    if not reading.cancelled():
        reading.result()


async def _judged(peer: Peer, history: History, struck: int) -> list[Verdict]:
    """What cannot be read is a finding of its own, and leaves nothing to compare."""
    try:
        extents = await _watermarks(peer, history)
        read = await _read_all(peer, history, extents)
    except Violation as violation:
        return [Verdict.of(violation)]
    except QuorateError as error:
        unread = Violation(f"the cluster could not be read: {error!r}", check="unavailable")
        return [Verdict.of(unread)]
    partitions = {
        partition: FinalPartition(
            high_watermark=extent.high_watermark,
            records=read[partition],
            log_start_offset=extent.log_start_offset,
        )
        for partition, extent in extents.items()
    }
    final = FinalState(
        partitions,
        counters={_FAULT: struck},
        expected=(_FAULT,),
        acknowledged_within_s=ACKNOWLEDGED_WITHIN_S,
    )
    return [each for each in check_all(history, final) if each.check not in _INSIDE]


async def _watermarks(peer: Peer, history: History) -> Mapping[TopicPartition, Extent]:
    begun_s = history.now_s()
    extents = await peer.extents(_TOPIC)
    for partition, (log_start_offset, high_watermark) in extents.items():
        history.saw_watermark(partition, high_watermark, begun_s=begun_s, log_start_offset=log_start_offset)
    return extents


async def _read_all(
    peer: Peer, history: History, extents: Mapping[TopicPartition, Extent]
) -> dict[TopicPartition, dict[Offset, bytes]]:
    starts = {partition: extent.log_start_offset for partition, extent in extents.items()}
    read: dict[TopicPartition, dict[Offset, bytes]] = {partition: {} for partition in extents}
    behind = {partition for partition, (start, end) in extents.items() if start < end}
    assignment = history.assign("last reader", starts)
    async with peer.reader(starts) as reader:
        while behind:
            try:
                async with asyncio.timeout(_READ_TIMEOUT_S):
                    while not (polled := await reader.poll()):
                        pass
            except TimeoutError:
                names = ", ".join(map(str, sorted(behind)))
                message = f"no record within {_READ_TIMEOUT_S:g} s, and more in {names}"
                raise Violation(message, check="unseen") from None
            history.polled(assignment, polled)
            for partition, found in by_partition(polled).items():
                read[partition] |= {Offset(record.offset): record.value or b"" for record in found}
                if found[-1].offset + 1 >= extents[partition].high_watermark:
                    behind.discard(partition)
    history.caught_up(assignment)
    return read


# -- what comes out


def _told(history: History) -> str:
    outcomes = history.outcomes()
    return f"{outcomes[Outcome.ACKNOWLEDGED]} acknowledged, {outcomes[Outcome.UNKNOWN]} unknown"


def _report(
    peer: Peer,
    history: History,
    verdicts: Sequence[Verdict],
    *,
    seed: int,
    rounds: int,
    seconds: float,
) -> PeerReport:
    outcomes = history.outcomes()
    return PeerReport(
        name=peer.name,
        version=peer.version,
        settings=peer.settings,
        seed=seed,
        rounds=rounds,
        verdicts=verdicts,
        outcomes={outcome.value: outcomes[outcome] for outcome in Outcome},
        records_read=sum(len(poll.records) for poll in history.polls),
        committed=sum(seen.high_watermark for seen in history.watermarks),
        seconds=seconds,
    )
