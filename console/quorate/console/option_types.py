"""What options take, where click's own types take more than a command can use.

Numbers that go into a request have 32 bits there, ``nan`` and ``inf`` pass every comparison that should
refuse them, and an argument that is not UTF-8 cannot be sent. Each is wrong usage, and is told as such.
"""

from __future__ import annotations

import math
from typing import Any, Final

import click
from click.types import StringParamType

__all__ = [
    "BROKER_ID",
    "COUNT",
    "GROUP_NAME",
    "INT32_MAX",
    "LOCAL_BROKERS",
    "MOVE_RATE",
    "NUMBER",
    "TEXT",
    "VOTER_ID",
    "FiniteRange",
]

INT32_MAX: Final = (1 << 31) - 1

#: of a cluster on this machine, each a process; who asks for more has mistyped
LOCAL_BROKERS: Final = click.IntRange(1, 100)
#: of something that the cluster numbers from 0: a node, a partition
NUMBER: Final = click.IntRange(0, INT32_MAX)
#: how many of something that the cluster counts
COUNT: Final = click.IntRange(1, INT32_MAX)


class _Id(click.IntRange):
    """Of a broker or a voter. In local clusters nodes have names as well, which the cluster does not know."""

    def __init__(self, what: str, command: str) -> None:
        super().__init__(0, INT32_MAX)
        self._what = what
        self._command = command

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r}: {self._what} is named by its number, see `{self._command}`.", param, ctx)


class FiniteRange(click.FloatRange):
    """A number that can be computed with."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        # Before the range is looked at, which infinity is outside of.
        if not math.isfinite(click.FLOAT.convert(value, param, ctx)):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return super().convert(value, param, ctx)


class _Text(StringParamType):
    """What the system could not decode is kept by Python as characters that nothing can encode."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = super().convert(value, param, ctx)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail(f"{text!r} is not UTF-8.", param, ctx)
        return text


class _GroupName(_Text):
    """Told before anybody is asked: a group without a name cannot be."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        name = super().convert(value, param, ctx)
        if not name:
            self.fail("a group's name has a character at least.", param, ctx)
        return name


class _MoveRate(_Text):
    """As the cluster's setting takes it, whose bounds it has, and as it was written."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from quorate.core.config.schema import settings_of
        from quorate.core.config.topic import FOLLOWER_REPLICATION_THROTTLED_RATE, TopicConfig

        rate = super().convert(value, param, ctx)
        keys = {setting.key: setting.kind for setting in settings_of(TopicConfig)}
        kind = keys[FOLLOWER_REPLICATION_THROTTLED_RATE]
        try:
            kind.parse(rate)
        except ValueError as error:
            self.fail(f"{error}: give bytes per second, such as 10MiB; {kind.accepts}.", param, ctx)
        return rate


BROKER_ID: Final = _Id("a broker", "quorate broker list")
VOTER_ID: Final = _Id("a voter", "quorate cluster quorum")
TEXT: Final = _Text()
MOVE_RATE: Final = _MoveRate()
GROUP_NAME: Final = _GroupName()
