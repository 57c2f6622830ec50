"""Records in docs/evidence, a line of JSON for each run. Lines are only ever added."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

__all__ = ["EVIDENCE_DIRECTORY", "append_line", "read_lines"]

EVIDENCE_DIRECTORY: Final = "docs/evidence"

Record = TypeVar("Record")


def append_line(path: Path, document: Mapping[str, Any]) -> None:
    """In one write, so that two runs at once do not mix their lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(document, ensure_ascii=False) + "\n"
    with open(path, "ab", buffering=0) as file:
        file.write(line.encode())
        os.fsync(file.fileno())


def read_lines(path: Path, parse: Callable[[dict[str, Any]], Record]) -> list[Record]:
    """``ValueError`` with the line that is not a record: evidence that cannot be read is not skipped over."""
    if not path.exists():
        return []
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            found.append(parse(json.loads(line)))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path.name}, line {number}: {error!r}") from error
    return found
