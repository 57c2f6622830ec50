"""How long nobody's write is acknowledged after a leader was killed.

A client writes one record after the other, each acknowledged before the next is sent. The time runs from the
signal to the acknowledgement of the first write that was sent once the process was gone: what was under way
before may have been acknowledged by the dead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from bench.cluster.processes import ClientFailed, running

__all__ = ["seconds_until_acknowledged"]

_WRITES_BEFORE: Final = 200
_TIMEOUT_S: Final = 120.0


async def seconds_until_acknowledged(writer: tuple[str, ...], kill: Callable[[], Awaitable[None]]) -> float:
    """``writer`` is a command that writes, and prints when each write was sent and acknowledged."""
    async with running(*writer) as process, asyncio.timeout(_TIMEOUT_S):
        for _ in range(_WRITES_BEFORE):
            await _next_write(process)
        killed_at = time.monotonic()
        await kill()
        gone_at = time.monotonic()
        while True:
            sent_at, acknowledged_at = await _next_write(process)
            if sent_at > gone_at:
                return acknowledged_at - killed_at


async def _next_write(process: asyncio.subprocess.Process) -> tuple[float, float]:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        _, errors = await process.communicate()
        raise ClientFailed(f"the writer ended: {errors.decode(errors='replace')[-4000:]}")
    sent_at, acknowledged_at = map(float, line.split())
    return sent_at, acknowledged_at
