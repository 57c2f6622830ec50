"""Quantities as people write them (``1M/s``, ``1KB``, ``7d``, ``10Gbit/s``), and back.

Read into fractions: a plan rounds up, and a float that is a hair above a whole number would cost a broker.
Prefixes are decimal, as those of disks and networks are (``KB`` is 1000 bytes); ``KiB`` is 1024.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

__all__ = [
    "Rate",
    "parse_bytes",
    "parse_capacity",
    "parse_count",
    "parse_duration_s",
    "parse_factor",
    "parse_rate",
    "parse_share",
    "show_bytes",
    "show_count",
    "show_duration",
    "show_quotient",
]

_PREFIXES: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_BINARY_PREFIXES: Final = {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40, "pi": 1 << 50}
#: of a count: a billion is a G to engineers and a B to everybody else
_COUNT_PREFIXES: Final = {**_PREFIXES, "b": 10**9}
_BYTE_UNITS: Final = {f"{name}b": size for name, size in {**_PREFIXES, **_BINARY_PREFIXES}.items()}
_BIT_UNITS: Final = {f"{name}{bit}": size for name, size in _PREFIXES.items() for bit in ("bit", "bits")}

_SECOND_NAMES: Final = {
    "s": 1,
    "sec": 1,
    "second": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "h": 3_600,
    "hour": 3_600,
    "d": 86_400,
    "day": 86_400,
    "w": 604_800,
    "week": 604_800,
    "y": 31_536_000,
    "year": 31_536_000,
}
_DURATION_UNITS: Final = {
    **_SECOND_NAMES,
    **{f"{name}s": size for name, size in _SECOND_NAMES.items() if len(name) > 2},
}

_NUMBER: Final = re.compile(
    r"([0-9][0-9_,]{0,30}(?:\.[0-9]{1,15})?|\.[0-9]{1,15})\s*([^0-9.,_].*)?", re.ASCII
)
_PER: Final = re.compile(r"(.*?)\s*(?:/|\bper\b)\s*(\w+)")
_BITS_PER_SECOND: Final = re.compile(r"([kmgt]?)bps", re.IGNORECASE)
_RECORD_WORDS: Final = re.compile(r"\s*(?:msgs?|messages?|records?|events?)$", re.IGNORECASE)
#: K, M or G, and a small b: a bit to some, a byte to others, and a factor of eight in the bill
_AMBIGUOUS_BITS: Final = re.compile(r"[KkMmGgTt]b")


@dataclass(frozen=True, slots=True)
class Rate:
    """Of records or of bytes, in a second."""

    per_second: Fraction
    is_bytes: bool


def parse_rate(text: str) -> Rate:
    """``1M/s``, ``1M msg/s``, ``20/day`` are records; ``10MB/s``, ``10Gbit/s``, ``10Gbps`` are bytes."""
    number, unit = _number_and_unit(text)
    if bits := _BITS_PER_SECOND.fullmatch(unit):
        return Rate(number * _PREFIXES[bits[1].lower()] / 8, is_bytes=True)
    per = _PER.fullmatch(unit)
    if per is None:
        raise ValueError(f"{text!r} has no time in it: write {text.strip()}/s, say")
    what, time = _RECORD_WORDS.sub("", per[1]), per[2].lower()
    if time not in _SECOND_NAMES:
        raise ValueError(f"{per[2]!r} is no unit of time: known are s, min, h, d")
    if _AMBIGUOUS_BITS.fullmatch(what):
        raise ValueError(f"{what!r} may be bits or bytes: write {what[:-1]}bit or {what[:-1]}B")
    seconds = _SECOND_NAMES[time]
    if (size := _BYTE_UNITS.get(what.lower())) is not None:
        return Rate(number * size / seconds, is_bytes=True)
    if (size := _BIT_UNITS.get(what.lower())) is not None:
        return Rate(number * size / 8 / seconds, is_bytes=True)
    return Rate(number * _of(what, _COUNT_PREFIXES, "k, M, G, or bytes as in MB/s") / seconds, is_bytes=False)


def parse_bytes(text: str) -> Fraction:
    """``1KB``, ``20TB``, ``512MiB``; without a unit: bytes."""
    number, unit = _number_and_unit(text)
    return number * _of(unit, {**_BYTE_UNITS, "": 1}, "B, KB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB")


def parse_capacity(text: str) -> Fraction:
    """As ``parse_bytes``, of a disk: nobody means a disk of 20 bytes by ``20``."""
    _, unit = _number_and_unit(text)
    if not unit:
        raise ValueError(f"{text!r} has no unit: write {text.strip()}TB or {text.strip()}GB, say")
    return parse_bytes(text)


def parse_duration_s(text: str) -> Fraction:
    """``7d``, ``12 hours``. A number alone could be anything."""
    number, unit = _number_and_unit(text)
    if not unit:
        raise ValueError(f"{text!r} has no unit: write {text.strip()}d or {text.strip()}h, say")
    return number * _of(unit, _DURATION_UNITS, "s, min, h, d, w, y")


def parse_count(text: str) -> Fraction:
    """``500M``, ``1.5k``."""
    number, unit = _number_and_unit(text)
    return number * _of(unit, _COUNT_PREFIXES, "k, M, G")


def parse_factor(text: str) -> Fraction:
    """``2``, ``2x``; at least 1: the peak is not below the average."""
    number, unit = _number_and_unit(text)
    factor = number * _of(unit, {"": 1, "x": 1}, "x")
    if factor < 1:
        raise ValueError(f"{text!r} is less than 1")
    return factor


def parse_share(text: str) -> Fraction:
    """``20%``, ``0.2``; below all of it."""
    number, unit = _number_and_unit(text, is_zero_allowed=True)
    if not unit and 1 < number < 100:
        raise ValueError(f"{text!r} has no unit: write {text.strip()}%, or {_digits(number / 100)}")
    share = number / (100 if _of(unit, {"": 1, "%": 100}, "%") == 100 else 1)
    if share >= 1:
        raise ValueError(f"{text!r} leaves nothing: give a share below 100%, such as 20%")
    return share


def show_bytes(count: Fraction) -> str:
    """``604.8 TB``."""
    return _scaled(count, ("B", "KB", "MB", "GB", "TB", "PB", "EB"))


def show_count(count: Fraction) -> str:
    """``115.7 k``."""
    return _scaled(count, ("", "k", "M", "G", "T")).rstrip()


def show_duration(seconds: Fraction) -> str:
    """In the largest unit that needs no fraction."""
    for name, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if (seconds / size).denominator == 1:
            return f"{int(seconds / size):,} {name}"
    return f"{_digits(seconds)} s"


def show_quotient(quotient: Fraction) -> str:
    """Such that whoever rounds it up sees why."""
    if quotient >= 1_000 and quotient.denominator != 1:
        return f"{float(quotient):,.2f}"
    return _digits(quotient)


def _number_and_unit(text: str, *, is_zero_allowed: bool = False) -> tuple[Fraction, str]:
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no number with a unit")
    number = Fraction(match[1].replace(",", "").replace("_", ""))
    if number == 0 and not is_zero_allowed:
        raise ValueError(f"{text!r} is zero")
    return number, (match[2] or "").strip()


def _of(unit: str, units: Mapping[str, int], known: str) -> int:
    size = units.get(unit.lower())
    if size is None:
        raise ValueError(f"{unit!r} is no unit here: known are {known}")
    return size


def _scaled(count: Fraction, units: tuple[str, ...]) -> str:
    """Each unit a thousand of the one before."""
    size = Fraction(1)
    for unit in units[:-1]:
        # By what is shown: 999.96 K would be shown as 1000 K.
        if count < Fraction(99_995, 100) * size:
            return f"{_digits(count / size)} {unit}"
        size *= 1_000
    return f"{_digits(count / size)} {units[-1]}"


def _digits(number: Fraction) -> str:
    """Four that count, or all in front of the point."""
    value = float(number)
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.4g}"
