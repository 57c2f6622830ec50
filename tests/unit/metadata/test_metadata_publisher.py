"""What a controller sends to those who follow its metadata."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.core.ids import TopicId, TopicName
from quorate.errors import InvalidRequest, NoController
from quorate.metadata.delta import apply_batch
from quorate.metadata.digest import digest_to_bytes
from quorate.metadata.image import MetadataImage
from quorate.metadata.publisher import PublisherLimits
from quorate.metadata.records import topic_record
from quorate.metadata.snapshot import SnapshotLoader
from quorate.v1.controller_pb2 import FollowMetadataResponse
from quorate.v1.metadata_pb2 import MetadataBatch
from tests.unit.metadata.metadata_cluster import PublishedWalk
from tests.unit.metadata.metadata_walk import Walk, a_large_image, a_walk

Stream = AsyncGenerator[FollowMetadataResponse, None]


def simulate(scenario: Callable[[Simulation], Awaitable[None]]) -> None:
    run_simulation(scenario, seed=1)


def serving(simulation: Simulation, walk: Walk, limits: PublisherLimits | None = None) -> PublishedWalk:
    published = PublishedWalk(walk, simulation.clock, limits or PublisherLimits())
    published.publisher.resume()
    return published


async def read_snapshot(stream: Stream) -> MetadataImage:
    loader = SnapshotLoader()
    async for response in stream:
        assert response.WhichOneof("content") == "snapshot"
        image = loader.add(response.snapshot)
        if image is not None:
            return image
    raise AssertionError("the stream ended before the snapshot did")


async def read_offsets(stream: Stream, *, up_to: int) -> list[int]:
    """Of the batches that come until everything up to ``up_to`` is known."""
    offsets: list[int] = []
    async for response in stream:
        assert response.WhichOneof("content") == "committed"
        offsets += [batch.offset for batch in response.committed.batches]
        if response.committed.up_to_offset >= up_to:
            return offsets
    raise AssertionError("the stream ended")


def test_follower_gets_every_batch_from_its_offset_on_in_order() -> None:
    async def scenario(simulation: Simulation) -> None:
        walk = a_walk(1)
        published = serving(simulation, walk)
        published.publish_up_to(30)
        stream = published.publisher.follow(11)
        assert await read_offsets(stream, up_to=30) == [o for o in walk.batches if 11 <= o <= 30]
        published.publish_all()
        assert await read_offsets(stream, up_to=walk.image.offset) == [o for o in walk.batches if o > 30]

    simulate(scenario)


def test_commit_wakes_followers_at_once() -> None:
    async def scenario(simulation: Simulation) -> None:
        published = serving(simulation, a_walk(1))
        stream = published.publisher.follow(1)
        assert not (await anext(stream)).committed.batches
        reading = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.1)
        published.publish_up_to(1)
        assert [batch.offset for batch in (await reading).committed.batches] == [1]
        assert simulation.loop.time() == pytest.approx(0.1)

    simulate(scenario)


def test_new_stream_says_at_once_that_it_is_heard_and_then_gives_signs_of_life() -> None:
    async def scenario(simulation: Simulation) -> None:
        limits = PublisherLimits(sign_of_life_s=0.5)
        published = serving(simulation, a_walk(1), limits)
        published.publish_all()
        stream = published.publisher.follow(published.offset + 1)
        for expected_s in (0.0, 0.5, 1.0):
            committed = (await anext(stream)).committed
            assert (list(committed.batches), committed.up_to_offset) == ([], published.offset)
            assert committed.digest == digest_to_bytes(published.publisher.image.digest)
            assert simulation.loop.time() == pytest.approx(expected_s)

    simulate(scenario)


def test_follower_below_the_tail_gets_a_snapshot_first() -> None:
    async def scenario(simulation: Simulation) -> None:
        walk = a_walk(2)
        published = serving(simulation, walk, PublisherLimits(tail_offsets_max=5))
        published.publish_up_to(40)
        for from_offset in (1, 35):
            stream = published.publisher.follow(from_offset)
            assert await read_snapshot(stream) == walk.images[40]
        assert await read_offsets(published.publisher.follow(36), up_to=40)
        published.publish_up_to(42)
        assert await read_offsets(stream, up_to=42) == [o for o in walk.batches if 40 < o <= 42]

    simulate(scenario)


def test_publisher_that_came_from_a_snapshot_has_only_what_follows_it() -> None:
    async def scenario(simulation: Simulation) -> None:
        walk = a_walk(2)
        published = serving(simulation, walk)
        published.publish_up_to(10)
        published.reset_to(20)
        published.publish_up_to(25)
        assert await read_snapshot(published.publisher.follow(15)) == walk.images[25]
        offsets = await read_offsets(published.publisher.follow(21), up_to=25)
        assert offsets == [o for o in walk.batches if 20 < o <= 25]

    simulate(scenario)


def test_slow_follower_costs_nothing_but_the_tail_and_comes_back_by_a_snapshot() -> None:
    async def scenario(simulation: Simulation) -> None:
        walk = a_walk(3, steps=300)
        limits = PublisherLimits(tail_bytes_max=4_000, tail_offsets_max=50)
        published = serving(simulation, walk, limits)
        publisher = published.publisher
        slow = publisher.follow(1)
        await anext(slow)
        for offset in range(1, walk.image.offset + 1):
            published.publish_up_to(offset)
            held = sum(batch.ByteSize() for batch in publisher._tail.values())
            assert publisher._tail_bytes == held <= limits.tail_bytes_max
            assert len(publisher._tail) <= limits.tail_offsets_max
        assert await read_snapshot(slow) == walk.image

    simulate(scenario)


def test_follower_that_is_slow_within_a_snapshot_gets_that_snapshot_and_what_came_since() -> None:
    async def scenario(simulation: Simulation) -> None:
        image = a_large_image()
        publisher = serving(simulation, a_walk(4)).publisher
        publisher.reset(image)
        stream = publisher.follow(1)
        loader = SnapshotLoader()
        loaded = loader.add((await anext(stream)).snapshot)
        assert loaded is None
        records = [topic_record(TopicId("n" * 22), TopicName("new"))]
        newer = apply_batch(image, records, image.offset + 1)
        publisher.publish(newer, MetadataBatch(records=records))
        while loaded is None:
            loaded = loader.add((await anext(stream)).snapshot)
        assert loaded == image
        assert await read_offsets(stream, up_to=newer.offset) == [newer.offset]

    simulate(scenario)


def test_message_is_bounded_unless_one_batch_is_larger() -> None:
    async def scenario(simulation: Simulation) -> None:
        walk = a_walk(5)
        published = serving(simulation, walk, PublisherLimits(response_bytes_max=300))
        published.publish_all()
        stream = published.publisher.follow(1)
        seen: list[int] = []
        while not seen or seen[-1] < max(walk.batches):
            batches = (await anext(stream)).committed.batches
            assert len(batches) == 1 or sum(batch.ByteSize() for batch in batches) <= 300
            seen += [batch.offset for batch in batches]
        assert seen == list(walk.batches)

    simulate(scenario)


def test_follower_that_is_ahead_waits_and_is_sent_nothing_old() -> None:
    async def scenario(simulation: Simulation) -> None:
        walk = a_walk(6)
        published = serving(simulation, walk, PublisherLimits(tail_offsets_max=3))
        published.publish_up_to(20)
        stream = published.publisher.follow(31)
        for offset in (20, 25, 30):
            published.publish_up_to(offset)
            committed = (await anext(stream)).committed
            assert (list(committed.batches), committed.up_to_offset) == ([], offset)
        published.publish_up_to(33)
        assert await read_offsets(stream, up_to=33) == [o for o in walk.batches if 31 <= o <= 33]

    simulate(scenario)


def test_controller_that_hears_no_leader_ends_every_stream_and_takes_no_new_one() -> None:
    async def scenario(simulation: Simulation) -> None:
        published = serving(simulation, a_walk(7))
        published.publish_all()
        streams = [published.publisher.follow(offset) for offset in (1, published.offset + 1)]
        for stream in streams:
            await anext(stream)
        reading = [asyncio.ensure_future(anext(stream)) for stream in streams]
        await asyncio.sleep(0.01)
        published.publisher.stop_serving()
        for read in reading:
            with pytest.raises(NoController):
                await read
        assert simulation.loop.time() == pytest.approx(0.01), "they end at once"
        with pytest.raises(NoController):
            await anext(published.publisher.follow(1))
        assert not published.publisher.is_serving
        published.publisher.resume()
        assert await read_offsets(published.publisher.follow(1), up_to=published.offset)

    simulate(scenario)


def test_snapshot_under_way_ends_when_no_leader_is_heard() -> None:
    async def scenario(simulation: Simulation) -> None:
        publisher = serving(simulation, a_walk(7)).publisher
        publisher.reset(a_large_image())
        stream = publisher.follow(1)
        assert not (await anext(stream)).snapshot.is_last
        publisher.stop_serving()
        with pytest.raises(NoController):
            await anext(stream)

    simulate(scenario)


def test_controller_serves_nothing_until_it_has_heard_a_leader() -> None:
    async def scenario(simulation: Simulation) -> None:
        published = PublishedWalk(a_walk(7), simulation.clock, PublisherLimits())
        published.publish_all()
        with pytest.raises(NoController):
            await anext(published.publisher.follow(1))

    simulate(scenario)


def test_stream_that_is_closed_leaves_nothing_behind() -> None:
    async def scenario(simulation: Simulation) -> None:
        published = serving(simulation, a_walk(7))
        stream = published.publisher.follow(1)
        await anext(stream)
        reading = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.01)
        assert len(published.publisher._waiters) == 1
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert not published.publisher._waiters

    simulate(scenario)


@pytest.mark.parametrize("from_offset", [0, -1])
def test_offset_before_the_first_is_refused(from_offset: int) -> None:
    async def scenario(simulation: Simulation) -> None:
        with pytest.raises(InvalidRequest):
            await anext(serving(simulation, a_walk(7)).publisher.follow(from_offset))

    simulate(scenario)


def test_recent_digests_are_kept_for_comparison() -> None:
    async def scenario(simulation: Simulation) -> None:
        walk = a_walk(8)
        published = serving(simulation, walk, PublisherLimits(digests_max=10))
        published.publish_all()
        publisher, end = published.publisher, walk.image.offset
        assert publisher.image is walk.image
        for offset in range(end - 9, end + 1):
            assert publisher.digest_at(offset) == walk.images[offset].digest
        assert publisher.digest_at(end - 10) is None
        assert publisher.digest_at(end + 1) is None

    simulate(scenario)
