"""What a report says about the program that made it: a version alone names no sources."""

from __future__ import annotations

from importlib.metadata import version

from quorate.chaos.evidence.checkout import commit_of, commit_words, find_checkout

__all__ = ["this_quorate"]


def this_quorate() -> str:
    return f"{version('quorate')}, {_commit()}"


def _commit() -> str:
    root = find_checkout()
    commit = None if root is None else commit_of(root)
    if commit is None or commit.name is None:
        return "no commit known"
    return f"commit {commit_words(commit.name, is_clean=commit.is_clean)}"
