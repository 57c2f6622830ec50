"""Tables of the pages in docs/evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["table"]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A bar within a cell would end it: it becomes a slash."""
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    return head + "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in rows)
