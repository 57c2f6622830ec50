"""Committed metadata for everybody who follows it.

Every controller has one. It holds the committed image and the last batches that led to it. A follower names
the first offset that it lacks: it gets batches from there on where they are still held, and otherwise the
whole image first. The stream never ends by itself; when nothing is committed for a while, a message without
batches says that the controller is alive and still hears from a leader.

Invariants:

- Only what is committed goes out: whoever calls ``publish`` has it from the quorum.
- Memory does not depend on followers. Nothing is queued for them: each stream makes its next message when the
  transport asks for it, from the tail that all share. One that reads too slowly finds the tail gone on, and
  gets a snapshot. What it can hold is one image, and images share what they have in common.
- A controller that has not heard from a leader for two election time-outs may be cut off: it ends its
  streams, so that no broker follows an isolated one for ever (rule 40). It starts like that, too.

A follower that is ahead of this controller waits: it has followed another one that knew of more commits, and
this one will learn of them. It is never sent an image that is older than its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from quorate.core.clock import Clock
from quorate.errors import InvalidRequest, NoController
from quorate.metadata.digest import digest_to_bytes
from quorate.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.metadata.snapshot import snapshot_chunks
from quorate.v1.controller_pb2 import CommittedBatch, CommittedBatches, FollowMetadataResponse
from quorate.v1.metadata_pb2 import MetadataBatch

__all__ = ["MetadataPublisher", "PublisherLimits"]


@dataclass(frozen=True, slots=True)
class PublisherLimits:
    #: recent batches that are held for followers; more spares snapshots and takes memory
    tail_bytes_max: int = 16 << 20
    tail_offsets_max: int = 10_000
    #: of one message, unless a single batch is larger
    response_bytes_max: int = 1 << 20
    #: longest silence of a stream
    sign_of_life_s: float = 0.5
    #: recent digests that are held, to be compared with other nodes'
    digests_max: int = 1_000


_DEFAULT_LIMITS: Final = PublisherLimits()


class MetadataPublisher:
    def __init__(self, clock: Clock, *, limits: PublisherLimits = _DEFAULT_LIMITS) -> None:
        self._clock = clock
        self._limits = limits
        self._image = EMPTY_IMAGE
        self._is_serving = False
        #: committed batches by offset; offsets without records are absent
        self._tail: dict[int, CommittedBatch] = {}
        #: whoever has everything before this offset can go on from the tail
        self._tail_start = 1
        self._tail_bytes = 0
        #: offsets and the digests of the images there, the oldest first
        self._digests: deque[tuple[int, int]] = deque(maxlen=limits.digests_max)
        #: streams that have sent everything; in the order in which they came
        self._waiters: dict[asyncio.Future[None], None] = {}

    @property
    def image(self) -> MetadataImage:
        """As of the last commit that this node knows of."""
        return self._image

    @property
    def is_serving(self) -> bool:
        return self._is_serving

    def digest_at(self, offset: int) -> int | None:
        """None: too long ago, not there yet, or passed over by a snapshot."""
        return next((digest for at, digest in reversed(self._digests) if at == offset), None)

    # ---- what the quorum says

    def publish(self, image: MetadataImage, batch: MetadataBatch) -> None:
        """``batch`` was committed at ``image.offset`` and led to ``image``."""
        entry = CommittedBatch(offset=image.offset, batch=batch)
        self._tail[image.offset] = entry
        self._tail_bytes += entry.ByteSize()
        self._move_to(image)

    def advance(self, image: MetadataImage) -> None:
        """An entry without records was committed: nothing but the offset has changed."""
        self._move_to(image)

    def reset(self, image: MetadataImage) -> None:
        """Batches before ``image`` are not known: it came from a snapshot."""
        self._tail.clear()
        self._tail_bytes = 0
        self._tail_start = image.offset + 1
        self._move_to(image)

    def resume(self) -> None:
        """A leader was heard."""
        self._is_serving = True

    def stop_serving(self) -> None:
        """No leader was heard for two election time-outs (rule 40). Ends every stream."""
        self._is_serving = False
        self._wake_all()

    def _move_to(self, image: MetadataImage) -> None:
        assert image.offset >= self._image.offset
        self._image = image
        self._digests.append((image.offset, image.digest))
        self._trim_tail()
        self._wake_all()

    def _trim_tail(self) -> None:
        limits = self._limits
        end = self._image.offset + 1
        while self._tail_start < end and (
            self._tail_bytes > limits.tail_bytes_max or end - self._tail_start > limits.tail_offsets_max
        ):
            dropped = self._tail.pop(self._tail_start, None)
            self._tail_bytes -= dropped.ByteSize() if dropped is not None else 0
            self._tail_start += 1

    def _wake_all(self) -> None:
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            _wake(waiter)

    # ---- what a follower gets

    async def follow(self, from_offset: int) -> AsyncGenerator[FollowMetadataResponse, None]:
        """From ``from_offset`` on (inclusive), until the caller goes or ``stop_serving`` is called."""
        if from_offset < 1:
            raise InvalidRequest(f"metadata offsets start at 1; {from_offset} is none", offset=from_offset)
        next_offset = from_offset
        while True:
            self._check_serving()
            if next_offset < self._tail_start:
                image = self._image
                for chunk in snapshot_chunks(image):
                    yield FollowMetadataResponse(snapshot=chunk)
                    self._check_serving()
                    # A transport that takes everything at once must not keep the loop from turning.
                    await asyncio.sleep(0)
                next_offset = image.offset + 1
            else:
                # The first one goes out at once, even without batches: the follower knows that it is heard.
                committed = self._committed_from(next_offset)
                yield FollowMetadataResponse(committed=committed)
                next_offset = max(next_offset, committed.up_to_offset + 1)
            # Meanwhile the tail may have gone on without this follower: the loop looks again.
            if next_offset > self._image.offset:
                await self._changed_or_time_for_sign_of_life()

    def _committed_from(self, next_offset: int) -> CommittedBatches:
        """What there is, up to the bound; without batches it is a sign of life."""
        batches: list[CommittedBatch] = []
        size = 0
        up_to_offset = min(next_offset - 1, self._image.offset)
        for offset in range(next_offset, self._image.offset + 1):
            batch = self._tail.get(offset)
            if batch is not None:
                size += batch.ByteSize()
                if batches and size > self._limits.response_bytes_max:
                    break
                batches.append(batch)
            up_to_offset = offset
        image = self._image
        is_all = up_to_offset == image.offset
        return CommittedBatches(
            batches=batches,
            up_to_offset=up_to_offset,
            cluster_id=image.cluster_id,
            digest=digest_to_bytes(image.digest) if is_all else b"",
        )

    async def _changed_or_time_for_sign_of_life(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        timer = self._clock.call_later(self._limits.sign_of_life_s, lambda: _wake(waiter))
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiters.pop(waiter, None)

    def _check_serving(self) -> None:
        if not self._is_serving:
            raise NoController(
                "this controller hears from no leader: what it knows may be old; follow another one",
                offset=self._image.offset,
            )


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
