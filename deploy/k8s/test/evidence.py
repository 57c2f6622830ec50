"""docs/evidence/kubernetes.jsonl: a line for each recorded run, and kubernetes.md, which is written from it.

Lines are only ever added, also for runs that failed, and the page is a function of them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from quorate.chaos.evidence.checkout import commit_words
from quorate.chaos.evidence.markdown import table, write_page
from quorate.chaos.evidence.record_lines import EVIDENCE_DIRECTORY, append_line, read_lines

__all__ = ["PAGE", "RECORDS", "RunRecord", "StepRecord", "page", "read_records", "record"]

RECORDS: Final = f"{EVIDENCE_DIRECTORY}/kubernetes.jsonl"
PAGE: Final = f"{EVIDENCE_DIRECTORY}/kubernetes.md"

_HEAD: Final = """\
# Evidence: on a real Kubernetes

Written by `make k8s-test ARGS="… --record"` from [kubernetes.jsonl](kubernetes.jsonl), which has a line for
each run that was recorded, also for those that failed. Do not edit. What the steps do, what has to hold in
each, and how to run them on a cluster of your own: [the test](../../deploy/k8s/test/README.md).

Two producers and a reader work from a pod of their own for as long as a step lasts. After each step every
record that was acknowledged since the first one is looked for at its offset, and everything else is checked
that [drills](../checks.md) check.
"""
#: than a failover
_MORE: Final = "; in `cut` besides what `replica.lag.time.max.ms` says, in `all` until the pods are back"


@dataclass(frozen=True, slots=True)
class StepRecord:
    step: str
    what: str
    #: None: it passed
    trouble: str | None
    seconds: float
    told: str


@dataclass(frozen=True, slots=True)
class RunRecord:
    began: str
    commit: str | None
    is_clean: bool
    #: as the API server names itself
    kubernetes: str
    image: str
    system: str
    #: how long a partition may acknowledge nothing
    failover_s: float
    #: from the first manifest until all six pods are ready
    up_s: float
    steps: tuple[StepRecord, ...]

    @property
    def failed(self) -> list[str]:
        return [each.step for each in self.steps if each.trouble is not None]


def record(root: Path, run: RunRecord) -> None:
    append_line(root / RECORDS, asdict(run))
    write_page(root, PAGE, page(read_records(root)))


def read_records(root: Path) -> list[RunRecord]:
    return read_lines(root / RECORDS, _parsed)


def _parsed(document: dict[str, Any]) -> RunRecord:
    steps = tuple(StepRecord(**each) for each in document.pop("steps"))
    return RunRecord(steps=steps, **document)


def page(runs: Sequence[RunRecord]) -> str:
    if not runs:
        return f"{_HEAD}\nNothing was recorded yet.\n"
    rows = [
        (
            each.began,
            f"`{commit_words(each.commit, is_clean=each.is_clean)}`",
            f"{len(each.steps) - len(each.failed)} of {len(each.steps)}",
            ", ".join(each.failed) or "-",
        )
        for each in runs
    ]
    overview = table(("began", "commit", "steps passed", "failed"), rows)
    return f"{_HEAD}\n## All runs\n\n{overview}\n{_in_full(runs[-1])}"


def _in_full(run: RunRecord) -> str:
    facts = table(
        ("", ""),
        (
            ("began", run.began),
            ("commit", f"`{commit_words(run.commit, is_clean=run.is_clean)}`"),
            ("Kubernetes", run.kubernetes),
            ("image", run.image),
            ("machine", run.system),
            (
                "longest wait that is allowed",
                f"{run.failover_s:g} s (`--failover {run.failover_s:g}`){_MORE}",
            ),
            ("three controllers and three brokers ready after", f"{run.up_s:.0f} s"),
        ),
    )
    steps = table(
        ("step", "what", "verdict", "seconds", "what was seen"),
        (
            (
                f"`{each.step}`",
                each.what,
                "passed" if each.trouble is None else f"**failed**: {_in_a_line(each.trouble)}",
                f"{each.seconds:.0f}",
                each.told,
            )
            for each in run.steps
        ),
    )
    return f"## The last one\n\n{facts}\n{steps}"


def _in_a_line(text: str) -> str:
    return " ".join(text.split())
