"""What an application may choose about a consumer, checked once, when it is made."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Literal, TypedDict

from quorate.client.arguments import check_arguments, shown
from quorate.errors import InvalidConfig, UnsupportedOperation

__all__ = ["AutoOffsetReset", "ConsumerOptions", "IsolationLevel", "OptionArguments", "options_of"]

AutoOffsetReset = Literal["earliest", "latest", "fail"]
IsolationLevel = Literal["read_committed", "read_uncommitted"]

_RESETS: Final = ("earliest", "latest", "fail")
_CHOICES: Final = {
    "auto_offset_reset": _RESETS,
    "out_of_range_reset": _RESETS,
    "isolation_level": ("read_committed", "read_uncommitted"),
}
#: They belong to consumer groups, which are not there yet: only the default is possible.
_OF_GROUPS: Final = ("group", "pattern", "group_instance_id", "enable_auto_commit", "max_poll_interval_ms")
_INT32_MAX: Final = 2**31 - 1


class OptionArguments(TypedDict, total=False):
    """The keyword arguments of a consumer. What they mean, and their defaults: `ConsumerOptions`."""

    group: str | None
    pattern: str | None
    group_instance_id: str | None
    auto_offset_reset: AutoOffsetReset
    out_of_range_reset: AutoOffsetReset
    enable_auto_commit: bool
    isolation_level: IsolationLevel
    max_poll_interval_ms: int
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

    #: The consumer group. None: the application says what is read, and remembers how far.
    group: str | None = None
    #: A group reads every topic whose name matches.
    pattern: str | None = None
    #: A member that comes back under this name gets the partitions that it had.
    group_instance_id: str | None = None
    #: Where to begin in a partition that has no position yet. It answers nothing else: unlike Kafka's, it
    #: does not move a position that the application has read to.
    auto_offset_reset: AutoOffsetReset = "earliest"
    #: What to do when retention has deleted the records at the position before they were read. They are lost
    #: to this reader, so by default it hears of it (rule 66); "earliest" and "latest" go on there, with a
    #: warning in the log and a count in the statistics.
    out_of_range_reset: AutoOffsetReset = "fail"
    #: The group's offsets are committed without being asked to.
    enable_auto_commit: bool = False
    #: Whether records of transactions that are not committed are left out. As there are no transactions yet,
    #: both mean the same: what is handed out is committed to the partition's replicas, always.
    isolation_level: IsolationLevel = "read_committed"
    #: A member of a group that does not poll for so long counts as gone.
    max_poll_interval_ms: int = 300_000
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
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise InvalidConfig(
                    f"{name} is {getattr(self, name)!r}, not one of {', '.join(choices)}", key=name
                )
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _OF_GROUPS and value != field.default:
                raise UnsupportedOperation(
                    f"{field.name}={value!r}: consumer groups are not there yet; "
                    "assign partitions, or give topics alone",
                    key=field.name,
                )
            if field.name == "client_rack" and not isinstance(value, str | None):
                raise InvalidConfig(f"client_rack is {shown(value)}: a str is expected", key=field.name)
            if field.type == "int" and not (isinstance(value, int) and 0 < value <= _INT32_MAX):
                raise InvalidConfig(f"{field.name} is {value!r}, not from 1 to {_INT32_MAX}", key=field.name)


def options_of(caller: str, arguments: OptionArguments) -> ConsumerOptions:
    """``caller``: the class whose arguments these are."""
    check_arguments(caller, arguments, {*OptionArguments.__annotations__, "topics"})
    return ConsumerOptions(**arguments)
