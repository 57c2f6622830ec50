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
    _missing = pytest.mark.skip(reason="the compiled codec was not built here: python build_codec.py")
    _second = pytest.param(_pure, id="compiled", marks=_missing)
    BOTH: Final[tuple[ModuleType, ...]] = (_pure,)
else:
    _second = pytest.param(_compiled, id="compiled")
    BOTH = (_pure, _compiled)

IMPLEMENTATIONS: Final[list[ParameterSet]] = [pytest.param(_pure, id="pure"), _second]
