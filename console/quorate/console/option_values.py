"""Values that several commands take in the same form."""

from __future__ import annotations

from collections.abc import Iterable

import click

from quorate.console.option_types import INT32_MAX

__all__ = ["check_address", "parse_partition", "parse_replicas", "parse_settings", "settings_option"]


def parse_settings(options: Iterable[str], *, hint: str = "--config") -> dict[str, str]:
    """``KEY=VALUE`` of each; the last of a key wins."""
    parsed = {}
    for text in options:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=hint)
        parsed[key] = value
    return parsed


def parse_partition(text: str, *, hint: str) -> tuple[str, int]:
    """``TOPIC:P``."""
    topic, colon, number = text.rpartition(":")
    if not colon or not topic or not _is_number(number):
        raise click.BadParameter(f"{text!r} is not TOPIC:PARTITION", param_hint=hint)
    return topic, _in_range(number, hint)


def parse_replicas(text: str, *, separator: str = ",", hint: str = "--replicas") -> list[int]:
    """Node ids, the preferred leader first."""
    parts = text.split(separator)
    if not all(map(_is_number, parts)):
        raise click.BadParameter(f"{text!r} is not ID{separator}ID{separator}…", param_hint=hint)
    return [_in_range(part, hint) for part in parts]


def check_address(_context: click.Context, parameter: click.Parameter, text: str) -> str:
    """For an argument ``HOST:PORT``."""
    from quorate.core.config import parse_address

    try:
        return str(parse_address(text))
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _in_range(number: str, hint: str) -> int:
    # By its digits first: Python refuses to read a number that has thousands of them.
    if len(number) > len(str(INT32_MAX)) or int(number) > INT32_MAX:
        raise click.BadParameter(f"{number} is greater than {INT32_MAX}", param_hint=hint)
    return int(number)


def _check_settings(
    _context: click.Context, _parameter: click.Parameter, options: tuple[str, ...]
) -> dict[str, str]:
    return parse_settings(options, hint="--set")


#: ``--set KEY=VALUE``, as a mapping
settings_option = click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_check_settings,
    help="Set a key of every node; may be repeated.",
)
