"""What a setting's value may be: one small class per kind.

A kind turns what a person wrote (a TOML value, or the text of an environment variable or of
``--set``) into the value that code uses, or raises ``ValueError`` saying what is wrong with it.
``accepts`` completes the sentence "expected …" and stands in the generated documentation, so an
error and the page can never disagree. ``render`` is the inverse of ``parse``: text that can be set.
``parse`` also takes its own results, so that it serves to check a value made by code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

__all__ = [
    "INT64_MAX",
    "AddressList",
    "ByteCount",
    "Choice",
    "Choices",
    "DirectoryPath",
    "DurationMs",
    "Flag",
    "HostPort",
    "Integer",
    "Kind",
    "ListenerAddress",
    "Name",
    "Optional",
    "Ratio",
    "ReachableAddress",
    "VoterAddress",
    "VoterList",
    "parse_address",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
EnumT = TypeVar("EnumT", bound=StrEnum)

#: The largest value of the integers on disk and on the wire: "no upper bound" for a setting.
INT64_MAX: Final = (1 << 63) - 1

_BYTE_UNITS: Mapping[str, int] = {
    "b": 1,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}
_DURATION_UNITS: Mapping[str, int] = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NO_UNITS: Mapping[str, int] = {}


class Kind(Protocol[T_co]):
    @property
    def name(self) -> str:
        """One or two words, for the type column of the documentation."""
        ...

    @property
    def accepts(self) -> str: ...

    def parse(self, raw: object) -> T_co: ...

    def render(self, value: object) -> str: ...


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number within bounds, both inclusive."""

    minimum: int
    maximum: int

    name = "integer"

    @property
    def accepts(self) -> str:
        return f"a whole number {_range(self.minimum, self.maximum)}"

    def parse(self, raw: object) -> int:
        return _bounded(_whole_number(raw, _NO_UNITS), self.minimum, self.maximum)

    def render(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class ByteCount:
    """Bytes: a plain number, or one with a unit. ``unlimited`` admits Kafka's -1."""

    minimum: int
    maximum: int
    unlimited: bool = False

    name = "bytes"

    @property
    def accepts(self) -> str:
        bounds = f"bytes {_range(self.minimum, self.maximum)}, as a number or with a unit (64KiB, 1GiB)"
        return bounds + (", or -1 for no limit" if self.unlimited else "")

    def parse(self, raw: object) -> int:
        count = _whole_number(raw, _BYTE_UNITS)
        if self.unlimited and count == -1:
            return count
        return _bounded(count, self.minimum, self.maximum)

    def render(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class DurationMs:
    """Milliseconds: a plain number, or one with a unit. ``unlimited`` admits Kafka's -1."""

    minimum: int
    maximum: int
    unlimited: bool = False

    name = "milliseconds"

    @property
    def accepts(self) -> str:
        bounds = f"milliseconds {_range(self.minimum, self.maximum)}, as a number or with a unit (30s, 7d)"
        return bounds + (", or -1 for no limit" if self.unlimited else "")

    def parse(self, raw: object) -> int:
        duration_ms = _whole_number(raw, _DURATION_UNITS)
        if self.unlimited and duration_ms == -1:
            return duration_ms
        return _bounded(duration_ms, self.minimum, self.maximum)

    def render(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A share of a whole."""

    name = "ratio"
    accepts = "a number from 0 to 1"

    def parse(self, raw: object) -> float:
        # As with whole numbers, `true` is nobody's share; and "nan" is a number to float() alone.
        if isinstance(raw, bool) or not isinstance(raw, int | float | str):
            raise ValueError(f"{raw!r} is no number")
        if isinstance(raw, str) and re.fullmatch(r"[0-9]{0,10}\.?[0-9]{1,20}", raw.strip(), re.ASCII) is None:
            raise ValueError(f"{raw!r} is no such number")
        share = float(raw)
        if not 0 <= share <= 1:
            raise ValueError(f"{raw!r} is too {'large' if share > 1 else 'small'}")
        return share

    def render(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Choice(Generic[EnumT]):
    """One of a few words. ``instead``: words that people know from Kafka, each with what to do here."""

    options: type[EnumT]
    instead: Mapping[str, str] = field(default_factory=dict)

    name = "word"

    @property
    def accepts(self) -> str:
        words = ", ".join(option.value for option in self.options)
        return words if len(self.options) == 1 else f"one of {words}"

    def parse(self, raw: object) -> EnumT:
        for option in self.options:
            if raw == option.value:
                return option
        if isinstance(raw, str) and raw in self.instead:
            raise ValueError(f"{raw!r} does not exist here: {self.instead[raw]}")
        raise ValueError(f"{raw!r} is no such word")

    def render(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Choices(Generic[EnumT]):
    """One or more of a few words, in the order in which they are declared."""

    options: type[EnumT]

    name = "words"

    @property
    def accepts(self) -> str:
        return "one or more of " + ", ".join(option.value for option in self.options)

    def parse(self, raw: object) -> tuple[EnumT, ...]:
        chosen = [Choice(self.options).parse(part) for part in _parts(raw)]
        if not chosen:
            raise ValueError("the list is empty")
        if len(set(chosen)) != len(chosen):
            raise ValueError("a word occurs twice")
        return tuple(option for option in self.options if option in chosen)

    def render(self, value: object) -> str:
        assert isinstance(value, tuple)
        return ",".join(value)


@dataclass(frozen=True, slots=True)
class Flag:
    """Yes or no."""

    name = "boolean"
    accepts = "true or false"

    def parse(self, raw: object) -> bool:
        if isinstance(raw, bool):
            return raw
        if raw not in ("true", "false"):
            raise ValueError(f"{raw!r} is neither")
        return raw == "true"

    def render(self, value: object) -> str:
        return "true" if value else "false"


@dataclass(frozen=True, slots=True)
class Name:
    """A short word of a person's choosing, safe in file names, logs and command lines."""

    characters_max: int = 64

    name = "name"

    @property
    def accepts(self) -> str:
        return f"up to {self.characters_max} letters, digits, dots, dashes or underscores"

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str) or re.fullmatch(r"[A-Za-z0-9._-]+", raw) is None:
            raise ValueError(f"{raw!r} is no such name")
        if len(raw) > self.characters_max:
            raise ValueError(f"{raw!r} is too long")
        return raw

    def render(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Optional(Generic[T]):
    """A value that may be left out: None, or an empty text."""

    kind: Kind[T]

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def accepts(self) -> str:
        return f"{self.kind.accepts}, or nothing"

    def parse(self, raw: object) -> T | None:
        return None if raw in (None, "") else self.kind.parse(raw)

    def render(self, value: object) -> str:
        return "" if value is None else self.kind.render(value)


@dataclass(frozen=True, slots=True)
class DirectoryPath:
    """A directory. A relative path is taken from the directory in which the process was started."""

    name = "path"
    accepts = "the path of a directory"

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str) or not raw.strip():
            raise ValueError(f"{raw!r} is no path")
        if "\0" in raw:
            raise ValueError("a path holds no NUL character")
        return os.path.abspath(raw)

    def render(self, value: object) -> str:
        return str(value)


class HostPort(NamedTuple):
    """Where to listen or connect: a host name or IP address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_wildcard(self) -> bool:
        """Stands for every address of the machine: good to listen on, useless to connect to."""
        return self.host in ("0.0.0.0", "::", "0:0:0:0:0:0:0:0")  # noqa: S104 - looked for, not listened on


@dataclass(frozen=True, slots=True)
class AddressList:
    """At least one address: a TOML array, or text with commas."""

    name = "addresses"
    accepts = "HOST:PORT[,HOST:PORT…] or an array of them (127.0.0.1:9092, [::1]:9092); port 0: any free one"

    def parse(self, raw: object) -> tuple[HostPort, ...]:
        addresses = tuple(parse_address(part) for part in _parts(raw))
        if not addresses:
            raise ValueError("the list is empty")
        bound = [address for address in addresses if address.port != 0]
        if len(set(bound)) != len(bound):
            raise ValueError("an address occurs twice")
        return addresses

    def render(self, value: object) -> str:
        assert isinstance(value, tuple)
        return ",".join(str(address) for address in value)


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """One address to listen on."""

    name = "address"
    accepts = "HOST:PORT (127.0.0.1:9644, [::1]:9644; port 0: any free one)"

    def parse(self, raw: object) -> HostPort:
        if not isinstance(raw, str | HostPort):
            raise ValueError(f"{raw!r} is no address")
        return parse_address(str(raw).strip())

    def render(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class ReachableAddress:
    """One address that others connect to."""

    name = "address"
    accepts = "HOST:PORT, with a host and a port that others can connect to"

    def parse(self, raw: object) -> HostPort:
        if not isinstance(raw, str | HostPort):
            raise ValueError(f"{raw!r} is no address")
        return _reachable(parse_address(str(raw).strip()))

    def render(self, value: object) -> str:
        return str(value)


class VoterAddress(NamedTuple):
    """A voter of the metadata quorum as people name it: its node and where that is reached."""

    node_id: int
    address: HostPort

    def __str__(self) -> str:
        return f"{self.node_id}@{self.address}"


@dataclass(frozen=True, slots=True)
class VoterList:
    """The voters of the quorum, sorted by node id; empty: there is no quorum."""

    name = "voters"
    accepts = "ID@HOST:PORT[,ID@HOST:PORT…] or an array of them (1@10.0.0.1:9093,2@10.0.0.2:9093), or nothing"

    def parse(self, raw: object) -> tuple[VoterAddress, ...]:
        voters = sorted(_parse_voter(part) for part in ([] if raw == "" else _parts(raw)))
        if len({voter.node_id for voter in voters}) != len(voters):
            raise ValueError("a node id occurs twice")
        if len({voter.address for voter in voters}) != len(voters):
            raise ValueError("an address occurs twice")
        return tuple(voters)

    def render(self, value: object) -> str:
        assert isinstance(value, tuple)
        return ",".join(str(voter) for voter in value)


def parse_address(text: str) -> HostPort:
    """``HOST:PORT`` or ``[IPV6]:PORT``; ``ValueError`` otherwise."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s:\[\]/]+)):(\d{1,5})", text)
    if match is None:
        raise ValueError(f"{text!r} is not HOST:PORT")
    port = int(match[3])
    if port > 65535:
        raise ValueError(f"port {port} is greater than 65535")
    return HostPort(match[1] or match[2], port)


def _parts(raw: object) -> list[str]:
    """The members of a list: a TOML array, a text with commas, or a value that was parsed before."""
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, list | tuple) or isinstance(parts, HostPort | VoterAddress):
        raise ValueError(f"{raw!r} is no list")
    if not all(isinstance(part, str | HostPort | VoterAddress) for part in parts):
        raise ValueError(f"{raw!r} has members of another kind")
    return [str(part).strip() for part in parts]


def _reachable(address: HostPort) -> HostPort:
    if address.port == 0:
        raise ValueError(f"{address}: nobody can connect to port 0")
    if address.is_wildcard:
        raise ValueError(f"{address}: nobody can connect to every address of a machine")
    return address


def _parse_voter(text: str) -> VoterAddress:
    node_id, at, address = text.partition("@")
    if not at:
        raise ValueError(f"{text!r} is not ID@HOST:PORT")
    return VoterAddress(Integer(0, (1 << 31) - 1).parse(node_id), _reachable(parse_address(address)))


def _range(minimum: int, maximum: int) -> str:
    # The largest 64-bit number is no bound that anyone could meet; naming it only blurs the sentence.
    return f"of at least {minimum}" if maximum == INT64_MAX else f"from {minimum} to {maximum}"


def _whole_number(raw: object, units: Mapping[str, int]) -> int:
    # bool is an int in Python, but `true` is nobody's number.
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    if not isinstance(raw, str):
        raise ValueError(f"{raw!r} is no whole number")
    match = re.fullmatch(r"(-?[0-9][0-9_]{0,30})\s*([A-Za-z]*)", raw.strip(), re.ASCII)
    if match is None:
        raise ValueError(f"{raw!r} is no whole number")
    unit = match[2].lower()
    if unit and unit not in units:
        known = f"; known are {', '.join(units)}" if units else ""
        raise ValueError(f"{match[2]!r} is no unit here{known}")
    return int(match[1].replace("_", "")) * units.get(unit, 1)


def _bounded(number: int, minimum: int, maximum: int) -> int:
    if number < minimum:
        raise ValueError(f"{number} is too small")
    if number > maximum:
        raise ValueError(f"{number} is too large")
    return number
