"""What a change of a group costs its members, ours and Kafka's in turns.

24 partitions under a steady load, read by six members, each a process of its own. A seventh joins, leaves
again, and one is killed with -9 and replaced; again and again. Everything is read off what the members wrote
down (`bench.groups.timeline`). Settings are the defaults of both, but for two of the clients, which then mean
the same on both sides: offsets are committed every five seconds, and a new group begins at the start.

The bar is on the pauses as they are: of the partitions that keep their member, the longest, over all changes
and in the median of them. Below stands the longest pause of the same partitions in as long a time right
before each change: what the machine does by itself, on which a bar is missed or met too. The difference is
taken change by change, so that no quiet moment that was bad speaks for another one.

Ten minutes, of which Kafka takes six: it notices a crash when the session is over.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from bench.cluster.comparison import Comparison, Measures, Result, compare
from bench.cluster.plot import plot
from bench.cluster.processes import ClientFailed
from bench.cluster.report import show_results
from bench.figure import Figure
from bench.groups.output import OUTPUT, write_json
from bench.groups.reading_group import ReadingGroup
from bench.groups.sides import GroupSide, KafkaSide, QuorateSide
from bench.groups.timeline import Observed
from bench.peers.kafka.installation import install
from quorate.chaos.peers.peer import PeerUnavailable

__all__ = ["COMPARISONS", "add_arguments", "measures_of", "run"]

Change = Literal["join", "leave", "kill"]
Watched = Mapping[Change, Sequence[Observed]]

PARTITIONS: Final = 24
MEMBERS: Final = 6
CHANGES: Final[Sequence[Change]] = ("join", "leave", "kill")
_ROUNDS: Final = 2
_INTERVAL_MS: Final = 50.0
#: a virtual machine compiles what runs often: the first change must not pay for it
_WARM_UP_S: Final = 20.0
_OURS: Final = "quorate"
_KAFKA: Final = "kafka"
#: Smaller differences are told as this: records tell when they were sent to the millisecond.
_RESOLUTION_MS: Final = 1.0
_PAUSE_MS_MAX: Final = 100.0
_RESUME_S_MAX: Final = 1.0


# -- what is told


def _comparisons(change: Change) -> Iterable[Comparison]:
    bar_ms = _PAUSE_MS_MAX
    yield _row(f"{change}: pause of what stays, median", "ms", f"{change}: stayed, median", bar=bar_ms)
    yield _row(f"{change}: pause of what stays, longest", "ms", f"{change}: stayed", bar=bar_ms)
    yield _row(f"{change}: the same before the change, median", "ms", f"{change}: quiet", is_median=True)
    yield _row(f"{change}: the same before the change, longest", "ms", f"{change}: quiet")
    yield _row(f"{change}: longer than before it, median", "ms", f"{change}: longer", is_median=True)
    yield _row(f"{change}: longer than before it, most", "ms", f"{change}: longer")
    yield _row(f"{change}: what moves resumes, median", "s", f"{change}: resumed", is_median=True)
    # A crash has to be noticed first. What is promised is about calls.
    bar = None if change == "kill" else _RESUME_S_MAX
    yield _row(f"{change}: what moves resumes, longest", "s", f"{change}: resumed", bar=bar)
    yield _row(f"{change}: what moves is read by nobody, median", "s", f"{change}: unread", is_median=True)
    yield _row(f"{change}: what moves is read by nobody, longest", "s", f"{change}: unread")


def _row(
    name: str, unit: str, measure: str, *, is_median: bool = False, bar: float | None = None
) -> Comparison:
    return Comparison(name, unit, measure, measure, "lower", bar, is_absolute=not is_median)


COMPARISONS: Final = tuple(row for change in CHANGES for row in _comparisons(change))


def measures_of(watched: Watched) -> Measures:
    """Pauses: the longest of each change, in milliseconds. The others: of each partition, in seconds."""
    measures: dict[str, list[float]] = {}
    for change, found in watched.items():
        # Whoever stays has been there before: the two lists are of the same changes.
        stayed = [max(each.stayed.values()) * 1000 for each in found if each.stayed]
        quiet = [max(each.quiet.values()) * 1000 for each in found if each.stayed]
        measures |= {
            f"{change}: stayed": stayed,
            f"{change}: stayed, median": [statistics.median(stayed)] if stayed else [],
            f"{change}: quiet": quiet,
            f"{change}: longer": [
                max(one - other, _RESOLUTION_MS) for one, other in zip(stayed, quiet, strict=True)
            ],
            f"{change}: resumed": [value for each in found for value in each.resumed.values()],
            f"{change}: unread": [value for each in found for value in each.unread.values()],
        }
    return measures


# -- running


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="lives of each cluster")
    parser.add_argument(
        "--cycles",
        type=int,
        help="of each change in a life; default: 3, of Kafka's 2 and one crash",
    )
    parser.add_argument("--interval-ms", type=float, default=_INTERVAL_MS, help="from record to record")
    parser.add_argument("--without-kafka", action="store_true")


def run(arguments: argparse.Namespace) -> list[Figure]:
    sides: dict[str, Callable[[], GroupSide]] = {_OURS: QuorateSide}
    title = f"{MEMBERS} members, {PARTITIONS} partitions, a record every {arguments.interval_ms:g} ms in each"
    if not arguments.without_kafka:
        try:
            installation = install()
        except PeerUnavailable as error:
            print(f"without Kafka: {error}", file=sys.stderr)
        else:
            sides[_KAFKA] = lambda: KafkaSide(installation)
            title += f"; in turns with Apache Kafka {installation.version}, group.protocol=consumer"
    watched, failures = asyncio.run(
        _take_turns(sides, arguments.rounds, arguments.cycles, arguments.interval_ms)
    )
    measured = {side: measures_of(found) for side, found in watched.items()}
    results = compare(COMPARISONS, measured[_OURS], measured.get(_KAFKA, {}))
    show_results(title, results, "Kafka")
    for failure in failures:
        print(failure, file=sys.stderr)
    _write(title, results, watched)
    return [
        *(_figure(result) for result in results),
        *(Figure(failure.partition("\n")[0], 0, "", None, False, "failed") for failure in failures),
    ]


def _figure(result: Result) -> Figure:
    row = result.comparison
    return Figure(row.name, result.ours or 0, row.unit, row.bar, result.passed, f"Kafka: {result.theirs}")


def _write(title: str, results: Sequence[Result], watched: Mapping[str, Watched]) -> None:
    document = {
        side: {change: [each._asdict() for each in found] for change, found in changes.items()}
        for side, changes in watched.items()
    }
    path = write_json("groups-rebalance", {"title": title, "watched": document})
    picture = OUTPUT / "groups-rebalance.svg"
    picture.write_text(plot(title, [each for each in results if each.ours and each.theirs]))
    print(f"written: {path} and {picture.name}")


async def _take_turns(
    sides: Mapping[str, Callable[[], GroupSide]], rounds: int, cycles: int | None, interval_ms: float
) -> tuple[dict[str, Watched], list[str]]:
    """One cluster is alive at a time, for the reason in `bench.cluster.turns`."""
    watched: dict[str, dict[Change, list[Observed]]] = {
        side: {change: [] for change in CHANGES} for side in sides
    }
    failures: list[str] = []
    for number in range(rounds):
        for name, make in sides.items():
            side = make()
            try:
                if cycles is not None:
                    side.cycles = side.kills = cycles
                await _live(side, interval_ms, watched[name], f"{number + 1} {name}")
            except (ClientFailed, TimeoutError) as error:
                failures.append(f"{name}, round {number + 1}: {error}")
    return dict(watched), failures


async def _live(
    side: GroupSide, interval_ms: float, watched: Mapping[Change, list[Observed]], turn: str
) -> None:
    async with side, ReadingGroup(side, partitions=PARTITIONS, interval_ms=interval_ms) as group:
        await group.fill(MEMBERS)
        await asyncio.sleep(_WARM_UP_S)
        for cycle in range(side.cycles):
            await group.fill(MEMBERS)
            for change in CHANGES if cycle < side.kills else CHANGES[:-1]:
                observed = await _watch(group, change)
                watched[change].append(observed)
                _tell(turn, change, observed)


async def _watch(group: ReadingGroup, change: Change) -> Observed:
    if change == "join":
        return await group.watch_join()
    return await (group.watch_leave() if change == "leave" else group.watch_kill())


def _tell(turn: str, change: str, observed: Observed) -> None:
    stayed, quiet = (max(each.values(), default=0) * 1000 for each in (observed.stayed, observed.quiet))
    resumed = sorted(observed.resumed.values())
    print(
        f"round {turn:10} {change:6} {len(observed.stayed)} stay: {stayed:.0f} ms, before {quiet:.0f} ms; "
        f"{len(resumed)} move: {statistics.median(resumed):.2f} s, at most {resumed[-1]:.2f} s",
        file=sys.stderr,
        flush=True,
    )
