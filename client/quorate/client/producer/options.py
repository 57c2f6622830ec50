"""What can be set about a producer: checked once, when it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeAlias, TypedDict

from quorate.client.arguments import check_arguments, shown
from quorate.core.limits import DELIVERY_TIMEOUT_MS_MAX
from quorate.core.records import Compression
from quorate.errors import InvalidConfig
from quorate.v1 import broker_pb2

__all__ = [
    "IN_FLIGHT_MAX",
    "AcksName",
    "CompressionName",
    "OptionArguments",
    "Partitioner",
    "ProducerOptions",
    "Serializer",
    "acks_of",
    "options_of",
]

AcksName: TypeAlias = Literal["all", 0, 1, -1, "0", "1", "-1"]
CompressionName: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]
#: (topic, key, number of partitions) -> partition
Partitioner: TypeAlias = Callable[[str, bytes | None, int], int]
Serializer: TypeAlias = Callable[[Any], bytes | None]

#: Brokers remember so many batches of a producer: one more in flight, and a repeated batch might no longer
#: be known as a duplicate (rule 50).
IN_FLIGHT_MAX: Final = 5

_ACKS: Final[dict[object, broker_pb2.Acks]] = {
    "all": broker_pb2.ACKS_ALL,
    "-1": broker_pb2.ACKS_ALL,
    -1: broker_pb2.ACKS_ALL,
    "1": broker_pb2.ACKS_LEADER,
    1: broker_pb2.ACKS_LEADER,
    "0": broker_pb2.ACKS_NONE,
    0: broker_pb2.ACKS_NONE,
}


def _is_number(found: object, *kinds: type) -> bool:
    return isinstance(found, kinds) and not isinstance(found, bool)


#: by a field's annotation: what it has to be, and whether something is that; others are checked one by one
_EXPECTED: Final[dict[str, tuple[str, Callable[[object], bool]]]] = {
    "int": ("an int", lambda found: _is_number(found, int)),
    "float": ("a number", lambda found: _is_number(found, int, float)),
    "bool": ("a bool", lambda found: isinstance(found, bool)),
    "Serializer | None": ("None or a callable", lambda found: found is None or callable(found)),
}


def acks_of(name: object) -> broker_pb2.Acks:
    found = _ACKS.get(name) if isinstance(name, str | int) else None
    if found is None:
        raise InvalidConfig(f'acks={name!r}: "all", 1 and 0 are possible', key="acks")
    return found


class OptionArguments(TypedDict, total=False):
    """The keyword arguments of a producer. What they mean, and their defaults: `ProducerOptions`."""

    acks: AcksName
    linger_ms: float
    batch_bytes: int
    compression: CompressionName
    enable_idempotence: bool
    max_in_flight: int
    delivery_timeout_ms: int
    request_timeout_ms: int
    buffer_bytes: int
    max_block_ms: int
    max_request_bytes: int
    partitioner: Partitioner | Literal["round_robin"] | None
    key_serializer: Serializer | None
    value_serializer: Serializer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    #: which copies must exist before a record counts as delivered; less than "all" may lose it
    acks: AcksName = "all"
    #: how long a batch waits for more records although it could leave; more fills batches, and delays records
    linger_ms: float = 0
    #: a batch is closed when it has so many bytes; more costs memory and saves requests
    batch_bytes: int = 128 << 10
    #: of whole batches, on this machine
    compression: CompressionName = "none"
    #: number batches, so that a repeated one is written once and in order; for acks="all" only
    enable_idempotence: bool = True
    #: batches of a partition that may be on their way at once; 1 to 5
    max_in_flight: int = IN_FLIGHT_MAX
    #: from send to the last word, however many attempts that takes; at most half an hour, for brokers
    #: remember producers for an hour at least
    delivery_timeout_ms: int = 120_000
    #: how long a broker may wait for the copies that acks asks for, in one attempt
    request_timeout_ms: int = 30_000
    #: most bytes of records that wait or are on their way; then send waits
    buffer_bytes: int = 64 << 20
    #: how long send waits for room, or for a topic's partitions to be known
    max_block_ms: int = 60_000
    #: a request is closed when it has so many bytes
    max_request_bytes: int = 1 << 20
    #: None: the key's hash as Kafka's, and without a key one partition until a batch is full, then another.
    #: "round_robin": one after the other, whatever the key.
    partitioner: Partitioner | Literal["round_robin"] | None = None
    #: what turns a key into bytes; None: str is UTF-8, bytes are taken as they are
    key_serializer: Serializer | None = None
    #: the same for values
    value_serializer: Serializer | None = None

    def __post_init__(self) -> None:
        self._check_types()
        acks_of(self.acks)
        if self.compression not in ("none", "gzip", "snappy", "lz4", "zstd"):
            raise InvalidConfig(
                f"compression={self.compression!r}: none, gzip, snappy, lz4 and zstd are possible",
                key="compression",
            )
        if not 1 <= self.max_in_flight <= IN_FLIGHT_MAX:
            raise InvalidConfig(
                f"max_in_flight={self.max_in_flight}: 1 to {IN_FLIGHT_MAX} are possible", key="max_in_flight"
            )
        if not self.linger_ms >= 0:  # also not a number that is none
            raise InvalidConfig(f"linger_ms={self.linger_ms}: it cannot be negative", key="linger_ms")
        for key in ("batch_bytes", "delivery_timeout_ms", "request_timeout_ms", "max_request_bytes"):
            if getattr(self, key) < 1:
                raise InvalidConfig(f"{key}={getattr(self, key)}: at least 1 is needed", key=key)
        if self.delivery_timeout_ms > DELIVERY_TIMEOUT_MS_MAX:
            raise InvalidConfig(
                f"delivery_timeout_ms={self.delivery_timeout_ms}: {DELIVERY_TIMEOUT_MS_MAX}, half an hour, "
                f"is the most: later, brokers may have forgotten the producer, and would write a batch twice",
                key="delivery_timeout_ms",
            )
        if self.max_block_ms < 0:
            raise InvalidConfig(
                f"max_block_ms={self.max_block_ms}: it cannot be negative", key="max_block_ms"
            )
        if self.buffer_bytes < self.batch_bytes:
            raise InvalidConfig(
                f"buffer_bytes={self.buffer_bytes} has no room for one batch of {self.batch_bytes}",
                key="buffer_bytes",
            )
        if not (self.partitioner is None or self.partitioner == "round_robin" or callable(self.partitioner)):
            raise InvalidConfig(
                f'partitioner={self.partitioner!r}: None, "round_robin" or a callable', key="partitioner"
            )

    def _check_types(self) -> None:
        for field in fields(self):
            expected = _EXPECTED.get(str(field.type))
            found = getattr(self, field.name)
            if expected is None:
                continue
            what, is_one = expected
            if not is_one(found):
                raise InvalidConfig(f"{field.name} is {shown(found)}: {what} is expected", key=field.name)

    @property
    def compression_type(self) -> Compression:
        return Compression[self.compression.upper()]


def options_of(caller: str, arguments: OptionArguments) -> ProducerOptions:
    """``caller``: the class whose arguments these are."""
    check_arguments(caller, arguments, OptionArguments.__annotations__)
    return ProducerOptions(**arguments)
