"""A node's copy of the cluster's metadata, kept up to date by following a controller.

Any controller will do: they all serve committed records, and some merely know of a commit later than others.
The follower takes one, stays with it while it speaks, and goes to the next when the stream ends, fails or
falls silent. Controllers give signs of life, so silence means that the controller, or the way to it, is dead;
and a controller that is cut off from its quorum ends the stream itself (rule 40).

Invariants:

- The image never goes back. A follower asks for what comes after its own offset, whichever controller it
  asks; one that is behind has nothing for it yet, and a snapshot that is not newer is refused.
- The image is whole: it is replaced after the last chunk of a snapshot, and after all batches of a message.
- What this software does not understand, or what contradicts what it knows, ends ``run`` with an error that
  must stop the node: an image that may be wrong is worse than none. What a *controller* reports about itself
  never does that; the next controller is asked.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Final, NoReturn

from quorate.core.backoff import Backoff
from quorate.core.clock import Clock
from quorate.core.ids import BrokerId
from quorate.core.logging import get_logger
from quorate.core.silence import next_message
from quorate.core.transport import Transport, method_of
from quorate.errors import InconsistentMetadata, QuorateError
from quorate.metadata.changes import MetadataDelta, changes_between, changes_of
from quorate.metadata.delta import advance, apply_batch
from quorate.metadata.digest import digest_to_bytes
from quorate.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.metadata.records import refuse_unknown_fields, unsupported
from quorate.metadata.snapshot import SnapshotLoader
from quorate.v1 import controller_pb2
from quorate.v1.controller_pb2 import (
    CommittedBatches,
    FollowMetadataRequest,
    FollowMetadataResponse,
    MetadataSnapshotChunk,
)
from quorate.v1.metadata_pb2 import MetadataRecord

__all__ = ["FollowerTiming", "MetadataFollower", "OnImage"]

log = get_logger(__name__)

_FOLLOW: Final = method_of(
    controller_pb2.DESCRIPTOR.services_by_name["ControllerService"],
    "FollowMetadata",
    FollowMetadataRequest,
    FollowMetadataResponse,
)

#: called with each new image and what is new in it; must not raise
OnImage = Callable[[MetadataImage, MetadataDelta], None]


@dataclass(frozen=True, slots=True)
class FollowerTiming:
    """Seconds."""

    #: several signs of life; less leaves a dead controller sooner, and a loaded one for nothing
    silence_max_s: float = 2.0
    #: pause before the next controller, doubled each time none of them says anything
    backoff_min_s: float = 0.05
    backoff_max_s: float = 1.0


_DEFAULT_TIMING: Final = FollowerTiming()


class MetadataFollower:
    def __init__(
        self,
        transport: Transport,
        addresses: Sequence[str],
        *,
        clock: Clock,
        broker_id: BrokerId,
        on_image: OnImage,
        timing: FollowerTiming = _DEFAULT_TIMING,
        rng: random.Random | None = None,
    ) -> None:
        """``rng``: for the pauses; None: one that differs from broker to broker."""
        assert addresses
        self._transport = transport
        # Brokers begin with different controllers, so that not all follow the same one.
        first = broker_id % len(addresses)
        self._addresses = (*addresses[first:], *addresses[:first])
        self._clock = clock
        self._broker_id = broker_id
        self._on_image = on_image
        self._timing = timing
        self._rng = random.Random(broker_id) if rng is None else rng
        self._image = EMPTY_IMAGE
        #: of the stream that is being read; None: no snapshot has begun
        self._loader: SnapshotLoader | None = None
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def image(self) -> MetadataImage:
        return self._image

    async def wait_for_offset(self, offset: int) -> MetadataImage:
        """The image once it is at ``offset`` or beyond."""
        if self._image.offset < offset:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append((offset, waiter))
            await waiter
        return self._image

    async def run(self) -> NoReturn:
        """Until it is cancelled; raises what must stop the node."""
        backoff = Backoff(
            self._rng, first_s=self._timing.backoff_min_s, pause_s_max=self._timing.backoff_max_s
        )
        for address in cycle(self._addresses):
            was_heard = await self._follow(address)
            if was_heard:
                backoff.reset()
            # Jittered: all brokers that followed a controller notice its death together.
            await self._clock.sleep(backoff.next_s())
        raise AssertionError("unreachable: there is always a next controller")

    async def _follow(self, address: str) -> bool:
        """Whether anything came from there, before it ended."""
        was_heard = False
        self._loader = None
        request = FollowMetadataRequest(from_offset=self._image.offset + 1, broker_id=self._broker_id)
        channel = self._transport.connect(address)
        stream = channel.stream(_FOLLOW, _only(request), timeout_s=None)
        try:
            while True:
                try:
                    response = await next_message(
                        stream,
                        silence_s_max=self._timing.silence_max_s,
                        clock=self._clock,
                        address=address,
                    )
                except (QuorateError, StopAsyncIteration) as error:
                    log.info("metadata_stream_ended", controller=address, reason=str(error) or "ended")
                    return was_heard
                was_heard = True
                try:
                    self._take(response)
                except _UselessStream as useless:
                    log.warning("metadata_stream_refused", controller=address, reason=str(useless))
                    return was_heard
        finally:
            await stream.aclose()
            await channel.close()

    def _take(self, response: FollowMetadataResponse) -> None:
        kind = response.WhichOneof("content")
        if kind == "committed":
            self._take_committed(response.committed)
        elif kind == "snapshot":
            self._take_chunk(response.snapshot)
        else:
            raise unsupported("a controller sent something that this software does not know")

    def _take_committed(self, committed: CommittedBatches) -> None:
        if self._loader is not None:
            raise _UselessStream("batches in the middle of a snapshot")
        if committed.cluster_id:
            self._check_cluster(committed.cluster_id)
        image = self._image
        records: list[MetadataRecord] = []
        for entry in committed.batches:
            if entry.offset <= image.offset:
                continue
            refuse_unknown_fields(entry.batch)
            image = apply_batch(image, entry.batch.records, entry.offset)
            records.extend(entry.batch.records)
        if committed.up_to_offset > image.offset:
            image = advance(image, committed.up_to_offset)
        _check_digest(image, committed)
        if image is not self._image:
            self._move_to(image, changes_of(self._image, image, records))

    def _take_chunk(self, chunk: MetadataSnapshotChunk) -> None:
        if self._loader is None:
            offset = chunk.header.offset
            if offset <= self._image.offset:
                raise _UselessStream(f"a snapshot at {offset}, and this node is at {self._image.offset}")
            self._loader = SnapshotLoader()
        image = self._loader.add(chunk)
        if image is None:
            return
        self._loader = None
        self._check_cluster(image.cluster_id)
        self._move_to(image, changes_between(self._image, image))

    def _check_cluster(self, cluster_id: str) -> None:
        """Offsets of two clusters look alike: mixed, they would make metadata that never was (rule 42)."""
        if self._image.cluster_id not in ("", cluster_id):
            raise InconsistentMetadata(
                f"a controller of cluster {cluster_id!r} answered, and this node belongs to "
                f"{self._image.cluster_id!r}: correct controller.voters",
                cluster_id=cluster_id,
            )

    def _move_to(self, image: MetadataImage, delta: MetadataDelta) -> None:
        assert image.offset > self._image.offset
        self._image = image
        self._on_image(image, delta)
        waiting, self._waiters = self._waiters, []
        for offset, waiter in waiting:
            if offset > image.offset:
                self._waiters.append((offset, waiter))
            elif not waiter.done():
                waiter.set_result(None)


class _UselessStream(Exception):
    """Nothing is wrong with the metadata, but this stream is of no use: another controller may do better."""


async def _only(request: FollowMetadataRequest) -> AsyncIterator[FollowMetadataRequest]:
    yield request


def _check_digest(image: MetadataImage, committed: CommittedBatches) -> None:
    """Where the same offset holds something else, this node or the controller is wrong."""
    is_comparable = committed.digest and image.offset == committed.up_to_offset
    if is_comparable and digest_to_bytes(image.digest) != committed.digest:
        raise InconsistentMetadata(
            f"the metadata at offset {image.offset} differs from the controller's", offset=image.offset
        )
