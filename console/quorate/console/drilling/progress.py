"""What is shown while a drill runs: on a terminal a line that lives, in a pipe lines that stay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from quorate.chaos.drills.progress import Progress, Silence, Status
from quorate.console.session import Session

if TYPE_CHECKING:
    from rich.status import Status as Spinner

__all__ = ["showing_progress"]

_LINE_EVERY_S: Final = 10.0


@contextmanager
def showing_progress(session: Session, name: str) -> Iterator[Progress]:
    if session.quiet or session.json:
        yield Silence()
    elif not session.shows_progress:
        yield _Lines()
    else:
        from rich.console import Console

        with Console(stderr=True).status(name) as spinner:
            yield _Live(name, spinner)


def _words(status: Status) -> str:
    return (
        f"{status.elapsed_s:.0f} of {status.total_s:.0f} s, {status.acknowledged:,} acknowledged "
        f"({status.acknowledged_per_s:,.0f}/s), faults: {status.faults}, elections: {status.elections}"
    )


class _Lines:
    def __init__(self) -> None:
        self._next_s = _LINE_EVERY_S

    def tell(self, line: str) -> None:
        click.echo(line, err=True)

    def update(self, status: Status) -> None:
        if status.elapsed_s >= self._next_s:
            self._next_s = status.elapsed_s + _LINE_EVERY_S
            self.tell(f"  {_words(status)}")


class _Live:
    def __init__(self, name: str, spinner: Spinner) -> None:
        self._name = name
        self._spinner = spinner

    def tell(self, line: str) -> None:
        self._spinner.console.print(line, highlight=False, markup=False)

    def update(self, status: Status) -> None:
        self._spinner.update(f"{self._name}: {_words(status)}")
