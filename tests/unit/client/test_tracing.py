"""A trace goes from who writes a record to who processes it, and never gets in the way of either."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from quorate.client import AsyncProducer, Producer, RecordFuture, RecordMetadata
from quorate.client.tracing import Tracing
from quorate.core.ids import Offset, TimestampMs
from quorate.core.records import ConsumerRecord
from quorate.errors import BufferExhausted, NotEnoughReplicas, QuorateError

PLACE = RecordMetadata("orders", 3, Offset(42), TimestampMs(0))


class World:
    """A producer that keeps what it is given; its records end when the test says so."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = Tracing(provider)
        self.sent: list[dict[str, Any]] = []
        self.refuses: Exception | None = None

    def send(self, topic: str, value: Any = None, **arguments: Any) -> RecordFuture:
        if self.refuses is not None:
            raise self.refuses
        self.sent.append(arguments)
        return cast(RecordFuture, (topic, value))

    @property
    def producer(self) -> Producer:
        return cast(Producer, self)

    def end(self, metadata: RecordMetadata | None = PLACE, error: QuorateError | None = None) -> None:
        self.sent[-1]["on_delivery"](metadata, error)

    def record(self) -> ConsumerRecord:
        """The last one, as a consumer gets it."""
        return ConsumerRecord("orders", 3, 42, 0, None, b"v", tuple(self.sent[-1]["headers"]), 1)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()


@pytest.fixture
def world() -> World:
    return World()


def test_processing_is_a_child_of_sending(world: World) -> None:
    world.tracing.send(world.producer, "orders", "v", key="k")
    assert world.sent[-1]["key"] == "k"
    world.end()
    with world.tracing.processing(world.record()):
        pass
    sending, processing = world.spans
    assert (sending.name, sending.kind) == ("send orders", SpanKind.PRODUCER)
    assert (processing.name, processing.kind) == ("process orders", SpanKind.CONSUMER)
    assert processing.parent is not None
    assert processing.parent.span_id == sending.context.span_id
    assert processing.context.trace_id == sending.context.trace_id
    for span in (sending, processing):
        assert span.attributes is not None
        assert span.attributes["messaging.destination.name"] == "orders"
        assert span.attributes["messaging.destination.partition.id"] == "3"
        assert span.attributes["messaging.quorate.offset"] == 42


def test_record_that_is_passed_on_belongs_to_the_trace_and_names_who_passed_it_on(world: World) -> None:
    world.tracing.send(world.producer, "orders", "v")
    world.end()
    with world.tracing.processing(world.record()) as processing:
        headers = (*world.record().headers, ("kind", b"paid"))
        world.tracing.send(world.producer, "payments", "v", headers=headers)
    world.end()
    names = [name for name, _ in world.sent[-1]["headers"]]
    assert names == ["kind", "traceparent"]
    last = world.spans[-1]
    assert last.name == "send payments"
    assert last.parent is not None
    assert last.parent.span_id == processing.get_span_context().span_id


def test_span_lasts_until_the_record_has_ended_and_says_how(world: World) -> None:
    told: list[tuple[RecordMetadata | None, QuorateError | None]] = []
    world.tracing.send(world.producer, "orders", "v", on_delivery=lambda *end: told.append(end))
    assert not world.exporter.get_finished_spans()
    error = NotEnoughReplicas("one of two")
    world.end(None, error)
    [span] = world.spans
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == NotEnoughReplicas.code
    assert told == [(None, error)]


@pytest.mark.parametrize(
    ("refuses", "headers", "expected"),
    [(BufferExhausted("full"), None, BufferExhausted), (None, "no headers", QuorateError)],
)
def test_record_that_is_not_sent_ends_its_span(
    world: World, refuses: Exception | None, headers: Any, expected: type[Exception]
) -> None:
    world.refuses = refuses
    with pytest.raises(expected):
        world.tracing.send(world.producer, "orders", "v", headers=headers)
    [span] = world.spans
    assert span.status.status_code is StatusCode.ERROR


async def test_asynchronous_producer_is_traced_alike(world: World) -> None:
    class Awaited:
        async def send(self, topic: str, value: Any = None, **arguments: Any) -> RecordFuture:
            return world.send(topic, value, **arguments)

    await world.tracing.send_async(cast(AsyncProducer, Awaited()), "orders", "v")
    world.end()
    assert [span.name for span in world.spans] == ["send orders"]


@pytest.mark.parametrize("headers", [(), (("traceparent", None),), (("traceparent", b"\xff\xfe"),)])
def test_record_without_a_context_that_can_be_read_begins_a_trace(
    world: World, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    record = ConsumerRecord("orders", 0, 1, 0, None, b"v", headers, 1)
    with world.tracing.processing(record):
        pass
    [span] = world.spans
    assert span.parent is None


def test_failure_of_the_application_is_noted_and_goes_on(world: World) -> None:
    record = ConsumerRecord("orders", 0, 1, 0, None, b"v", (), 1)
    fail: Callable[[], object] = lambda: 1 // 0  # noqa: E731 - something that raises
    with pytest.raises(ZeroDivisionError), world.tracing.processing(record):
        fail()
    [span] = world.spans
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]
