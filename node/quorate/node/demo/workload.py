"""Writing to a node without a pause until it dies, and reading everything back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from quorate.client.connection import Connection, raise_if_failed
from quorate.core.clock import Clock
from quorate.core.config import Durability
from quorate.core.records import decode_batch, encode_values, split_batches
from quorate.errors import TransportError
from quorate.node.demo.ledger import Ledger, value_of
from quorate.v1 import admin_pb2, broker_pb2

__all__ = ["TOPIC", "create_topic", "read_partition", "write_until_it_dies"]

TOPIC: Final = "demo"

_BATCH_RECORDS: Final = 50
_BATCHES_IN_FLIGHT: Final = 3
_TIMEOUT_MS: Final = 10_000
_FETCH_BYTES: Final = 4 << 20


async def create_topic(
    connection: Connection, partition_count: int, *, durability: Durability = Durability.FSYNC
) -> None:
    # Small segments, so that kills hit rolls as well.
    configs = {"durability": durability.value, "segment.bytes": "1MiB"}
    request = admin_pb2.CreateTopicRequest(name=TOPIC, partition_count=partition_count, configs=configs)
    await connection.create_topic(request)


async def write_until_it_dies(
    connection: Connection,
    ledgers: Sequence[Ledger],
    clock: Clock,
    *,
    on_acknowledged: Callable[[Ledger], None] = lambda _ledger: None,
) -> None:
    """Returns when every writer has lost the node; several requests are always under way."""
    async with asyncio.TaskGroup() as writers:
        for ledger in ledgers:
            for _ in range(_BATCHES_IN_FLIGHT):
                writers.create_task(_write(connection, ledger, clock, on_acknowledged))


async def _write(
    connection: Connection, ledger: Ledger, clock: Clock, on_acknowledged: Callable[[Ledger], None]
) -> None:
    while True:
        numbers = ledger.send(_BATCH_RECORDS)
        batch = encode_values(
            [value_of(ledger.partition, number) for number in numbers], timestamp_ms=clock.wall_ms()
        )
        request = broker_pb2.ProduceRequest(acks=broker_pb2.ACKS_ALL, timeout_ms=_TIMEOUT_MS)
        request.partitions.add(topic=TOPIC, partition=ledger.partition, batch=batch)
        try:
            [result] = (await connection.produce(request)).partitions
        except TransportError:
            return  # killed: whether the batch was stored is not known
        if not result.error.outcome_unknown:
            raise_if_failed(result)
            ledger.acknowledge(numbers, result.base_offset)
            on_acknowledged(ledger)


async def read_partition(connection: Connection, partition: int) -> AsyncIterator[tuple[int, bytes]]:
    """Every (offset, value) from the beginning to the high watermark."""
    offset = 0
    while True:
        request = broker_pb2.FetchRequest(max_bytes=_FETCH_BYTES)
        request.partitions.add(
            topic=TOPIC, partition=partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES
        )
        [result] = (await connection.fetch(request)).partitions
        raise_if_failed(result)
        for batch in split_batches(result.batches):
            for record in decode_batch(batch):
                yield record.offset, record.value or b""
        offset = result.next_fetch_offset
        if offset >= result.high_watermark:
            return
