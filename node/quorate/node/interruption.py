"""Work in the foreground that cleans up behind itself, whichever signal ends it.

What must not be left half done goes to its end first: ``uninterrupted``. Whoever waits for that hears of it
at once: ``telling_of_interruption``.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

__all__ = [
    "INTERRUPTED_STATUS",
    "Terminated",
    "run_interruptible",
    "telling_of_interruption",
    "uninterrupted",
]

#: what shells report of a command that Ctrl-C has ended
INTERRUPTED_STATUS: Final = 130

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Result = TypeVar("Result")


class Terminated(KeyboardInterrupt):
    """By SIGTERM. Whoever stops a command with it means the same as with Ctrl-C: end, and in good order."""


def run_interruptible(work: Coroutine[Any, Any, Result]) -> Result:
    """``asyncio.run``; the first signal cancels ``work``, and KeyboardInterrupt follows once it has ended."""
    signals: list[signal.Signals] = []
    try:
        return asyncio.run(_cancelled_by_signal(work, signals))
    except asyncio.CancelledError:
        if signals[:1] == [signal.SIGTERM]:
            raise Terminated from None
        raise KeyboardInterrupt from None


async def uninterrupted(work: Coroutine[Any, Any, Result]) -> Result:
    """To its end, also if whoever waits is cancelled: that is passed on after it. Its error comes first."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait([task])
        task.result()
        raise


async def telling_of_interruption(work: Coroutine[Any, Any, Result], tell: Callable[[], None]) -> Result:
    """``work``, which may take a while to end when it is cancelled."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            tell()
            task.cancel()
        return await task


async def _cancelled_by_signal(work: Coroutine[Any, Any, Result], signals: list[signal.Signals]) -> Result:
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(work)

    def on_signal(number: signal.Signals) -> None:
        # Only the first. A SIGTERM to a process group comes twice, the second time from make, and must not
        # cancel the cleaning up.
        if not signals:
            task.cancel()
        signals.append(number)

    for number in _SIGNALS:
        # What was ignored from the start stays so: under nohup, and Ctrl-C for a job in the background.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, on_signal, number)
    return await task
