"""The pages in docs/evidence: how they are written, and their tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["table", "write_page"]


def write_page(root: Path, name: str, text: str) -> None:
    """``root``: of the source checkout. ``name``: where the page is in it."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A bar within a cell would end it: it becomes a slash."""
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    return head + "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in rows)
