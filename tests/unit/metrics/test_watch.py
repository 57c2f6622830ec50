"""What is looked at a few times a second is looked at for ever."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from quorate.node.metrics.watch import watch


async def test_a_look_that_fails_ends_neither_itself_nor_the_others() -> None:
    looked: list[str] = []
    enough = asyncio.Event()

    def broken() -> None:
        looked.append("broken")
        raise ValueError("no such partition")

    def sound() -> None:
        looked.append("sound")
        if looked.count("sound") == 2:
            enough.set()

    with capture_logs() as events:
        task = asyncio.create_task(watch([broken, sound]))
        await enough.wait()
        task.cancel()
        await asyncio.wait([task])
    assert looked == ["broken", "sound"] * 2
    assert [each["event"] for each in events] == ["metrics_look_failed"] * 2
