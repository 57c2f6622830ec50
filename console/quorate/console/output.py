"""How results are shown: a table for people, one JSON document for programs."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import IO, Any, ClassVar, Final

import click

from quorate.core.standard_streams import forget_stream

__all__ = [
    "TRACEBACK_VARIABLE",
    "CannotWriteOutput",
    "CodedError",
    "InternalError",
    "StreamError",
    "ensure_standard_streams",
    "forget_standard_output",
    "json_text",
    "print_error_document",
    "print_json",
    "print_json_line",
    "print_table",
]

#: Set: a mistake of ours is told with its traceback.
TRACEBACK_VARIABLE: Final = "QUORATE_TRACEBACK"

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


class CodedError(click.ClickException):
    """An error of the command line itself, told in the form of the cluster's."""

    code: ClassVar[str]
    what_to_do: str | None = None

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {self.code}: {self.message}", file, err=True)
        if self.what_to_do is not None:
            click.echo(f"  what to do: {self.what_to_do}", file, err=True)

    def document(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "message": self.message,
            "retriable": False,
            "what_to_do": self.what_to_do,
        }


class StreamError(CodedError):
    """A standard stream, or a file in its place, does not do its part."""


class InternalError(CodedError):
    """A mistake of ours: what went wrong in one line, and how to see the rest."""

    code = "INTERNAL"

    def __init__(self, error: Exception) -> None:
        super().__init__(" ".join(f"{type(error).__name__}: {error}".split()))
        self.what_to_do = (
            f"this is a bug: report it, with the traceback that {TRACEBACK_VARIABLE}=1 in front of the "
            "same command prints"
        )


class CannotWriteOutput(StreamError):
    """Standard output refuses what a command has to say."""

    code = "CANNOT_WRITE_OUTPUT"
    # Whoever appends to it joins the next line to half of one, and neither can be read any more.
    what_to_do = (
        "make room where it goes, or let it go elsewhere; what is there may end in the middle of a line: "
        "append nothing to it, and begin a new file"
    )

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output: {error.strerror}")


def print_json(document: object) -> None:
    """One document, indented, in the order in which it was built."""
    click.echo(json_text(document, indent=2))


def print_json_line(document: object) -> None:
    """One of many: a stream of results has a document per line. The caller flushes."""
    sys.stdout.write(json_text(document, separators=(",", ":")) + "\n")


def print_error_document(document: dict[str, Any]) -> None:
    """On stderr and in one line, the last: remarks may stand before it."""
    click.echo(json_text({"error": document}, sys.stderr), err=True)


def json_text(document: object, stream: IO[str] | None = None, **layout: Any) -> str:
    """JSON as the stream (None: standard output) can write it: escaped where that is not UTF-8."""
    encoding = getattr(stream or sys.stdout, "encoding", None) or "ascii"
    is_utf8 = codecs.lookup(encoding).name == "utf-8"
    return json.dumps(document, ensure_ascii=not is_utf8, **layout)


def ensure_standard_streams() -> None:
    """Where whoever started us closed one (`>&-`, `2>&-`), the next file to be opened would take its place.

    What a terminal or a locale cannot show is written as an escape, and does not end the command.
    """
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # as long as the process
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def forget_standard_output() -> None:
    """Nobody takes what is left in it."""
    forget_stream(sys.stdout)


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
