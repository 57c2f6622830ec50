"""How many batches of a partition are on their way: up to the limit, and small ones in groups."""

from __future__ import annotations

import random

import pytest

from quorate.client.producer.accumulator import Accumulator
from quorate.client.producer.batch import ProducerBatch
from quorate.client.producer.options import ProducerOptions
from quorate.client.producer.partition_queue import PartitionQueue
from quorate.core.clock import SystemClock
from quorate.core.ids import TopicName
from quorate.v1 import broker_pb2


def full_queue(value: bytes, *, max_in_flight: int = 5) -> PartitionQueue:
    """Twenty batches of one record each."""
    made = Accumulator(
        ProducerOptions(batch_bytes=1, max_in_flight=max_in_flight),
        clock=SystemClock(),
        rng=random.Random(1),
        wake=lambda: None,
        is_on_loop=lambda: True,
    )
    topic = made.update_topic(TopicName("t"), 1, [0])
    for _ in range(20):
        made.append(topic, value, None, None, 0, None, broker_pb2.ACKS_ALL, None, None, ticket=None)
    (queue,) = topic.queues
    queue.use_producer_id(1, 0)
    return queue


def leaving(queue: PartitionQueue) -> list[ProducerBatch]:
    taken = []
    while (batch := queue.next_to_send(1e12, linger_s=0)) is not None:
        batch.attempt = batch.encoded = b"under way"
        taken.append(batch)
    queue.validate()
    return taken


def test_small_batches_that_had_to_wait_leave_together() -> None:
    queue = full_queue(b"small")
    first = leaving(queue)
    assert len(first) == 5
    left = []
    for batch in first:
        queue.acknowledged(batch)
        left.append(len(leaving(queue)))
    assert left == [0, 0, 3, 0, 0]
    assert len(queue.undecided) == 3, "what is on its way never runs out while there is more"


def test_large_batch_leaves_for_each_that_is_answered() -> None:
    queue = full_queue(bytes(100_000))
    for batch in leaving(queue):
        queue.acknowledged(batch)
        assert len(leaving(queue)) == 1


@pytest.mark.parametrize("max_in_flight", [1, 2, 3])
def test_no_window_is_too_small_to_go_on(max_in_flight: int) -> None:
    queue = full_queue(b"small", max_in_flight=max_in_flight)
    sent = 0
    while under_way := leaving(queue) or list(queue.undecided):
        sent += len(under_way)
        for batch in under_way:
            queue.acknowledged(batch)
    assert sent == 20
