"""The leader's end of replication: one stream for each follower.

No lease is asked for here (rule 37). What a leader sends to followers is fenced by leader epochs: whoever has
moved on drops it, and whoever has not is right to take it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from quorate.broker.replication.follower_stream import FindPartition, FollowerStream
from quorate.core.clock import Clock
from quorate.core.ids import BrokerId
from quorate.core.logging import get_logger
from quorate.core.transport import Call
from quorate.errors import InvalidRequest, NotLeaderOrFollower, StaleBrokerEpoch, Unavailable
from quorate.v1.replica_pb2 import FollowerHello, ReplicateRequest, ReplicateResponse

__all__ = ["ReplicationServer"]

log = get_logger(__name__)


class ReplicationServer:
    def __init__(
        self,
        broker_id: BrokerId,
        find: FindPartition,
        *,
        clock: Clock,
        response_bytes_max: int,
        partition_bytes_max: int,
    ) -> None:
        self._broker_id = broker_id
        self._find = find
        self._clock = clock
        self._response_bytes_max = response_bytes_max
        self._partition_bytes_max = partition_bytes_max
        #: one for each follower: leaderships tell their news to one stream of a broker
        self._streams: dict[BrokerId, FollowerStream] = {}

    async def replicate(
        self, requests: AsyncIterator[ReplicateRequest], call: Call
    ) -> AsyncGenerator[ReplicateResponse, None]:
        """Handler of ReplicaService.Replicate."""
        first = await anext(requests, None)
        if first is None:
            return
        if not first.HasField("hello"):
            raise InvalidRequest("the first request of the stream does not say who follows")
        stream = self._open(first.hello)
        log.info(
            "follower_connected", follower=stream.broker_id, broker_epoch=stream.broker_epoch, peer=call.peer
        )
        reading = asyncio.create_task(_read(stream, first, requests), name=f"follower-{stream.broker_id}")
        try:
            while (response := await stream.next_response()) is not None:
                yield response
        finally:
            stream.end()
            if self._streams.get(stream.broker_id) is stream:
                del self._streams[stream.broker_id]
            reading.cancel()
            await asyncio.wait([reading])
            log.info("follower_gone", follower=stream.broker_id, broker_epoch=stream.broker_epoch)

    def _open(self, hello: FollowerHello) -> FollowerStream:
        if hello.leader_id != self._broker_id:
            # The address has got a new owner.
            raise NotLeaderOrFollower(
                f"this is broker {self._broker_id}, not {hello.leader_id}", broker_id=self._broker_id
            )
        follower = BrokerId(hello.broker_id)
        before = self._streams.get(follower)
        if before is not None:
            if before.broker_epoch > hello.broker_epoch:
                raise StaleBrokerEpoch(
                    f"broker {follower} follows with epoch {before.broker_epoch}, this is an earlier run",
                    broker_id=follower,
                    broker_epoch=hello.broker_epoch,
                )
            # Its connection broke, and this side has not noticed yet.
            before.end(Unavailable(f"broker {follower} has opened another stream", broker_id=follower))
        stream = self._streams[follower] = FollowerStream(
            hello,
            self._find,
            clock=self._clock,
            response_bytes_max=self._response_bytes_max,
            partition_bytes_max=self._partition_bytes_max,
        )
        return stream


async def _read(
    stream: FollowerStream, first: ReplicateRequest, requests: AsyncIterator[ReplicateRequest]
) -> None:
    try:
        stream.take(first)
        async for request in requests:
            stream.take(request)
    except Exception as error:  # noqa: BLE001 - it is raised where the responses are made
        stream.end(error)
    else:
        stream.end()
