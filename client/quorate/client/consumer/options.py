"""What an application may choose about a consumer, checked once, when it is made."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Literal, TypedDict

from quorate.errors import InvalidConfig

__all__ = ["AutoOffsetReset", "ConsumerOptions", "OptionArguments"]

AutoOffsetReset = Literal["earliest", "latest", "fail"]

_RESETS: Final = ("earliest", "latest", "fail")
_INT32_MAX: Final = 2**31 - 1


class OptionArguments(TypedDict, total=False):
    """The keyword arguments of a consumer. What they mean, and their defaults: `ConsumerOptions`."""

    auto_offset_reset: AutoOffsetReset
    out_of_range_reset: AutoOffsetReset
    client_rack: str | None
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    prefetch_bytes: int
    request_timeout_ms: int
    metadata_max_age_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """Kafka's names in snake case; each field says what it trades."""

    #: Where to begin in a partition that has no position yet. It answers nothing else: unlike Kafka's, it
    #: does not move a position that the application has read to.
    auto_offset_reset: AutoOffsetReset = "earliest"
    #: What to do when retention has deleted the records at the position before they were read. They are lost
    #: to this reader, so by default it hears of it (rule 66); "earliest" and "latest" go on there, with a
    #: warning in the log and a count in the statistics.
    out_of_range_reset: AutoOffsetReset = "fail"
    #: Read from a replica in this failure domain, if one is in sync: cheaper, and a little later.
    client_rack: str | None = None
    #: A broker answers a fetch once it has so many bytes: fewer answers, later.
    fetch_min_bytes: int = 1
    #: ... or after so long.
    fetch_max_wait_ms: int = 500
    #: Most bytes in one answer.
    fetch_max_bytes: int = 50 << 20
    #: Most bytes of one partition in one answer.
    max_partition_fetch_bytes: int = 1 << 20
    #: Bytes of records that may wait here to be polled, shared by the brokers: more rides out longer pauses
    #: of the network and of the application. A single batch may exceed it.
    prefetch_bytes: int = 32 << 20
    #: A broker that is silent for so long counts as gone.
    request_timeout_ms: int = 30_000
    #: How soon new partitions, and a better replica to read from, are noticed.
    metadata_max_age_ms: int = 60_000

    def __post_init__(self) -> None:
        for name in ("auto_offset_reset", "out_of_range_reset"):
            if getattr(self, name) not in _RESETS:
                raise InvalidConfig(
                    f"{name} is {getattr(self, name)!r}, not one of {', '.join(_RESETS)}", key=name
                )
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int" and not (isinstance(value, int) and 0 < value <= _INT32_MAX):
                raise InvalidConfig(f"{field.name} is {value!r}, not from 1 to {_INT32_MAX}", key=field.name)
