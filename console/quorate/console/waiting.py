"""Waiting until something in the cluster has come to its end, and showing how far it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from quorate.console.advice import AdvisedError
from quorate.console.session import Session
from quorate.errors import RequestTimedOut

__all__ = ["wait_until_none_left"]

_POLL_S: Final = 0.5


async def wait_until_none_left(
    session: Session, what: str, ask: Callable[[], Awaitable[int]], *, first: int, timeout_s: float | None
) -> None:
    """Asks again and again how many are left, of ``first``; a bar on a terminal, else a line per change."""
    try:
        async with asyncio.timeout(timeout_s):
            if session.shows_progress:
                await _with_bar(what, ask, first)
            else:
                await _with_lines(session, what, ask, first)
    except TimeoutError:
        raise AdvisedError(
            RequestTimedOut(f"{what}: not done after {timeout_s:g} s"),
            "what was begun goes on; run the same again to wait for the rest",
        ) from None


async def _with_bar(what: str, ask: Callable[[], Awaitable[int]], left: int) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task(what, total=left)
        total = left
        while left:
            await asyncio.sleep(_POLL_S)
            left = await ask()
            total = max(total, left)
            progress.update(bar, total=total, completed=total - left)


async def _with_lines(session: Session, what: str, ask: Callable[[], Awaitable[int]], left: int) -> None:
    told: int | None = None
    while left:
        if left != told:
            session.note(f"{what}: {left} left")
            told = left
        await asyncio.sleep(_POLL_S)
        left = await ask()
