"""All mutations, in the order of the rules that they switch off."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from typing import Final

from quorate.chaos import mutations
from quorate.chaos.mutations.mutation import Mutation

__all__ = ["MUTATIONS", "find_mutation", "mutations_of_rule"]

#: Every one of them that is called ``of_...``, by name: nobody has to remember to enter a new one here.
_MODULES: Final = tuple(
    importlib.import_module(f"{mutations.__name__}.{name}")
    for name in sorted(module.name for module in pkgutil.iter_modules(mutations.__path__))
    if name.startswith("of_")
)

MUTATIONS: Final[tuple[Mutation, ...]] = tuple(
    sorted((each for module in _MODULES for each in module.MUTATIONS), key=lambda each: each.rule)
)

_BY_NAME: Final = {each.name: each for each in MUTATIONS}
assert len(_BY_NAME) == len(MUTATIONS), [
    name for name, count in Counter(each.name for each in MUTATIONS).items() if count > 1
]


def find_mutation(name: str) -> Mutation:
    """KeyError: there is none of that name."""
    return _BY_NAME[name]


def mutations_of_rule(rule: int) -> tuple[Mutation, ...]:
    """Also those that switch it off beside another one."""
    return tuple(each for each in MUTATIONS if rule in each.rules)
