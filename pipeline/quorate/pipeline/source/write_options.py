"""The options of writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quorate.client.producer.options import ProducerOptions
from quorate.core.limits import DELIVERY_TIMEOUT_MS_MAX
from quorate.errors import InvalidConfig
from quorate.pipeline.source.options import BOOTSTRAP, Options, refusal

__all__ = ["WriteOptions", "write_options"]

_COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_BOTH: Final = frozenset(
    {
        *BOOTSTRAP,
        "topic",
        "includeHeaders",
        "includeTimestamp",
        "kafka.acks",
        "kafka.compression.type",
        "kafka.batch.size",
        "kafka.linger.ms",
        "kafka.delivery.timeout.ms",
        "kafka.request.timeout.ms",
        "kafka.max.block.ms",
        "kafka.buffer.memory",
    }
)
#: Spark hands these on, and minds them itself.
_STREAM: Final = _BOTH | {"checkpointLocation", "queryName"}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    bootstrap: tuple[str, ...]
    #: for all rows, whatever their column says; None: the column says it
    topic: str | None
    #: a column `timestamp` becomes the records' own; otherwise it is left out, as by Spark's Kafka sink
    keeps_timestamps: bool
    producer: ProducerOptions


def write_options(
    given: Mapping[str, str], *, is_streaming: bool, is_overwriting: bool = False
) -> WriteOptions:
    if is_overwriting:
        raise InvalidConfig('a log is only ever appended to: write with mode("append")', key="mode")
    what = "streaming writes" if is_streaming else "batch writes"
    options = Options(given, _STREAM if is_streaming else _BOTH, what=what)
    # The column decides, as for Kafka's sink; jobs that come from there often say it.
    options.flag("includeHeaders", default=True)
    topic = options.text("topic")
    if topic is not None:
        options.check_topics("topic", [topic])
    return WriteOptions(
        bootstrap=options.bootstrap(),
        topic=topic,
        keeps_timestamps=options.flag("includeTimestamp", default=False),
        producer=_producer(options),
    )


def _producer(options: Options) -> ProducerOptions:
    acks = options.choice("kafka.acks", ("all", "-1"), default="all")
    assert acks in ("all", "-1"), "with less, a record of a committed batch could be lost"
    compression = options.choice("kafka.compression.type", _COMPRESSIONS, default="none")
    # A task has all its rows at hand: larger batches than a service's cost it nothing.
    batch_bytes = options.count("kafka.batch.size", default=512 << 10)
    buffer_bytes = options.count("kafka.buffer.memory", default=64 << 20)
    if buffer_bytes < batch_bytes:
        raise refusal(
            "kafka.buffer.memory", f"{buffer_bytes} bytes have no room for a batch of {batch_bytes}"
        )
    delivery_timeout_ms = options.count("kafka.delivery.timeout.ms", default=120_000)
    if delivery_timeout_ms > DELIVERY_TIMEOUT_MS_MAX:
        raise refusal(
            "kafka.delivery.timeout.ms",
            f"{delivery_timeout_ms} is more than {DELIVERY_TIMEOUT_MS_MAX}, half an hour: later, brokers may "
            f"have forgotten the producer, and would write a batch twice",
        )
    return ProducerOptions(
        acks="all",
        compression=compression,  # type: ignore[arg-type]  # one of the names, as was just checked
        batch_bytes=batch_bytes,
        buffer_bytes=buffer_bytes,
        linger_ms=options.count("kafka.linger.ms", default=0, at_least=0),
        delivery_timeout_ms=delivery_timeout_ms,
        request_timeout_ms=options.count("kafka.request.timeout.ms", default=30_000),
        max_block_ms=options.count("kafka.max.block.ms", default=60_000, at_least=0),
    )
