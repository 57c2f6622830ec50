"""Stories of a producer that no walk tells: what befalls a record only if all of it comes together."""

from __future__ import annotations

import asyncio

from quorate.chaos.models.producer.fake_broker import FakeCluster, Trouble, simulate
from quorate.errors import QuorateError

__all__ = ["a_written_batch_is_known_however_long_its_request_takes"]


def a_written_batch_is_known_however_long_its_request_takes() -> None:
    """It shares its request with a partition that nobody answers for, and many of its own follow it."""
    simulate(_batch_beside_a_slow_partition)


async def _batch_beside_a_slow_partition(cluster: FakeCluster) -> None:
    (slow,) = cluster.add_topic("slow")
    (fast,) = cluster.add_topic("fast")
    assert slow.leader == fast.leader
    async with cluster.producer(batch_bytes=100) as producer:
        for topic in ("slow", "fast"):
            await (await producer.send(topic, b"known"))
        slow.script.append(Trouble.SILENT)
        sent = [await producer.send("slow", b"s"), await producer.send("fast", b"0")]
        for number in range(1, 13):
            sent.append(await producer.send("fast", b"%060d" % number))
            await asyncio.sleep(0.01)
        assert fast.log_end > 2, "nothing follows it: then this is no story"
        assert not sent[1].done()
        cluster.network.break_connections("client", f"b{fast.leader}")
        try:
            offsets = [(await each).offset for each in sent]
        except QuorateError as error:
            raise AssertionError(f"a committed record was given up: {error}") from error
    assert offsets == [1, *range(1, 14)]
