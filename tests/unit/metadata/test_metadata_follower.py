"""A follower's image: always one of the log's, never an older one, whatever happens to the controllers.

``ObservedFollower`` checks each image that is announced: that it is the log's at that offset, and that it is
newer than the one before.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

import pytest

from quorate.chaos.sim.clock import Simulation, run_simulation
from quorate.core.transport import Call
from quorate.errors import InconsistentMetadata, NoController, UnsupportedFeatureLevel
from quorate.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.metadata.publisher import PublisherLimits
from quorate.metadata.records import cluster_record, encode_batch, feature_level_record
from quorate.metadata.snapshot import snapshot_chunks
from quorate.v1.controller_pb2 import (
    CommittedBatch,
    CommittedBatches,
    FollowMetadataRequest,
    FollowMetadataResponse,
)
from quorate.v1.metadata_pb2 import MetadataBatch, MetadataRecord, TopicRecord
from tests.unit.metadata.metadata_cluster import TIMING, Cluster, ObservedFollower

Responses = AsyncGenerator[FollowMetadataResponse, None]


def simulate(scenario: Callable[[Cluster], Awaitable[None]], *, seed: int = 1) -> None:
    async def run(simulation: Simulation) -> None:
        cluster = Cluster(simulation, seed=seed)
        try:
            await scenario(cluster)
        finally:
            await cluster.stop()

    run_simulation(run, seed=seed)


def addresses(*names: str) -> list[str]:
    return [f"{name}:7000" for name in names]


class Following:
    """A follower that runs, for the length of a block."""

    def __init__(self, cluster: Cluster, *names: str, broker_id: int = 0) -> None:
        self.observed = ObservedFollower(cluster, addresses(*names), broker_id=broker_id)

    async def __aenter__(self) -> ObservedFollower:
        self._task = asyncio.ensure_future(self.observed.follower.run())
        return self.observed

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._task


def serve(
    *responses: FollowMetadataResponse,
) -> Callable[[AsyncIterator[FollowMetadataRequest], Call], Responses]:
    """A controller that says just this, and then nothing more."""

    async def follow(requests: AsyncIterator[FollowMetadataRequest], call: Call) -> Responses:
        async for _ in requests:
            for response in responses:
                yield response
            await asyncio.Event().wait()

    return follow


def committed(cluster: Cluster, *offsets: int) -> FollowMetadataResponse:
    batches = [
        CommittedBatch(offset=offset, batch=cluster.walk.batches[offset])
        for offset in offsets
        if offset in cluster.walk.batches
    ]
    return FollowMetadataResponse(committed=CommittedBatches(batches=batches, up_to_offset=offsets[-1]))


def snapshot(image: MetadataImage) -> list[FollowMetadataResponse]:
    return [FollowMetadataResponse(snapshot=chunk) for chunk in snapshot_chunks(image)]


def test_follower_comes_to_the_controllers_image_and_stays_with_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        controller = await cluster.start_controller("c0")
        controller.publish_up_to(10)
        async with Following(cluster, "c0") as observed:
            await observed.follower.wait_for_offset(10)
            for offset in range(11, cluster.end + 1):
                controller.publish_up_to(offset)
                assert await observed.follower.wait_for_offset(offset) == cluster.walk.images[offset]
        assert observed.offsets == [10, *range(11, cluster.end + 1)]

    simulate(scenario)


def test_follower_far_behind_gets_a_whole_image_at_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        controller = await cluster.start_controller("c0", PublisherLimits(tail_offsets_max=2))
        controller.publish_up_to(20)
        async with Following(cluster, "c0") as observed:
            await observed.follower.wait_for_offset(20)
            controller.publish_all()
            await observed.follower.wait_for_offset(cluster.end)
        assert observed.offsets[0] == 20
        assert observed.deltas[0].before is EMPTY_IMAGE

    simulate(scenario)


def test_silent_controller_is_left_for_the_next_one() -> None:
    async def scenario(cluster: Cluster) -> None:
        first, second = [await cluster.start_controller(name) for name in ("c0", "c1")]
        first.publish_up_to(10)
        async with Following(cluster, "c0", "c1") as observed:
            await observed.follower.wait_for_offset(10)
            # Blocked links break no connection for a long while: only silence tells.
            cluster.network.partition(["c0"], ["broker0"])
            left_at = cluster.simulation.loop.time()
            second.publish_all()
            await observed.follower.wait_for_offset(cluster.end)
            assert cluster.simulation.loop.time() - left_at < TIMING.silence_max_s + TIMING.backoff_max_s

    simulate(scenario)


def test_controller_that_gives_signs_of_life_is_not_left() -> None:
    async def scenario(cluster: Cluster) -> None:
        first, second = [await cluster.start_controller(name) for name in ("c0", "c1")]
        first.publish_up_to(10)
        second.publish_all()
        async with Following(cluster, "c0", "c1") as observed:
            await asyncio.sleep(20 * TIMING.silence_max_s)
            assert observed.offsets == [10]

    simulate(scenario)


def test_brokers_begin_with_different_controllers() -> None:
    async def scenario(cluster: Cluster) -> None:
        for number, name in enumerate(("c0", "c1", "c2")):
            (await cluster.start_controller(name)).publish_up_to(10 + number)
        for broker_id in range(6):
            async with Following(cluster, "c0", "c1", "c2", broker_id=broker_id) as observed:
                await observed.follower.wait_for_offset(1)
            assert observed.offsets == [10 + broker_id % 3]

    simulate(scenario)


def test_follower_keeps_its_image_with_a_controller_that_is_behind() -> None:
    async def scenario(cluster: Cluster) -> None:
        limits = PublisherLimits(tail_offsets_max=3)
        ahead, behind = [await cluster.start_controller(name, limits) for name in ("c0", "c1")]
        ahead.publish_up_to(20)
        behind.publish_up_to(8)
        async with Following(cluster, "c0", "c1") as observed:
            await observed.follower.wait_for_offset(20)
            ahead.publisher.stop_serving()
            for offset in (8, 15, 19, 20):
                behind.publish_up_to(offset)
                await asyncio.sleep(1)
                assert observed.follower.image == cluster.walk.images[20]
            behind.publish_up_to(21)
            await observed.follower.wait_for_offset(21)

    simulate(scenario)


def test_follower_waits_while_no_controller_hears_a_leader() -> None:
    async def scenario(cluster: Cluster) -> None:
        controllers = [await cluster.start_controller(name) for name in ("c0", "c1")]
        for controller in controllers:
            controller.publish_up_to(10)
        async with Following(cluster, "c0", "c1") as observed:
            await observed.follower.wait_for_offset(10)
            for controller in controllers:
                controller.publisher.stop_serving()
            await asyncio.sleep(30)
            assert observed.follower.image.offset == 10
            controllers[1].publish_all()
            controllers[1].publisher.resume()
            healed_at = cluster.simulation.loop.time()
            await observed.follower.wait_for_offset(cluster.end)
            assert cluster.simulation.loop.time() - healed_at <= 2 * TIMING.backoff_max_s + 0.1

    simulate(scenario)


def test_follower_of_nobody_tries_with_growing_pauses() -> None:
    async def scenario(cluster: Cluster) -> None:
        asked_at: list[float] = []

        async def follow(requests: AsyncIterator[FollowMetadataRequest], call: Call) -> Responses:
            asked_at.append(cluster.simulation.loop.time())
            raise UnsupportedFeatureLevel("what a controller says about itself does not stop a broker")
            yield

        await cluster.start_service("c0", follow)
        async with Following(cluster, "c0"):
            await asyncio.sleep(20)
        pauses = [after - before for before, after in itertools.pairwise(asked_at)]
        assert pauses[0] < 0.1
        assert all(0.5 * TIMING.backoff_max_s < pause < 1.1 * TIMING.backoff_max_s for pause in pauses[5:])
        assert len(asked_at) < 50

    simulate(scenario)


def test_brokers_whose_controller_died_do_not_come_back_in_step() -> None:
    async def scenario(cluster: Cluster) -> None:
        asked_at: dict[int, list[float]] = {1: [], 2: []}

        async def follow(requests: AsyncIterator[FollowMetadataRequest], call: Call) -> Responses:
            async for request in requests:
                asked_at[request.broker_id].append(cluster.simulation.loop.time())
            raise NoController("for now")
            yield

        await cluster.start_service("c0", follow)
        async with Following(cluster, "c0", broker_id=1), Following(cluster, "c0", broker_id=2):
            await asyncio.sleep(20)
        pauses = [
            [after - before for before, after in itertools.pairwise(times)] for times in asked_at.values()
        ]
        # Beyond what the network's delays make of it.
        assert sum(abs(one - other) > 0.05 for one, other in zip(*pauses, strict=False)) > 10

    simulate(scenario)


def test_pauses_start_short_again_after_a_controller_was_heard() -> None:
    async def scenario(cluster: Cluster) -> None:
        asked_at: list[float] = []

        async def follow(requests: AsyncIterator[FollowMetadataRequest], call: Call) -> Responses:
            asked_at.append(cluster.simulation.loop.time())
            if len(asked_at) == 10:
                yield committed(cluster, *range(1, 6))
            raise NoController("for now")

        await cluster.start_service("c0", follow)
        async with Following(cluster, "c0") as observed:
            await observed.follower.wait_for_offset(5)
            await asyncio.sleep(1)
        assert asked_at[9] - asked_at[8] > 0.5 * TIMING.backoff_max_s
        assert asked_at[10] - asked_at[9] < 2 * TIMING.backoff_min_s

    simulate(scenario)


def test_broken_connection_in_the_middle_of_a_snapshot_changes_nothing() -> None:
    async def scenario(cluster: Cluster) -> None:
        chunk, *_ = snapshot(cluster.walk.images[20])
        chunk.snapshot.is_last = False
        await cluster.start_service("c0", serve(chunk))
        second = await cluster.start_controller("c1")
        second.publish_up_to(15)
        async with Following(cluster, "c0", "c1") as observed:
            await observed.follower.wait_for_offset(15)
            assert observed.offsets == [15]

    simulate(scenario)


@pytest.mark.parametrize("offset", [10, 15])
def test_snapshot_that_is_not_newer_is_refused(offset: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.start_service(
            "c0", serve(committed(cluster, *range(1, 16)), *snapshot(cluster.walk.images[offset]))
        )
        second = await cluster.start_controller("c1")
        second.publish_up_to(18)
        async with Following(cluster, "c0", "c1") as observed:
            await observed.follower.wait_for_offset(18)
            assert observed.offsets == [15, 18]

    simulate(scenario)


def test_batches_that_come_twice_are_applied_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        twice = [committed(cluster, *range(1, 6)), committed(cluster, *range(3, 9)), committed(cluster, 4)]
        await cluster.start_service("c0", serve(*twice))
        async with Following(cluster, "c0") as observed:
            await observed.follower.wait_for_offset(8)
            await asyncio.sleep(1)
            assert observed.offsets == [5, 8]

    simulate(scenario)


def test_batches_within_a_snapshot_are_not_believed() -> None:
    async def scenario(cluster: Cluster) -> None:
        chunk, *_ = snapshot(cluster.walk.images[20])
        chunk.snapshot.is_last = False
        await cluster.start_service("c0", serve(chunk, committed(cluster, *range(1, 11))))
        async with Following(cluster, "c0") as observed:
            await asyncio.sleep(5)
            assert observed.offsets == []

    simulate(scenario)


def test_image_is_the_same_however_batches_are_put_together() -> None:
    async def scenario(cluster: Cluster) -> None:
        for number, size in enumerate((1, 3, 7, 1000)):
            offsets = range(1, cluster.end + 1)
            parts = [offsets[start : start + size] for start in range(0, len(offsets), size)]
            await cluster.start_service(f"c{number}", serve(*(committed(cluster, *part) for part in parts)))
            async with Following(cluster, f"c{number}") as observed:
                assert await observed.follower.wait_for_offset(cluster.end) == cluster.walk.image
            assert len(observed.offsets) == len(parts)

    simulate(scenario)


async def _run_to_its_end(cluster: Cluster, *responses: FollowMetadataResponse) -> None:
    await cluster.start_service("c0", serve(committed(cluster, *range(1, 11)), *responses))
    observed = ObservedFollower(cluster, addresses("c0"), broker_id=0)
    try:
        await observed.follower.run()
    finally:
        assert observed.offsets == [10], "the image stays as it was"


def _batch_at_11(encoded: bytes) -> FollowMetadataResponse:
    batch = CommittedBatch(offset=11, batch=MetadataBatch.FromString(encoded))
    return FollowMetadataResponse(committed=CommittedBatches(batches=[batch], up_to_offset=11))


def test_batches_of_another_cluster_are_not_applied() -> None:
    async def scenario(cluster: Cluster) -> None:
        foreign = committed(cluster, 11)
        foreign.committed.cluster_id = "another"
        with pytest.raises(InconsistentMetadata, match=r"correct controller\.voters"):
            await _run_to_its_end(cluster, foreign)

    simulate(scenario)


def test_a_controller_with_another_image_at_the_same_offset_is_not_followed() -> None:
    async def scenario(cluster: Cluster) -> None:
        different = committed(cluster, 11)
        different.committed.digest = bytes(16)
        with pytest.raises(InconsistentMetadata, match="differs from the controller's"):
            await _run_to_its_end(cluster, different)

    simulate(scenario)


def test_software_that_is_too_old_stops_following() -> None:
    topic = MetadataRecord(topic=TopicRecord(topic_id="n" * 22, name="new"))
    topic.topic.MergeFromString(b"\xf8\x3f\x01")
    for newer in (
        _batch_at_11(encode_batch([topic])),
        _batch_at_11(encode_batch([MetadataRecord()])),
        _batch_at_11(encode_batch([feature_level_record(2)])),
        FollowMetadataResponse(),
    ):

        async def scenario(cluster: Cluster, newer: FollowMetadataResponse = newer) -> None:
            with pytest.raises(UnsupportedFeatureLevel):
                await _run_to_its_end(cluster, newer)

        simulate(scenario)


def test_records_that_do_not_fit_stop_the_follower() -> None:
    async def scenario(cluster: Cluster) -> None:
        with pytest.raises(InconsistentMetadata):
            await _run_to_its_end(cluster, _batch_at_11(encode_batch([cluster_record("another", 0)])))

    simulate(scenario)


def test_snapshot_of_another_cluster_stops_the_follower() -> None:
    async def scenario(cluster: Cluster) -> None:
        other = MetadataImage(offset=50)
        with pytest.raises(InconsistentMetadata, match=r"controller\.voters"):
            await _run_to_its_end(cluster, *snapshot(other))

    simulate(scenario)


def test_damaged_snapshot_stops_the_follower() -> None:
    async def scenario(cluster: Cluster) -> None:
        image = dataclasses.replace(cluster.walk.image, digest=1)
        with pytest.raises(InconsistentMetadata, match="digest"):
            await _run_to_its_end(cluster, *snapshot(image))

    simulate(scenario)


@pytest.mark.parametrize("seed", range(20))
def test_follower_survives_whatever_happens_to_network_and_controllers(seed: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        rng, network = cluster.simulation.rng, cluster.network
        names = ["c0", "c1"]
        controllers = [
            await cluster.start_controller(name, PublisherLimits(tail_offsets_max=rng.randint(1, 10)))
            for name in names
        ]
        async with Following(cluster, *names, broker_id=seed) as observed:
            broker = f"broker{seed}"
            while min(controller.offset for controller in controllers) < cluster.end:
                controller = rng.choice(controllers)
                name = names[controllers.index(controller)]
                event = rng.randrange(8)
                if event == 0:
                    network.partition([name], [broker])
                elif event == 1:
                    network.block(name, broker)
                elif event == 2:
                    network.heal()
                elif event == 3:
                    network.break_connections(name, broker)
                elif event == 4:
                    controller.publisher.stop_serving()
                elif event == 5:
                    controller.publisher.resume()
                elif event == 6:
                    controller.reset_to(min(controller.offset + rng.randint(0, 3), cluster.end))
                else:
                    controller.publish_up_to(min(controller.offset + rng.randint(1, 4), cluster.end))
                await asyncio.sleep(rng.expovariate(2.0))
            network.heal()
            for controller in controllers:
                controller.publisher.resume()
            assert await observed.follower.wait_for_offset(cluster.end) == cluster.walk.image

    simulate(scenario, seed=seed)
