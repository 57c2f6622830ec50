"""What an application may choose about a consumer, checked once, when it is made."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Literal, TypedDict

from quorate.client.arguments import check_arguments, shown
from quorate.core.group_names import has_control_characters
from quorate.core.limits import GROUP_NAME_CHARACTERS_MAX
from quorate.core.topic_patterns import compiled_pattern
from quorate.errors import InvalidConfig

__all__ = ["AutoOffsetReset", "ConsumerOptions", "IsolationLevel", "OptionArguments", "options_of"]

AutoOffsetReset = Literal["earliest", "latest", "fail"]
IsolationLevel = Literal["read_committed", "read_uncommitted"]

_RESETS: Final = ("earliest", "latest", "fail")
_ASSIGNORS: Final = ("uniform", "range")
_CHOICES: Final[dict[str, tuple[str | None, ...]]] = {
    "group_remote_assignor": (None, *_ASSIGNORS),
    "auto_offset_reset": _RESETS,
    "out_of_range_reset": _RESETS,
    "isolation_level": ("read_committed", "read_uncommitted"),
}
#: Without a group they would mean nothing.
_OF_GROUPS: Final = (
    "pattern",
    "group_instance_id",
    "group_remote_assignor",
    "enable_auto_commit",
    "auto_commit_interval_ms",
    "max_poll_interval_ms",
)
_TEXTS: Final = ("group", "pattern", "group_instance_id", "group_remote_assignor", "client_rack", "client_id")
#: A coordinator keeps them, and not longer ones.
_NAMES: Final = ("group", "group_instance_id", "client_rack", "client_id")
_INT32_MAX: Final = 2**31 - 1


class OptionArguments(TypedDict, total=False):
    """The keyword arguments of a consumer. What they mean, and their defaults: `ConsumerOptions`."""

    group: str | None
    pattern: str | None
    group_instance_id: str | None
    group_remote_assignor: str | None
    auto_offset_reset: AutoOffsetReset
    out_of_range_reset: AutoOffsetReset
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    isolation_level: IsolationLevel
    max_poll_interval_ms: int
    client_rack: str | None
    client_id: str
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
    #: A group reads every topic whose whole name matches, also topics that are created later (RE2's syntax).
    #: With topics as well: those and these.
    pattern: str | None = None
    #: A member that comes back under this name within its session gets the partitions that it had. A process
    #: that dies keeps them from the others for as long.
    group_instance_id: str | None = None
    #: How partitions are spread over members: "uniform" or "range". None: as the group's others have it.
    group_remote_assignor: str | None = None
    #: Where to begin in a partition that has no position yet, of a group: no committed offset. It answers
    #: nothing else: unlike Kafka's, it does not move a position that the application has read to. For a group
    #: "latest" is the end as of when the group began: what is added later is read from its beginning.
    auto_offset_reset: AutoOffsetReset = "earliest"
    #: What to do when retention has deleted the records at the position before they were read. They are lost
    #: to this reader, so by default it hears of it (rule 66); "earliest" and "latest" go on there, with a
    #: warning in the log and a count in the statistics.
    out_of_range_reset: AutoOffsetReset = "fail"
    #: The group's offsets are committed without being asked to: in polls, before anything new is handed out,
    #: and so at least once, if records are processed by the thread that polls.
    enable_auto_commit: bool = False
    #: ... that often; a crash repeats the records since.
    auto_commit_interval_ms: int = 5_000
    #: Whether records of transactions that are not committed are left out. As there are no transactions yet,
    #: both mean the same: what is handed out is committed to the partition's replicas, always.
    isolation_level: IsolationLevel = "read_committed"
    #: A member of a group that does not poll for so long leaves it, and comes back with the next poll. Also
    #: how long the others may have to wait for partitions that it is to give up.
    max_poll_interval_ms: int = 300_000
    #: Read from a replica in this failure domain, if one is in sync: cheaper, and a little later.
    client_rack: str | None = None
    #: What the consumer calls itself, for people who look at its group.
    client_id: str = ""
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
                known = ", ".join(each for each in choices if each is not None)
                raise InvalidConfig(f"{name} is {getattr(self, name)!r}, not one of {known}", key=name)
        for field in fields(self):
            value = getattr(self, field.name)
            if self.group is None and field.name in _OF_GROUPS and value != field.default:
                raise InvalidConfig(f"{field.name}={value!r} needs a group: pass group=…", key=field.name)
            if field.name in _TEXTS and not (isinstance(value, str) or value is field.default):
                raise InvalidConfig(f"{field.name} is {shown(value)}: a str is expected", key=field.name)
            if field.type == "bool" and not isinstance(value, bool):
                raise InvalidConfig(f"{field.name} is {shown(value)}: a bool is expected", key=field.name)
            if field.type == "int" and not (isinstance(value, int) and 0 < value <= _INT32_MAX):
                raise InvalidConfig(f"{field.name} is {value!r}, not from 1 to {_INT32_MAX}", key=field.name)
        if self.group == "":
            raise InvalidConfig("group is '': a name has a character at least", key="group")
        if self.group is not None and has_control_characters(self.group):
            raise InvalidConfig(f"group is {self.group!r}: a name has no control characters", key="group")
        if self.pattern:
            compiled_pattern(self.pattern)  # what is no pattern is refused here, and not by the first poll
        for name in _NAMES:
            value = getattr(self, name)
            if value is not None and len(value) > GROUP_NAME_CHARACTERS_MAX:
                raise InvalidConfig(
                    f"{name} is {shown(value)}: a name has {GROUP_NAME_CHARACTERS_MAX} characters at most",
                    key=name,
                )


def options_of(caller: str, arguments: OptionArguments) -> ConsumerOptions:
    """``caller``: the class whose arguments these are."""
    check_arguments(caller, arguments, {*OptionArguments.__annotations__, "topics"})
    return ConsumerOptions(**arguments)
