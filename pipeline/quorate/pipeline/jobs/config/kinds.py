"""Kinds of values that jobs need beside those of nodes: see ``quorate.core.config.kinds``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Final

from quorate.core.config.kinds import DirectoryPath
from quorate.core.topic_names import check_topic_name
from quorate.errors import InvalidTopic

__all__ = [
    "EVENT_TIME",
    "RECORD_KEY",
    "Field",
    "Master",
    "Pairs",
    "SharedPath",
    "Text",
    "Time",
    "TopicNames",
    "Window",
    "Words",
    "seconds_of",
]

#: words that stand for what a record has besides its value
RECORD_KEY: Final = "key"
EVENT_TIME: Final = "timestamp"

_JSON_PATH: Final = re.compile(r"\$(\.[A-Za-z_][A-Za-z0-9_-]*|\[\d+\])+")
_WINDOW: Final = re.compile(r"([1-9][0-9]{0,6}) (second|minute|hour|day)s?")
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
#: of an address of a file system, such as s3a: or file:; one letter would be a drive, and nobody's scheme
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
#: an address of IPv6 is in brackets
_HOST_AND_PORT: Final = r"(?:[^\s:/,\[\]]+|\[[0-9A-Fa-f:.]+\]):\d+"
#: what Spark itself knows, and whatever else a cluster manager of somebody's own is called
_MASTER: Final = re.compile(
    r"local(\[(\*|[1-9]\d*)(,\s*[1-9]\d*)?\])?|local-cluster\[[\d,\s]+\]|yarn"
    rf"|spark://{_HOST_AND_PORT}(,{_HOST_AND_PORT})*"
    r"|(?!spark:|local)[a-z][a-z0-9+.-]*://\S+"
)


_DIRECTORY: Final = DirectoryPath()


def seconds_of(window: str) -> int:
    """Of a ``Window``."""
    found = _WINDOW.fullmatch(window)
    assert found is not None, "it was parsed"
    return int(found[1]) * _SECONDS[found[2]]


def _members(raw: object) -> list[str]:
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError(f"{raw!r} is no list of words")
    return [part.strip() for part in parts if part.strip()]


@dataclass(frozen=True, slots=True)
class Text:
    """Anything in one line."""

    what: str

    name = "text"

    @property
    def accepts(self) -> str:
        return self.what

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str) or not raw.strip() or not raw.isprintable():
            raise ValueError(f"{raw!r} is no such text")
        return raw.strip()

    def render(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class SharedPath:
    """A directory. A relative path is taken from the directory in which the process was started.

    Locks, renames and syncs of files are of the operating system: an object store has none of them.
    """

    name = "path"
    accepts = "the path of a directory that the driver and all workers see (local, NFS, a persistent volume)"

    def parse(self, raw: object) -> str:
        path = _DIRECTORY.parse(raw)
        assert isinstance(raw, str)
        if scheme := _SCHEME.match(raw.strip()):
            instead = "write its path alone" if scheme[1].lower() == "file" else "mount it, and name the path"
            raise ValueError(f"{raw!r} is the address of a file system, and no path: {instead}")
        return path

    def render(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Master:
    """Where Spark runs."""

    name = "master"
    accepts = "local, local[THREADS], local[*], spark://HOST:PORT, yarn, k8s://https://HOST:PORT"

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str) or _MASTER.fullmatch(raw.strip()) is None:
            raise ValueError(f"{raw!r} is no address of a Spark master")
        return raw.strip()

    def render(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Topics, each once."""

    count_max: int = 1000

    name = "topics"

    @property
    def accepts(self) -> str:
        return "the name of a topic" if self.count_max == 1 else "names of topics, with commas"

    def parse(self, raw: object) -> tuple[str, ...]:
        names = tuple(_members(raw))
        for name in names:
            try:
                check_topic_name(name)
            except InvalidTopic as error:
                raise ValueError(f"{name!r} is no name of a topic: {error.message}") from None
        if not 1 <= len(names) <= self.count_max or len(set(names)) != len(names):
            raise ValueError(f"{raw!r} names {len(names)} topics, or one twice")
        return names

    def render(self, value: object) -> str:
        assert isinstance(value, tuple)
        return ",".join(value)


@dataclass(frozen=True, slots=True)
class Words:
    """A list that may be empty, each member of one kind."""

    of: Field

    name = "list"

    @property
    def accepts(self) -> str:
        return f"any number of these, with commas: {self.of.accepts}"

    def parse(self, raw: object) -> tuple[str, ...]:
        return tuple(self.of.parse(each) for each in _members(raw))

    def render(self, value: object) -> str:
        assert isinstance(value, tuple)
        return ",".join(value)


@dataclass(frozen=True, slots=True)
class Field:
    """What of a record is meant: a path into its value, which is JSON; or ``itself``, a word of its own."""

    itself: str | None = None

    name = "field"

    @property
    def accepts(self) -> str:
        path = "a path into a value that is JSON ($.order.amount)"
        return path if self.itself is None else f"{self.itself}, or {path}"

    def parse(self, raw: object) -> str:
        if isinstance(raw, str) and (raw == self.itself or _JSON_PATH.fullmatch(raw) is not None):
            return raw
        raise ValueError(f"{raw!r} is no such path")

    def render(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Window:
    """A length of time as Spark says it."""

    name = "window"
    accepts = "a number of seconds, minutes, hours or days (10 seconds, 1 hour)"

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str) or _WINDOW.fullmatch(raw) is None:
            raise ValueError(f"{raw!r} is no such length of time")
        return raw

    def render(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Time:
    """A moment, to the microsecond; without a zone it is UTC."""

    name = "time"
    accepts = "a time (2026-01-31, 2026-01-31T08:15:00Z, 2026-01-31T08:15:00+01:00; without a zone: UTC)"

    def parse(self, raw: object) -> datetime:
        if isinstance(raw, str):
            try:
                raw = datetime.fromisoformat(raw.strip())
            except ValueError:
                raise ValueError(f"{raw!r} is no time") from None
        if isinstance(raw, date) and not isinstance(raw, datetime):
            # TOML has dates as well; as text one is its midnight, too.
            raw = datetime.combine(raw, time())
        if not isinstance(raw, datetime):
            raise ValueError(f"{raw!r} is no time")
        return raw.replace(tzinfo=UTC) if raw.tzinfo is None else raw.astimezone(UTC)

    def render(self, value: object) -> str:
        assert isinstance(value, datetime)
        return value.isoformat()


@dataclass(frozen=True, slots=True)
class Pairs:
    """Settings of somebody else's, by name; not checked here."""

    name = "pairs"
    accepts = "KEY=VALUE, with commas, or an array of them"

    def parse(self, raw: object) -> tuple[tuple[str, str], ...]:
        if isinstance(raw, tuple):
            return raw
        found: dict[str, str] = {}
        for member in _members(raw):
            key, equals, text = member.partition("=")
            if not equals or not key.strip():
                raise ValueError(f"{member!r} is not KEY=VALUE")
            found[key.strip()] = text.strip()
        return tuple(found.items())

    def render(self, value: object) -> str:
        assert isinstance(value, tuple)
        return ",".join(f"{key}={text}" for key, text in value)
