"""docs/evidence/mutations.md: who misses which rule when it is gone, as found by a run of all mutations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.chaos.evidence.record_lines import EVIDENCE_DIRECTORY
from quorate.chaos.mutations.hunting import HuntOutcome
from quorate.chaos.mutations.mutation import Mutation

__all__ = ["EVIDENCE_PAGE", "RunFacts", "evidence_page", "write_evidence_page"]

EVIDENCE_PAGE: Final = f"{EVIDENCE_DIRECTORY}/mutations.md"

_HEAD: Final = """\
# Evidence: mutations

Written by `quorate sim mutants --record`. Do not edit.

Each row is one safety rule ([safety-rules.md](../safety-rules.md)) switched off in the real code, in a way in
which somebody might really get it wrong, and what noticed: an invariant, or a check of what clients saw.
*Seeds* is how many seeds it took, counted from 1; a story without chance takes one. Their
sources:
[chaos/quorate/chaos/mutations](../../chaos/quorate/chaos/mutations). To see one again:
`quorate sim mutants --name NAME`.

"""

#: kept by hand: a table of what was caught says nothing about what was tried
_TAIL: Final = """
## What the whole cluster did not notice

The table has mutations where somebody notices them. These were tried in the whole cluster as well, and it did
not notice within the seeds given, which are few. Either another rule covers for the one that is off, or the
faults do not reach it; which of the two was not looked into for all of them.

| rule | what was switched off | seeds | where it is noticed instead |
|---|---|---|---|
| 3 | leader epochs of requests are not compared | 12 | story of a leader |
| 6 | a leader does not save its epoch | 6, when only the end of a run was checked | lives of a log |
| 7 | followers are carried over into the next leader epoch | 6, likewise | story of a leader |
| 10 | answers of any epoch are believed | 8 | story of a follower |
| 12 | a follower behind the leader's log start never begins anew | 6, likewise | story of a follower |
| 23 | whoever has fetched may join the ISR | 12 | model of replicas |
| 25 | fetches of an earlier process count | 12 | story of a leader |
| 30 | an old copy of a directory is believed | 8 | model of the controller |
| 30 | a lossy start passes for a process crash, power fails at one broker | 8 | model of the controller |
| 32 | a wiped disk is counted | 8 | model of the controller |
| 39 | a controller acts before it has replayed | 12 | unit tests of the active controller |
| 42 | a damaged journal is cut without a note | 40 | Raft simulator (a recovering voter votes, counts, ...) |
| 43 | topics are found by name alone | 8 | whole-cluster story |
| 44 | a damaged log is dropped although it is in the ISR | 8 | unit tests of followers |
| 44 | damage is ignored at a registration | 8 | model of the controller |
| 44 | reads check no checksum | 15 | lives of a log |
| 49 | a start does not replay producers | 8 | unit tests of the log |
| 51 | duplicates are called out of order | 8 | lives of a log |
"""

_TABLE_HEAD: Final = """\
| rule | mutation | what is wrong then | hunted in | seeds | caught by |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the page says about the run as a whole."""

    commit: str
    #: digest of what raft, replication and recovery consist of
    sources: str
    recorded_at: str


def write_evidence_page(
    root: Path, mutations: Sequence[Mutation], outcomes: Mapping[str, HuntOutcome], facts: RunFacts
) -> None:
    (root / EVIDENCE_PAGE).write_text(evidence_page(mutations, outcomes, facts), encoding="utf-8")


def evidence_page(mutations: Sequence[Mutation], outcomes: Mapping[str, HuntOutcome], facts: RunFacts) -> str:
    found = [each for each in mutations if outcomes[each.name].catch is not None]
    rules = {rule for each in mutations for rule in each.rules}
    seconds = sum(outcome.seconds for outcome in outcomes.values())
    summary = (
        f"{len(found)} of {len(mutations)} mutations of {len(rules)} rules were noticed, "
        f"in {seconds:,.0f} s of runs. Commit {facts.commit}, sources `{facts.sources}`, "
        f"{facts.recorded_at}.\n\n"
    )
    rows = "".join(_row(each, outcomes[each.name]) for each in mutations)
    return _HEAD + summary + _TABLE_HEAD + rows + _TAIL


def _row(mutation: Mutation, outcome: HuntOutcome) -> str:
    caught_by = "**nobody**" if outcome.catch is None else f"`{outcome.catch.check}`"
    cells = (
        ", ".join(map(str, mutation.rules)),
        f"`{mutation.name}`",
        mutation.what,
        mutation.hunt.where,
        str(outcome.seeds),
        caught_by,
    )
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n"
