"""A place in a partition, as people say it: with ``--from``, with ``--to``."""

from __future__ import annotations

import re
import reprlib
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

import click

from quorate.core.config.kinds import INT64_MAX, DurationMs

__all__ = ["OffsetChoice", "parse_offset_choice"]

_WORDS: Final[dict[str, Literal["beginning", "end"]]] = {
    "beginning": "beginning",
    "earliest": "beginning",
    "end": "end",
    "latest": "end",
}
#: With a unit: a bare -1 could be meant as an offset.
_AGO: Final = re.compile(r"-(\d+[a-z]+)", re.ASCII)
_AGO_WITHOUT_UNIT: Final = re.compile(r"-\d{1,18}", re.ASCII)
_AGE: Final = DurationMs(0, INT64_MAX)


class OffsetChoice(NamedTuple):
    kind: Literal["beginning", "end", "offset", "time"]
    #: the offset, or milliseconds since 1970
    value: int = 0


def parse_offset_choice(text: str, *, words: str, hint: str) -> OffsetChoice:
    """``words``: those for the two ends that the option's help names; all are understood."""
    if text in _WORDS:
        return OffsetChoice(_WORDS[text])
    if _AGO_WITHOUT_UNIT.fullmatch(text):
        raise click.BadParameter(
            f"{text}: how long ago needs a unit, as {text}s, {text}m, {text}h or {text}d", param_hint=hint
        )
    try:
        if text.isascii() and text.isdecimal():
            return OffsetChoice("offset", int(text))
        return OffsetChoice("time", _moment_ms(text))
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{reprlib.repr(text)} is neither {words}, an offset, a time such as 2026-01-31T12:00:00Z, "
            "nor -1h",
            param_hint=hint,
        ) from None


def _moment_ms(text: str) -> int:
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return max(0, round(datetime.now(UTC).timestamp() * 1000) - _AGE.parse(ago[1]))
    # Of a time without a zone, the year before or after the calendar's may be asked for.
    return round(datetime.fromisoformat(text).timestamp() * 1000)
