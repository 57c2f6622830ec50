"""OpenTelemetry traces from who writes a record to who processes it (``pip install 'quorate[otel]'``).

    tracing = Tracing()
    tracing.send(producer, "orders", "42.00", key="alice")         # a Producer
    await tracing.send_async(producer, "orders", "42.00")          # an AsyncProducer
    with tracing.processing(record):                               # from either consumer
        ...

The context of the trace travels in the record's headers, in whatever form the process has chosen (W3C's
``traceparent`` unless told otherwise), so programs in other languages can go on with it. It is stored with
the record: whoever processes it next year belongs to the same trace.

A span of the sending side ends when the record does: acknowledged, refused or unknown. One of the processing
side is a child of it, and current within the block, so what is sent from there belongs to the trace as well.

Nothing of the clients knows of this, and nobody else pays for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from opentelemetry import propagate, trace
from opentelemetry.propagators.textmap import Getter, Setter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from quorate.client.producer import AsyncProducer, Producer, RecordFuture, RecordMetadata
from quorate.client.producer.batch import OnDelivery
from quorate.client.producer.record_values import HeadersArgument, as_headers
from quorate.core.records import ConsumerRecord
from quorate.errors import QuorateError

__all__ = ["Tracing"]

_SYSTEM: Final = {"messaging.system": "quorate"}
_Header: TypeAlias = tuple[str, Any]


class Tracing:
    """For any number of producers and consumers."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        """``provider``: of tracers; None: the process's own."""
        self._tracer: Tracer = trace.get_tracer("quorate.client", tracer_provider=provider)

    def send(self, producer: Producer, topic: str, value: Any = None, **arguments: Any) -> RecordFuture:
        """``Producer.send`` with these arguments, and a span for it."""
        sending = _Sending(self._tracer, topic, arguments)
        with sending.noting_refusal():
            return producer.send(topic, value, **sending.arguments)

    async def send_async(
        self, producer: AsyncProducer, topic: str, value: Any = None, **arguments: Any
    ) -> RecordFuture:
        """``AsyncProducer.send`` with these arguments, and a span for it."""
        sending = _Sending(self._tracer, topic, arguments)
        with sending.noting_refusal():
            return await producer.send(topic, value, **sending.arguments)

    @contextmanager
    def processing(self, record: ConsumerRecord) -> Iterator[Span]:
        """A span for what is done with the record; an exception is noted, and goes on."""
        with self._tracer.start_as_current_span(
            f"process {record.topic}",
            context=propagate.extract(record.headers, getter=_FROM_HEADERS),
            kind=SpanKind.CONSUMER,
            attributes={
                **_SYSTEM,
                "messaging.operation.type": "process",
                "messaging.destination.name": record.topic,
                "messaging.destination.partition.id": str(record.partition),
                "messaging.quorate.offset": record.offset,
            },
        ) as span:
            yield span


class _Sending:
    """One record, from ``send`` to its end."""

    def __init__(self, tracer: Tracer, topic: str, arguments: dict[str, Any]) -> None:
        self._span = tracer.start_span(
            f"send {topic}",
            kind=SpanKind.PRODUCER,
            attributes={
                **_SYSTEM,
                "messaging.operation.type": "send",
                "messaging.destination.name": topic,
            },
        )
        self._on_delivery: OnDelivery | None = arguments.get("on_delivery")
        self.arguments = {**arguments, "on_delivery": self._ended}
        with self.noting_refusal():
            self.arguments["headers"] = _with_context(arguments.get("headers"), self._span)

    @contextmanager
    def noting_refusal(self) -> Iterator[None]:
        """What ``send`` itself raises: the record was not sent, and nobody else will hear of it."""
        try:
            yield
        except BaseException as error:
            self._end(error)
            raise

    def _ended(self, metadata: RecordMetadata | None, error: QuorateError | None) -> None:
        if metadata is not None:
            self._span.set_attribute("messaging.destination.partition.id", str(metadata.partition))
            if metadata.offset is not None:
                self._span.set_attribute("messaging.quorate.offset", metadata.offset)
        self._end(error)
        if self._on_delivery is not None:
            self._on_delivery(metadata, error)

    def _end(self, error: BaseException | None) -> None:
        if error is not None:
            kind = error.code if isinstance(error, QuorateError) else type(error).__name__
            self._span.set_attribute("error.type", kind)
            self._span.set_status(Status(StatusCode.ERROR, str(error)))
        self._span.end()


def _with_context(headers: HeadersArgument, span: Span) -> list[_Header]:
    """Those that there are, and who sends; not whom the record was read from, where it is passed on."""
    fields = propagate.get_global_textmap().fields
    found: list[_Header] = [header for header in as_headers(headers) if header[0] not in fields]
    propagate.inject(found, context=trace.set_span_in_context(span), setter=_TO_HEADERS)
    return found


class _ToHeaders(Setter[list[_Header]]):
    def set(self, carrier: list[_Header], key: str, value: str) -> None:
        carrier.append((key, value.encode()))


class _FromHeaders(Getter[Sequence[tuple[str, bytes | None]]]):
    def get(self, carrier: Sequence[tuple[str, bytes | None]], key: str) -> list[str] | None:
        # Anybody may have written it: what is no text is no context either.
        values = [value.decode(errors="replace") for name, value in carrier if name == key and value]
        return values or None

    def keys(self, carrier: Sequence[tuple[str, bytes | None]]) -> list[str]:
        return [name for name, _ in carrier]


_TO_HEADERS: Final = _ToHeaders()
_FROM_HEADERS: Final = _FromHeaders()
