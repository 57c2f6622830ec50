"""What is watched is watched for ever."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from quorate.node.metrics.watch import watch


async def test_tick_that_fails_ends_neither_itself_nor_the_others() -> None:
    ticked: list[str] = []
    enough = asyncio.Event()

    def broken() -> None:
        ticked.append("broken")
        raise ValueError("no such partition")

    def sound() -> None:
        ticked.append("sound")
        if ticked.count("sound") == 2:
            enough.set()

    with capture_logs() as events:
        task = asyncio.create_task(watch([broken, sound]))
        await enough.wait()
        task.cancel()
        await asyncio.wait([task])
    assert ticked == ["broken", "sound"] * 2
    assert [each["event"] for each in events] == ["metrics_tick_failed"] * 2
