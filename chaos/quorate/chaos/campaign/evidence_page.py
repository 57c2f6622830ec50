"""docs/evidence/simulation.md: what docs/evidence/simulation.jsonl amounts to, for readers.

A function of the records alone, not of the sources beside it: it would be out of date with every change.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from quorate.chaos.campaign.evidence import RunRecord, Standing, read_records
from quorate.chaos.campaign.seed_ranges import format_seeds
from quorate.chaos.evidence.checkout import commit_words
from quorate.chaos.evidence.markdown import table, write_page
from quorate.chaos.evidence.record_lines import EVIDENCE_DIRECTORY

__all__ = ["EVIDENCE_PAGE", "evidence_page", "write_evidence_page"]

EVIDENCE_PAGE: Final = f"{EVIDENCE_DIRECTORY}/simulation.md"

_HEAD: Final = """\
# Evidence: simulated runs

Written by `quorate sim run --record` from [simulation.jsonl](simulation.jsonl), which has a line for every
recorded run. Do not edit.

A seed *stands* for a state of the sources when its last run on that state passed. A change to raft,
replication or recovery makes a new state, for which nothing stands yet
([which sources](../../chaos/quorate/chaos/evidence/sources.py); comments do not count).
`quorate sim status` tells how many stand for the sources as they are in a checkout, and
`quorate sim run --record --resume --target 20000` adds what is missing. How the simulator works, and how to
replay a seed: [simulation.md](../simulation.md).

"""

_NOTHING: Final = "Nothing is recorded yet.\n"

_COLUMNS: Final = (
    "sources",
    "world",
    "seeds that stand",
    "which",
    "failed",
    "hours of runs",
    "last run",
    "on commit",
)


def write_evidence_page(root: Path) -> None:
    write_page(root, EVIDENCE_PAGE, evidence_page(read_records(root)))


def evidence_page(records: Sequence[RunRecord]) -> str:
    if not records:
        return _HEAD + _NOTHING
    standings: dict[tuple[str, str], Standing] = {}
    for record in records:
        key = (record.sources, record.world)
        found = standings.pop(key, None) or Standing(record.world, record.sources)
        found.add(record)
        standings[key] = found  # again at the end: in the order of their last runs
    return _HEAD + table(_COLUMNS, map(_row, reversed(standings.values())))


def _row(standing: Standing) -> tuple[str, ...]:
    last = standing.last
    assert last is not None
    failed = "; ".join(f"{seed} ({check})" for seed, check in sorted(standing.failed.items()))
    return (
        f"`{standing.sources}`",
        standing.world,
        f"{len(standing.passed):,}",
        format_seeds(standing.passed).replace(",", ", ") or "-",
        failed or "none",
        f"{standing.seconds / 3600:.2f}",
        last.recorded_at,
        commit_words(last.commit, is_clean=last.is_clean),
    )
