"""Sets of seeds as people write them: ``1..500,502``, both ends inclusive."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["format_seeds", "parse_seed_range", "parse_seeds"]

_RANGE: Final = re.compile(r"(\d+)(?:\.\.(\d+))?")


def format_seeds(seeds: Iterable[int]) -> str:
    """Sorted, each once."""
    parts: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if parts and parts[-1][1] == seed - 1:
            parts[-1][1] = seed
        else:
            parts.append([seed, seed])
    return ",".join(f"{first}" if first == last else f"{first}..{last}" for first, last in parts)


def parse_seed_range(text: str) -> range:
    """``ValueError`` if it is none, or the wrong way round."""
    bounds = _RANGE.fullmatch(text)
    if bounds is None:
        raise ValueError(f"{text!r} is not a range of seeds such as 1..1000")
    first = int(bounds[1])
    last = first if bounds[2] is None else int(bounds[2])
    if first > last:
        raise ValueError(f"{text!r} ends before it begins")
    return range(first, last + 1)


def parse_seeds(text: str) -> set[int]:
    return {seed for part in text.split(",") if part for seed in parse_seed_range(part)}
