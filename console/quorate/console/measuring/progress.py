"""A bar on a terminal, of a number of records that is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from quorate.console.session import Session

__all__ = ["progress_of"]


@contextmanager
def progress_of(session: Session, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """To be called with how many more are done; seldom, since a bar costs more than a record."""
    if not session.shows_progress:
        yield lambda _count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(what, total=total)
        yield lambda count: progress.advance(bar, count)
