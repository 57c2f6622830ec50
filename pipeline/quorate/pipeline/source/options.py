"""Reads the options of a query: every value is checked, and one that is not understood is refused by name.

Spark does not distinguish upper and lower case in their names, so neither do we; messages show the usual
spelling.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from quorate.core.topic_names import check_topic_name
from quorate.errors import InvalidConfig, InvalidTopic

__all__ = ["BOOTSTRAP", "Options", "refusal"]

T = TypeVar("T")

#: Spark's Kafka source wants the first; both are the same
BOOTSTRAP: Final = ("kafka.bootstrap.servers", "bootstrap.servers")

#: offsets, timestamps and counts are no larger anywhere
_INT64_MAX: Final = (1 << 63) - 1
#: characters of a value that is too long to be read
_SHOWN_MAX: Final = 500
_UNITS_S: Final = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def refusal(name: str, why: str) -> InvalidConfig:
    return InvalidConfig(f"option {name}: {why}", key=name)


class Options:
    """The given options, by their usual names."""

    def __init__(self, given: Mapping[str, str], known: frozenset[str], *, what: str) -> None:
        """`what`: they are for, as in "batch reads"."""
        spelled = {name.lower(): name for name in known}
        self._values: dict[str, str] = {}
        for name, value in given.items():
            usual = spelled.get(name.lower())
            if usual is None:
                raise refusal(name, _unknown(name, spelled, what))
            self._values[usual] = str(value)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str | None:
        return self._values.get(name)

    def bootstrap(self) -> tuple[str, ...]:
        given = [name for name in BOOTSTRAP if name in self._values]
        if not given:
            raise refusal(BOOTSTRAP[0], "it is missing; give the brokers as HOST:PORT[,HOST:PORT…]")
        if len(given) > 1 and len({self._values[name] for name in given}) > 1:
            raise refusal(given[1], f"it contradicts {given[0]}; give one of them")
        from quorate.client.bootstrap import parse_bootstrap

        try:
            return tuple(parse_bootstrap(self._values[given[0]]))
        except InvalidConfig as error:
            raise refusal(given[0], error.message) from error

    def check_topics(self, name: str, topics: Iterable[str]) -> None:
        """Whether these, from the option of that name, can be names of topics."""
        for topic in topics:
            try:
                check_topic_name(topic)
            except InvalidTopic as error:
                raise refusal(name, error.message) from error

    def flag(self, name: str, *, default: bool) -> bool:
        value = self._values.get(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise refusal(name, f"it is {_shortened(value)!r}; true or false is expected")
        return value.lower() == "true"

    def count(self, name: str, *, default: int, at_least: int = 1) -> int:
        found = self.optional_count(name, at_least=at_least)
        return default if found is None else found

    def optional_count(self, name: str, *, at_least: int = 1) -> int | None:
        value = self._values.get(name)
        if value is None:
            return None
        try:
            number = int(value)
        except ValueError:
            number = at_least - 1
        if not at_least <= number <= _INT64_MAX:
            raise refusal(
                name,
                f"it is {_shortened(value)!r}; a whole number from {at_least} on, of 64 bits at most, is "
                f"expected",
            )
        return number

    def choice(self, name: str, choices: tuple[str, ...], *, default: str) -> str:
        value = self._values.get(name, default).lower()
        if value not in choices:
            given = _shortened(self._values[name])
            raise refusal(name, f"it is {given!r}; {' or '.join(choices)} is expected")
        return value

    def seconds(self, name: str) -> float | None:
        """A duration as Spark writes them: 500ms, 30s, 15m, 1h."""
        value = self._values.get(name)
        if value is None:
            return None
        text = value.strip().lower()
        digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
        unit = text[len(digits) :].strip() or "ms"
        # Longer ones are no number that anything can be multiplied by.
        if not digits.isdecimal() or len(digits) > len(str(_INT64_MAX)) or unit not in _UNITS_S:
            expected = "a duration such as 500ms, 30s, 15m or 1h"
            raise refusal(name, f"it is {_shortened(value)!r}; {expected} is expected")
        return int(digits) * _UNITS_S[unit]

    def by_partition(self, name: str) -> dict[tuple[str, int], int] | None:
        """``{"topic": {"0": 23}}``."""

        def numbers(found: Any) -> dict[int, int]:
            _expect(found, dict)
            if not all(_is_int(number) and abs(number) <= _INT64_MAX for number in found.values()):
                raise ValueError
            if not all(partition.isdecimal() for partition in found):
                raise ValueError
            return {int(partition): number for partition, number in found.items()}

        document = self._document(name, numbers, 'JSON as {"topic": {"0": 23, "1": -2}}')
        if document is None:
            return None
        self.check_topics(name, document)
        return {(topic, number): at for topic, found in document.items() for number, at in found.items()}

    def assignment(self, name: str) -> dict[str, tuple[int, ...]] | None:
        """``{"topic": [0, 1]}``."""

        def numbers(found: Any) -> tuple[int, ...]:
            _expect(found, list)
            if not all(_is_int(number) for number in found):
                raise ValueError
            return tuple(sorted(set(found)))

        return self._document(name, numbers, 'JSON as {"topic": [0, 1]}')

    def _document(self, name: str, parse: Callable[[Any], T], expected: str) -> dict[str, T] | None:
        value = self._values.get(name)
        if value is None:
            return None
        try:
            document = json.loads(value)
            _expect(document, dict)
            return {topic: parse(found) for topic, found in document.items()}
        # The second one is of JSON that is nested a thousand times.
        except (ValueError, RecursionError):
            raise refusal(name, f"it is {_shortened(value)!r}; {expected} is expected") from None


def _expect(found: object, kind: type) -> None:
    if not isinstance(found, kind):
        raise ValueError


def _shortened(value: str) -> str:
    return value if len(value) <= _SHOWN_MAX else value[: _SHOWN_MAX - 1] + "…"


def _is_int(found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool)


def _unknown(name: str, spelled: Mapping[str, str], what: str) -> str:
    near = difflib.get_close_matches(name.lower(), spelled, n=1)
    hint = f" Did you mean {spelled[near[0]]}?" if near else ""
    return f"{what} of format quorate do not know it.{hint} They know {', '.join(sorted(spelled.values()))}"
