"""A record that found no room at first."""

from __future__ import annotations

from typing import NamedTuple

from quorate.client.producer.accumulator import Accumulator, TopicQueues
from quorate.client.producer.batch import OnDelivery
from quorate.client.producer.buffer import Ticket
from quorate.client.producer.record_future import RecordFuture
from quorate.core.records import EncodableHeaders
from quorate.v1 import broker_pb2

__all__ = ["Postponed"]


class Postponed(NamedTuple):
    #: the room that it needs
    size: int
    topic: TopicQueues
    value: bytes | None
    key: bytes | None
    headers: EncodableHeaders | None
    #: where it was to go when there was no room, and where it goes; None: wherever records without a key go
    partition: int | None
    timestamp_ms: int | None
    acks: broker_pb2.Acks
    expected_offset: int | None
    on_delivery: OnDelivery | None

    def place(self, accumulator: Accumulator, ticket: Ticket) -> RecordFuture:
        """Whatever happens, the room that was granted is a batch's, or given back."""
        try:
            appended = accumulator.append(
                topic=self.topic,
                value=self.value,
                key=self.key,
                headers=self.headers,
                partition=self.partition,
                timestamp_ms=self.timestamp_ms,
                acks=self.acks,
                expected_offset=self.expected_offset,
                on_delivery=self.on_delivery,
                ticket=ticket,
            )
            assert isinstance(appended, RecordFuture), "the ticket is its room"
            return appended
        except BaseException:
            accumulator.leave(ticket)
            raise
