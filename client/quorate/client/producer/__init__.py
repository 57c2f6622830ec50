"""Writing records: batches per partition, numbered, sent to leaders, each with one of three ends.

From the outside in: `Producer` and `AsyncProducer` take records and differ in how they wait. An
`Accumulator` holds what waits, a `PartitionQueue` for each partition decides what may leave and what an
answer means, and the `Sender` moves batches between them and the leaders' `ProduceStream`.
"""

from quorate.client.producer.async_producer import AsyncProducer
from quorate.client.producer.batch import RecordMetadata
from quorate.client.producer.delivery import Delivery
from quorate.client.producer.options import ProducerOptions
from quorate.client.producer.record_future import RecordFuture
from quorate.client.producer.statistics import ProducerStatistics
from quorate.client.producer.sync_producer import Producer

__all__ = [
    "AsyncProducer",
    "Delivery",
    "Producer",
    "ProducerOptions",
    "ProducerStatistics",
    "RecordFuture",
    "RecordMetadata",
]
