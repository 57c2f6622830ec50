"""The table that people read."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.cluster.comparison import Comparison, Result

__all__ = ["number", "show_results"]


def show_results(title: str, results: Sequence[Result], peer: str) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("work")
    for heading in ("ours", peer, "ratio", "bar", "aim"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for result in results:
        row = result.comparison
        table.add_row(
            row.name,
            _with_unit(result.ours, row.unit),
            _with_unit(result.theirs, row.unit),
            "" if result.ratio is None else f"{result.ratio:.2f}x",
            _limit(row, row.bar),
            _limit(row, row.aim),
            {True: "met", False: "MISSED", None: ""}[result.passed],
        )
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _with_unit(value: float | None, unit: str) -> str:
    return "" if value is None else f"{number(value)} {unit}"


def _limit(row: Comparison, value: float | None) -> str:
    if value is None:
        return ""
    sign = "≥" if row.better == "higher" else "≤"
    return f"{sign} {value:g} {row.unit}" if row.is_absolute else f"{sign} {value:g}x"


def number(value: float) -> str:
    """Three digits that count."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
