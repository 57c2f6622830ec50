"""docs/evidence/mutations.jsonl: what each hunt of a recorded run came to, a line as soon as it has ended.

All hunts together take hours, and whoever is interrupted wants to go on. A mutation that was noticed *stands*
for as long as the code is the same that was hunted in: the product, the simulator and models, and the
mutations themselves. One that nobody noticed never stands: it is hunted again.

The file is of one state of the code. A recorded run on another one begins it anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from quorate.chaos.evidence.record_lines import EVIDENCE_DIRECTORY, append_line, read_lines
from quorate.chaos.evidence.sources import SIMULATOR, digest_of, source_files
from quorate.chaos.mutations.hunting import HuntOutcome
from quorate.chaos.mutations.mutation import Catch

__all__ = ["HUNTED_IN", "CodeChanged", "RecordedHunts"]

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
)


class CodeChanged(Exception):
    """Somebody has edited what was hunted in: nobody can say which hunt ran on what."""


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
        lines = read_lines(self._path, _parsed)
        return {
            outcome.mutation: outcome
            for code, outcome in lines
            if code == self._code and outcome.catch is not None
        }

    def begin(self, kept: Iterable[HuntOutcome] = ()) -> None:
        """A run begins, with what still stands: no other line stays in the file."""
        new = self._path.with_suffix(".new")
        new.unlink(missing_ok=True)
        new.parent.mkdir(parents=True, exist_ok=True)
        new.touch()
        for outcome in kept:
            append_line(new, _document(self._code, outcome))
        os.replace(new, self._path)
        self._is_begun = True

    def add(self, outcome: HuntOutcome) -> None:
        """``CodeChanged``: it is not recorded."""
        assert self._is_begun, "lines of other code would stay"
        self._check_code()
        append_line(self._path, _document(self._code, outcome))

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


def _document(code: str, outcome: HuntOutcome) -> dict[str, Any]:
    catch = outcome.catch
    return {
        "mutation": outcome.mutation,
        "code": code,
        "seeds": outcome.seeds,
        "seed": outcome.seed,
        "caught_by": None if catch is None else catch.check,
        "finding": None if catch is None else catch.finding,
        "red_anyway": list(outcome.red_anyway),
        "seconds": round(outcome.seconds, 2),
    }


def _parsed(document: dict[str, Any]) -> tuple[str, HuntOutcome]:
    check = document["caught_by"]
    outcome = HuntOutcome(
        mutation=document["mutation"],
        seeds=document["seeds"],
        catch=None if check is None else Catch(check, document["finding"]),
        seconds=document["seconds"],
        seed=document["seed"],
        red_anyway=tuple(document["red_anyway"]),
    )
    return document["code"], outcome
