"""docs/evidence/mutations.jsonl: what each hunt of a recorded run came to, a line as soon as it has ended.

All hunts together take hours, and whoever is interrupted wants to go on. A mutation that was noticed *stands*
for as long as the code is the same that was hunted in: the product, the simulator and models, and the
mutations themselves. One that nobody noticed never stands: it is hunted again.

The file is of one state of the code. A recorded run on another one begins it anew. Lines of mutations that
were hunted *by themselves* stand beside those of the run before, whatever code that was on: each line has the
digest of its code, and those have their commit, too.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from quorate.chaos.evidence.record_lines import EVIDENCE_DIRECTORY, append_line, read_lines
from quorate.chaos.evidence.sources import SIMULATOR, digest_of, source_files
from quorate.chaos.mutations.evidence import RunFacts
from quorate.chaos.mutations.hunting import HuntOutcome
from quorate.chaos.mutations.mutation import Catch
from quorate.chaos.mutations.promise_hunts import TESTS

__all__ = ["HUNTED_IN", "CodeChanged", "RecordedHunt", "RecordedHunts"]

_FILE: Final = f"{EVIDENCE_DIRECTORY}/mutations.jsonl"

#: more than the sources that seeds are counted for: here clients and coordinators are put to the test, too
HUNTED_IN: Final = (
    "broker/quorate/broker",
    "client/quorate/client",
    "controller/quorate/controller",
    "core/quorate/core",
    "metadata/quorate/metadata",
    "node/quorate/node",
    "storage/quorate/storage",
    *SIMULATOR,
    "chaos/quorate/chaos/models",
    "chaos/quorate/chaos/mutations",
    "chaos/quorate/chaos/raft_control",
    *TESTS,
)


class CodeChanged(Exception):
    """Somebody has edited what was hunted in: nobody can say which hunt ran on what."""


class RecordedHunt(NamedTuple):
    """One line."""

    code: str
    outcome: HuntOutcome
    #: of a mutation that was hunted by itself; None: with all others
    by_itself: RunFacts | None = None


class RecordedHunts:
    """``root``: of the source checkout."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / _FILE
        # In this order: what is edited in between is noticed by the first look.
        self._stamp = self._current_stamp()
        self._code = digest_of(root, HUNTED_IN)
        self._is_begun = False

    def standing(self) -> dict[str, HuntOutcome]:
        """Those that were noticed by the code as it is, by mutation."""
        return {
            each.outcome.mutation: each.outcome
            for each in self.lines()
            if each.code == self._code and each.outcome.catch is not None
        }

    def lines(self) -> list[RecordedHunt]:
        return read_lines(self._path, _parsed)

    def begin(self, kept: Iterable[HuntOutcome] = ()) -> None:
        """A run begins, with what still stands: no other line stays in the file."""
        self._write(RecordedHunt(self._code, outcome) for outcome in kept)
        self._is_begun = True

    def put(self, outcomes: Collection[HuntOutcome], facts: RunFacts) -> None:
        """Hunted by themselves: in place of what was recorded of them. ``CodeChanged``: nothing is."""
        self._check_code()
        names = {outcome.mutation for outcome in outcomes}
        kept = [each for each in self.lines() if each.outcome.mutation not in names]
        self._write([*kept, *(RecordedHunt(self._code, outcome, facts) for outcome in outcomes)])

    def _write(self, lines: Iterable[RecordedHunt]) -> None:
        new = self._path.with_suffix(".new")
        new.unlink(missing_ok=True)
        new.parent.mkdir(parents=True, exist_ok=True)
        new.touch()
        for line in lines:
            append_line(new, _document(line))
        os.replace(new, self._path)

    def add(self, outcome: HuntOutcome) -> None:
        """``CodeChanged``: it is not recorded."""
        assert self._is_begun, "lines of other code would stay"
        self._check_code()
        append_line(self._path, _document(RecordedHunt(self._code, outcome)))

    def _check_code(self) -> None:
        """By what the file system says first: a digest takes a second, and hunts are many."""
        stamp = self._current_stamp()
        if stamp == self._stamp:
            return
        if digest_of(self._root, HUNTED_IN) != self._code:
            raise CodeChanged(
                "the code was changed while mutations were hunted in it: the rest is not recorded"
            )
        self._stamp = stamp

    def _current_stamp(self) -> list[tuple[Path, int, int]]:
        found = ((path, path.stat()) for path in source_files(self._root, HUNTED_IN))
        return [(path, stat.st_mtime_ns, stat.st_size) for path, stat in found]


def _document(line: RecordedHunt) -> dict[str, Any]:
    outcome, facts = line.outcome, line.by_itself
    catch = outcome.catch
    document = {
        "mutation": outcome.mutation,
        "code": line.code,
        "seeds": outcome.seeds,
        "seed": outcome.seed,
        "caught_by": None if catch is None else catch.check,
        "finding": None if catch is None else catch.finding,
        "red_anyway": list(outcome.red_anyway),
        "seconds": round(outcome.seconds, 2),
    }
    return document if facts is None else {**document, "by_itself": facts._asdict()}


def _parsed(document: dict[str, Any]) -> RecordedHunt:
    check, facts = document["caught_by"], document.get("by_itself")
    outcome = HuntOutcome(
        mutation=document["mutation"],
        seeds=document["seeds"],
        catch=None if check is None else Catch(check, document["finding"]),
        seconds=document["seconds"],
        seed=document["seed"],
        red_anyway=tuple(document["red_anyway"]),
    )
    return RecordedHunt(document["code"], outcome, None if facts is None else RunFacts(**facts))
