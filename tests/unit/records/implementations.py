"""The implementations of the codec that this machine has."""

from __future__ import annotations

from types import ModuleType
from typing import Final

import pytest
from _pytest.mark import ParameterSet

from quorate.core.records import _pure

__all__ = ["BOTH", "IMPLEMENTATIONS"]

try:
    from quorate.core.records import _compiled
except ImportError:
    _built: tuple[ModuleType, ...] = ()
else:
    _built = (_compiled,)

#: for tests that compare them; a single one where the compiled codec was not built
BOTH: Final[tuple[ModuleType, ...]] = (_pure, *_built)

_MISSING: Final = pytest.mark.skip(reason="the compiled codec was not built here: python build_codec.py")

IMPLEMENTATIONS: Final[list[ParameterSet]] = [
    pytest.param(_pure, id="pure"),
    pytest.param(_built[0], id="compiled") if _built else pytest.param(_pure, id="compiled", marks=_MISSING),
]
