"""What was measured, a line for each work of each side in each round, beside the other evidence.

A figure in a document is a ratio of medians: only the rounds say how far apart they were, and on which
commit. Each line is written when it is known, so that a run that is interrupted has left what it found, and
says by itself under which circumstances.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyspark

from bench.peers.tools import ROOT
from quorate.chaos.evidence.checkout import commit_of

__all__ = ["Rounds", "recorded_rounds"]

_EVIDENCE: Final = ROOT / "docs" / "evidence" / "pipeline.jsonl"

Value = str | int | float | bool | None


class Rounds:
    def __init__(self, path: Path | None = None, circumstances: Mapping[str, Value] | None = None) -> None:
        """Without a path nothing outlives the process."""
        self._path = path
        self._circumstances = dict(circumstances or {})

    def add(self, **found: Value) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(self._circumstances | found) + "\n")


def recorded_rounds(*, is_recorded: bool) -> Rounds:
    """Of a run that begins now."""
    if not is_recorded:
        return Rounds()
    commit = commit_of(ROOT)
    circumstances: dict[str, Value] = {
        "began_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": commit.name,
        "is_clean": commit.is_clean,
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "spark": pyspark.__version__,
    }
    return Rounds(_EVIDENCE, circumstances)
