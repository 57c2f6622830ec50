"""Waiting until something in the cluster has come to its end, and showing how far it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from quorate.console.advice import AdvisedError
from quorate.console.session import Session
from quorate.errors import RequestTimedOut

__all__ = ["wait_until_none_left"]

_POLL_S: Final = 0.5
#: What is stuck for so long stays so: an election, or a broker that is started again, takes less.
_STUCK_S: Final = 10.0


async def wait_until_none_left(
    session: Session,
    what: str,
    ask: Callable[[], Awaitable[int]],
    *,
    first: int,
    timeout_s: float | None,
    is_stuck: Callable[[], bool] = lambda: False,
) -> None:
    """Asks again and again how many are left, of ``first``; a bar on a terminal, else a line per change.

    ``is_stuck``: by the last answer, nothing that is left will go by itself. Then it does not wait for ever,
    nor complains that the time is over.
    """
    counts = _counts(ask, first, is_stuck)
    try:
        async with asyncio.timeout(timeout_s):
            if session.shows_progress:
                await _with_bar(what, counts)
            else:
                await _with_lines(session, what, counts)
    except TimeoutError:
        if is_stuck():
            # Whoever asked knows better what is in the way than that it took too long.
            return
        raise AdvisedError(
            RequestTimedOut(f"{what}: not done after {timeout_s:g} s"),
            "what was begun goes on; run the same again to wait for the rest",
        ) from None


async def _counts(
    ask: Callable[[], Awaitable[int]], left: int, is_stuck: Callable[[], bool]
) -> AsyncIterator[int]:
    """Until it is 0, or as good as it gets."""
    stuck_since: float | None = None
    while True:
        yield left
        now = time.monotonic()
        if not is_stuck():
            stuck_since = None
        elif stuck_since is None:
            stuck_since = now
        if left == 0 or (stuck_since is not None and now - stuck_since >= _STUCK_S):
            return
        await asyncio.sleep(_POLL_S)
        left = await ask()


async def _with_bar(what: str, counts: AsyncIterator[int]) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task(what, total=0)
        total = 0
        async for left in counts:
            total = max(total, left)
            progress.update(bar, total=total, completed=total - left)


async def _with_lines(session: Session, what: str, counts: AsyncIterator[int]) -> None:
    told = 0
    async for left in counts:
        if left not in (0, told):
            session.note(f"{what}: {left} left")
        told = left
