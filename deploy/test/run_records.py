"""Runs of a test that takes steps, as evidence: a line of JSON for each, and a page that they amount to.

Lines are only ever added, also for runs that failed, and the page is a function of them alone.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from quorate.chaos.evidence.checkout import commit_words
from quorate.chaos.evidence.markdown import table, write_page
from quorate.chaos.evidence.record_lines import append_line, read_lines

__all__ = ["Evidence", "RunRecord", "StepRecord", "machine"]


@dataclass(frozen=True, slots=True)
class StepRecord:
    step: str
    what: str
    #: None: it passed
    trouble: str | None
    seconds: float
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    began: str
    commit: str | None
    is_clean: bool
    #: the machine that it ran on, as ``machine`` describes it
    system: str
    steps: tuple[StepRecord, ...]

    @property
    def failed(self) -> list[str]:
        return [each.step for each in self.steps if each.trouble is not None]

    @property
    def facts(self) -> Sequence[tuple[str, str]]:
        """What it ran on, by name."""
        return [("machine", self.system)]


Run = TypeVar("Run", bound=RunRecord)


@dataclass(frozen=True, slots=True)
class Evidence(Generic[Run]):
    """``records``, ``page``: where they are in the source checkout. ``head``: how the page begins."""

    records: str
    page: str
    head: str
    kind: type[Run]

    def record(self, root: Path, run: Run) -> None:
        append_line(root / self.records, asdict(run))
        write_page(root, self.page, self.text(self.read(root)))

    def read(self, root: Path) -> list[Run]:
        return read_lines(root / self.records, self._parsed)

    def _parsed(self, document: dict[str, Any]) -> Run:
        steps = tuple(StepRecord(**each) for each in document.pop("steps"))
        return self.kind(steps=steps, **document)

    def text(self, runs: Sequence[Run]) -> str:
        if not runs:
            return f"{self.head}\nNothing was recorded yet.\n"
        rows = [
            (
                each.began,
                _commit(each),
                f"{len(each.steps) - len(each.failed)} of {len(each.steps)}",
                _names(each),
            )
            for each in runs
        ]
        overview = table(("began", "commit", "steps passed", "failed"), rows)
        return f"{self.head}\n## All runs\n\n{overview}\n{_in_full(runs[-1])}"


def machine() -> str:
    """This one, in words; how busy it was explains long times."""
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores here, "
        f"load average {os.getloadavg()[2]:.0f}"
    )


def _in_full(run: RunRecord) -> str:
    facts = table(("", ""), [("began", run.began), ("commit", _commit(run)), *run.facts])
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


def _commit(run: RunRecord) -> str:
    return f"`{commit_words(run.commit, is_clean=run.is_clean)}`"


def _names(run: RunRecord) -> str:
    return ", ".join(run.failed) or "-"


def _in_a_line(text: str) -> str:
    return " ".join(text.split())
