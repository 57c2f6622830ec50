"""Controllers that serve a given log, for tests of those who follow it."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from quorate.chaos.sim.clock import Simulation
from quorate.chaos.sim.network import SimNetwork
from quorate.chaos.sim.server import SimServer
from quorate.chaos.sim.transport import SimTransport
from quorate.core.clock import Clock
from quorate.core.ids import BrokerId
from quorate.core.transport import Call, CallKind, Handler, Service, StreamHandler, methods_of
from quorate.errors import UnsupportedOperation
from quorate.metadata.changes import MetadataDelta
from quorate.metadata.follower import FollowerTiming, MetadataFollower
from quorate.metadata.image import MetadataImage
from quorate.metadata.publisher import MetadataPublisher, PublisherLimits
from quorate.v1 import controller_pb2
from quorate.v1.controller_pb2 import FollowMetadataRequest, FollowMetadataResponse
from tests.unit.metadata.metadata_walk import Walk

__all__ = ["TIMING", "Cluster", "ObservedFollower", "PublishedWalk"]

PORT = 7000
TIMING = FollowerTiming()
_DESCRIPTOR = controller_pb2.DESCRIPTOR.services_by_name["ControllerService"]


class PublishedWalk:
    """A publisher that has heard of the first ``offset`` entries of a log."""

    def __init__(self, walk: Walk, clock: Clock, limits: PublisherLimits) -> None:
        self._walk = walk
        self.publisher = MetadataPublisher(clock, limits=limits)
        self.offset = 0

    def publish_up_to(self, offset: int) -> None:
        while self.offset < offset:
            self.offset += 1
            image, batch = self._walk.images[self.offset], self._walk.batches.get(self.offset)
            if batch is None:
                self.publisher.advance(image)
            else:
                self.publisher.publish(image, batch)

    def publish_all(self) -> None:
        self.publish_up_to(self._walk.image.offset)

    def reset_to(self, offset: int) -> None:
        self.offset = offset
        self.publisher.reset(self._walk.images[offset])

    async def follow(
        self, requests: AsyncIterator[FollowMetadataRequest], call: Call
    ) -> AsyncGenerator[FollowMetadataResponse, None]:
        async for request in requests:
            stream = self.publisher.follow(request.from_offset)
            try:
                async for response in stream:
                    yield response
            finally:
                await stream.aclose()


class ObservedFollower:
    """A follower whose images are checked against the log, one by one."""

    def __init__(
        self, cluster: Cluster, addresses: list[str], *, broker_id: int, timing: FollowerTiming = TIMING
    ) -> None:
        self._walk = cluster.walk
        #: offsets of the images that it announced
        self.offsets: list[int] = []
        self.deltas: list[MetadataDelta] = []
        self.follower = MetadataFollower(
            SimTransport(cluster.network, f"broker{broker_id}"),
            addresses,
            clock=cluster.simulation.clock,
            broker_id=BrokerId(broker_id),
            on_image=self._observe,
            timing=timing,
        )

    def _observe(self, image: MetadataImage, delta: MetadataDelta) -> None:
        assert image is self.follower.image
        assert image == self._walk.images[image.offset]
        assert delta.before.offset == (self.offsets[-1] if self.offsets else 0)
        assert delta.after is image
        assert image.offset > delta.before.offset, "an image went back"
        self.offsets.append(image.offset)
        self.deltas.append(delta)


class Cluster:
    """Controllers c0, c1, … on a simulated network."""

    def __init__(self, simulation: Simulation, *, seed: int = 1, steps: int = 30) -> None:
        self.simulation = simulation
        self.network = SimNetwork(simulation.loop, simulation.rng)
        self.walk = Walk(random.Random(seed))
        for _ in range(steps):
            self.walk.step()
        self._servers: list[SimServer] = []

    @property
    def end(self) -> int:
        return self.walk.image.offset

    async def start_controller(self, name: str, limits: PublisherLimits | None = None) -> PublishedWalk:
        """It knows nothing yet, and serves."""
        controller = PublishedWalk(self.walk, self.simulation.clock, limits or PublisherLimits())
        controller.publisher.resume()
        await self.start_service(name, controller.follow)
        return controller

    async def start_service(
        self, name: str, follow: StreamHandler[FollowMetadataRequest, FollowMetadataResponse]
    ) -> None:
        handlers: dict[str, Handler] = {
            method: _refuse_stream if declared.kind is CallKind.STREAM else _refuse
            for method, declared in methods_of(_DESCRIPTOR).items()
        }
        service = Service(_DESCRIPTOR, {**handlers, "FollowMetadata": follow})
        transport = SimTransport(self.network, name)
        self._servers.append(await transport.serve(f"{name}:{PORT}", [service]))

    async def stop(self) -> None:
        for server in self._servers:
            await server.stop(0)


async def _refuse(request: Any, call: Call) -> Any:
    raise UnsupportedOperation("these controllers only publish")


async def _refuse_stream(requests: AsyncIterator[Any], call: Call) -> AsyncGenerator[Any, None]:
    raise UnsupportedOperation("these controllers only publish")
    yield
