"""BrokerService: a handler for each of its methods, and their common stop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from quorate.broker.handlers.appending import Appender
from quorate.broker.handlers.fetch import FetchHandler
from quorate.broker.handlers.fetch_stream import FetchStreamHandler
from quorate.broker.handlers.get_metadata import GetMetadataHandler
from quorate.broker.handlers.init_producer_id import InitProducerIdHandler
from quorate.broker.handlers.list_offsets import find_offset
from quorate.broker.handlers.lookup import LookupHandler
from quorate.broker.handlers.offset_for_leader_epoch import find_epoch_end
from quorate.broker.handlers.produce import ProduceHandler
from quorate.broker.handlers.produce_stream import ProduceStreamHandler
from quorate.broker.handlers.request_memory import RequestMemory
from quorate.broker.hosted import Hosted
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig
from quorate.core.ids import ProducerId
from quorate.core.transport import Service
from quorate.v1 import broker_pb2

__all__ = ["BrokerService"]


class BrokerService:
    def __init__(
        self,
        config: NodeConfig,
        hosted: Hosted,
        clock: Clock,
        *,
        next_producer_id: Callable[[], Awaitable[ProducerId]],
    ) -> None:
        bytes_max = config.queued_max_request_bytes
        appender = Appender(config, hosted, clock)
        self._fetch = FetchHandler(config, hosted, clock)
        self._fetch_stream = FetchStreamHandler(self._fetch)
        self._produce_stream = ProduceStreamHandler(appender, hosted, clock, RequestMemory(bytes_max))
        self.service = Service(
            broker_pb2.DESCRIPTOR.services_by_name["BrokerService"],
            {
                "Produce": ProduceHandler(appender, hosted, clock, RequestMemory(bytes_max)),
                "Fetch": self._fetch,
                "ProduceStream": self._produce_stream,
                "FetchStream": self._fetch_stream,
                "ListOffsets": LookupHandler(config, hosted, broker_pb2.ListOffsetsResponse, find_offset),
                "OffsetForLeaderEpoch": LookupHandler(
                    config, hosted, broker_pb2.OffsetForLeaderEpochResponse, find_epoch_end
                ),
                "GetMetadata": GetMetadataHandler(hosted),
                "InitProducerId": InitProducerIdHandler(next_producer_id),
            },
            long_polls=("Fetch",),
        )

    def release_waiting(self) -> None:
        """Answer the fetches that wait, and let streams end, so that a stop need not wait for them."""
        self._fetch.stop()
        self._fetch_stream.stop()
        self._produce_stream.stop()
