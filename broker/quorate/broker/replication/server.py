"""The leader's end of replication: one stream for each follower.

No lease is asked for here (rule 37). What a leader sends to followers is fenced by leader epochs: whoever has
moved on drops it, and whoever has not is right to take it.
"""

from __future__ import annotations

from quorate.broker.replication.follower_stream import FindPartition, FollowerStream
from quorate.core.clock import Clock
from quorate.core.ids import BrokerId
from quorate.core.logging import get_logger
from quorate.core.served_exchange import ExchangeHandler, ServedExchange
from quorate.core.transport import Call
from quorate.errors import InvalidRequest, NotLeaderOrFollower, StaleBrokerEpoch, Unavailable
from quorate.v1.replica_pb2 import FollowerHello, ReplicateRequest

__all__ = ["ReplicationServer"]

log = get_logger(__name__)


class ReplicationServer(ExchangeHandler):
    """Handler of ReplicaService.Replicate."""

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

    def open(self, exchange: ServedExchange, call: Call) -> _Following:
        return _Following(self, exchange, call)

    def begin(self, hello: FollowerHello, exchange: ServedExchange) -> FollowerStream:
        """The follower has said who it is."""
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
            before.replace(Unavailable(f"broker {follower} has opened another stream", broker_id=follower))
        stream = self._streams[follower] = FollowerStream(
            hello,
            self._find,
            exchange,
            clock=self._clock,
            response_bytes_max=self._response_bytes_max,
            partition_bytes_max=self._partition_bytes_max,
        )
        return stream

    def forget(self, stream: FollowerStream) -> None:
        """It has ended; another one may have taken its place."""
        if self._streams.get(stream.broker_id) is stream:
            del self._streams[stream.broker_id]


class _Following:
    """One call of a follower, which begins by saying who it is."""

    def __init__(self, server: ReplicationServer, exchange: ServedExchange, call: Call) -> None:
        self._server = server
        self._exchange = exchange
        self._call = call
        self._stream: FollowerStream | None = None

    def on_request(self, request: ReplicateRequest) -> None:
        stream = self._stream
        if stream is None:
            stream = self._begin(request)
        stream.take(request)

    def _begin(self, first: ReplicateRequest) -> FollowerStream:
        if not first.HasField("hello"):
            raise InvalidRequest("the first request of the stream does not say who follows")
        stream = self._stream = self._server.begin(first.hello, self._exchange)
        log.info(
            "follower_connected",
            follower=stream.broker_id,
            broker_epoch=stream.broker_epoch,
            peer=self._call.peer,
        )
        return stream

    def on_requests_end(self) -> None:
        self._exchange.end()

    def on_ready(self) -> None:
        if self._stream is not None:
            self._stream.on_ready()

    def on_over(self) -> None:
        stream = self._stream
        if stream is not None:
            stream.end()
            self._server.forget(stream)
            log.info("follower_gone", follower=stream.broker_id, broker_epoch=stream.broker_epoch)
