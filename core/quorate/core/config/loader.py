"""Puts the sources together: ``--set`` over the environment over the file over defaults.

All problems of all sources are found in one pass and reported in one error, because a person who
fixes a file wants to start the node once more, not once per mistake.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from quorate.core.config.schema import REQUIRED, Setting
from quorate.core.config.sources import RawValue
from quorate.errors import InvalidConfig

__all__ = ["resolve"]


def resolve(
    settings: Sequence[Setting],
    sources: Iterable[Sequence[RawValue]],
    *,
    set_elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, object]:
    """Parsed values by key, for the keys that some source names. Later sources win.

    ``set_elsewhere``: known keys that do not belong here, each with the reason why.
    """
    by_key = {each.key: each for each in settings}
    chosen: dict[str, RawValue] = {}
    problems: list[str] = []
    for source in sources:
        for raw in source:
            if raw.key in by_key:
                chosen[raw.key] = raw
            elif raw.key in set_elsewhere:
                problems.append(f"{raw.origin}: {raw.key} {set_elsewhere[raw.key]}")
            else:
                problems.append(_unknown(raw, [*by_key, *set_elsewhere]))
    values: dict[str, object] = {}
    for key, raw in chosen.items():
        try:
            values[key] = by_key[key].kind.parse(raw.value)
        except ValueError as error:
            where = raw.origin if raw.origin_names_key else f"{raw.origin}: {key}"
            problems.append(f"{where}: {error}; expected {by_key[key].kind.accepts}")
    problems += [
        f"{each.key} is required: set it in the file, with --set {each.key}=… or with {each.environment_name}"
        for each in settings
        if each.default is REQUIRED and each.key not in chosen
    ]
    if len(problems) == 1:
        raise InvalidConfig(problems[0])
    if problems:
        raise InvalidConfig("\n  - ".join([f"{len(problems)} problems:", *problems]))
    return values


def _unknown(raw: RawValue, known: Sequence[str]) -> str:
    nearest = difflib.get_close_matches(raw.key, known, n=1, cutoff=0.5)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"{raw.origin}: unknown key {raw.key}{hint}"
