"""The source checkout that the running code comes from, if it does: evidence is kept beside the sources."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Commit", "commit_of", "commit_words", "find_checkout"]

#: chaos/quorate/chaos/evidence/checkout.py
_FOLDERS_ABOVE: Final = 4
_NAME_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class Commit:
    #: None: not under version control, or git is not there
    name: str | None
    #: nothing was changed since, apart from the evidence itself
    is_clean: bool


def find_checkout() -> Path | None:
    """None: installed as a package, and not from a checkout."""
    root = Path(__file__).resolve().parents[_FOLDERS_ABOVE]
    return root if (root / "pyproject.toml").is_file() and (root / "docs").is_dir() else None


def commit_of(root: Path) -> Commit:
    name = _git(root, "rev-parse", "HEAD")
    if name is None:
        return Commit(None, is_clean=False)
    changes = _git(root, "status", "--porcelain", "--", ".", ":!docs/evidence")
    return Commit(name, is_clean=changes == "")


def commit_words(name: str | None, *, is_clean: bool) -> str:
    """For people."""
    return (name or "unknown")[:_NAME_DIGITS] + ("" if is_clean else " and changes")


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603  # arguments of our own making
            ["git", "-C", str(root), *arguments],  # noqa: S607  # whichever git the user has
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
