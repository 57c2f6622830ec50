"""Work in the foreground that cleans up behind itself, whichever signal ends it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

__all__ = ["INTERRUPTED_STATUS", "run_interruptible"]

#: what shells report of a command that Ctrl-C has ended
INTERRUPTED_STATUS: Final = 130

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Result = TypeVar("Result")


def run_interruptible(work: Coroutine[Any, Any, Result]) -> Result:
    """``asyncio.run``; the first signal cancels ``work``, and KeyboardInterrupt follows once it has ended."""
    try:
        return asyncio.run(_cancelled_by_signal(work))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _cancelled_by_signal(work: Coroutine[Any, Any, Result]) -> Result:
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(work)
    is_asked = False

    def on_signal() -> None:
        nonlocal is_asked
        # Only the first. A SIGTERM to a process group comes twice, the second time from make, and must not
        # cancel the cleaning up.
        if not is_asked:
            is_asked = True
            task.cancel()

    for number in _SIGNALS:
        # What was ignored from the start stays so: under nohup, and Ctrl-C for a job in the background.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, on_signal)
    return await task
