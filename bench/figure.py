"""One measured number, and the bar it is held to."""

from __future__ import annotations

import sys
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

__all__ = ["Figure", "show"]


class Figure(NamedTuple):
    name: str
    value: float
    unit: str
    #: what the value has to reach; None where it is only stated
    bar: float | None
    #: None where there is no bar
    passed: bool | None
    #: how it came about: rounds, sizes, what it was compared with
    detail: str

    @classmethod
    def against(cls, name: str, value: float, unit: str, bar: float | None, detail: str) -> Figure:
        """Higher is better."""
        return cls(name, value, unit, bar, None if bar is None else value >= bar, detail)

    @classmethod
    def at_most(cls, name: str, value: float, unit: str, bar: float | None, detail: str) -> Figure:
        """Lower is better."""
        return cls(name, value, unit, bar, None if bar is None else value <= bar, detail)


def show(title: str, figures: list[Figure]) -> None:
    """A table on standard output."""
    table = Table(title=title, title_justify="left")
    for column, justify in (
        ("figure", "left"),
        ("value", "right"),
        ("bar", "right"),
        ("", "left"),
        ("how", "left"),
    ):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]  # rich wants a literal
    for figure in figures:
        verdict = {True: "met", False: "MISSED", None: ""}[figure.passed]
        bar = "" if figure.bar is None else f"{figure.bar:,g} {figure.unit}"
        table.add_row(figure.name, f"{figure.value:,.2f} {figure.unit}", bar, verdict, figure.detail)
    Console(width=None if sys.stdout.isatty() else 160).print(table)
