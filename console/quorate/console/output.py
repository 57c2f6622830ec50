"""How results are shown: a table for people, one JSON document for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import IO, Any, ClassVar, Final

import click

__all__ = [
    "CannotWriteOutput",
    "StreamError",
    "ensure_standard_output",
    "forget_standard_output",
    "print_error_document",
    "print_json",
    "print_json_line",
    "print_table",
]

#: How states are coloured on a terminal; any other is something under way, or not as it should be.
_STATE_COLUMN: Final = "STATE"
_GOOD_STATES: Final = frozenset(
    {"active", "asked", "follower", "leader", "ok", "reading", "running", "sound", "stable"}
)
_BAD_STATES: Final = frozenset(
    {
        "damaged",
        "died",
        "fenced",
        "missing",
        "offline",
        "refused",
        "under min.insync.replicas",
        "unreachable",
        "violated",
    }
)

#: Where nobody looks at it, a table must not be folded to the width of a screen.
_PIPE_WIDTH = 10_000


class StreamError(click.ClickException):
    """A standard stream, or a file in its place, does not do its part."""

    code: ClassVar[str]

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {self.code}: {self.message}", file, err=True)

    def document(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "retriable": False, "what_to_do": None}


class CannotWriteOutput(StreamError):
    """Standard output refuses what a command has to say."""

    code = "CANNOT_WRITE_OUTPUT"

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output: {error.strerror}")


def print_json(document: object) -> None:
    """One document, indented, in the order in which it was built."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def print_json_line(document: object) -> None:
    """One of many: a stream of results has a document per line. The caller flushes."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")


def print_error_document(document: dict[str, Any]) -> None:
    """On stderr and in one line, the last: remarks may stand before it."""
    click.echo(json.dumps({"error": document}, ensure_ascii=False), err=True)


def ensure_standard_output() -> None:
    """Where whoever started us closed it (`>&-`), the next file to be opened would take its place."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # as long as the process


def forget_standard_output() -> None:
    """Nobody takes what is left in it; without this the interpreter would complain once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_table(columns: Iterable[str], rows: Iterable[Sequence[object]]) -> None:
    """Numbers align to the right; a list shows with commas, a missing value or an empty list as a dash."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = list(columns)
    cells = [list(row) for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        numeric = any(isinstance(row[index], int | float) for row in cells)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        shown = [_shown(cell) for cell in row]
        table.add_row(
            *(
                Text(cell, style=_state_style(cell) if column == _STATE_COLUMN else "")
                for column, cell in zip(columns, shown, strict=True)
            )
        )
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    console = Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)
    # Written by us: rich would end the process, with status 1, if nobody reads it any more.
    with console.capture() as text:
        console.print(table, crop=False)
    # Without the spaces that fill the last column: lines in a pipe end where their text ends.
    for line in text.get().splitlines():
        click.echo(line.rstrip())


def _shown(cell: object) -> str:
    if isinstance(cell, list | tuple):
        cell = ",".join(map(str, cell)) or None
    return "-" if cell is None else str(cell)


def _state_style(state: str) -> str:
    if state in _GOOD_STATES:
        return "green"
    return "red" if state in _BAD_STATES else "yellow"
