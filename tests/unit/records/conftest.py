"""Every test that asks for `codec` runs on both implementations."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.unit.records.implementations import IMPLEMENTATIONS


@pytest.fixture(params=IMPLEMENTATIONS)
def codec(request: pytest.FixtureRequest) -> ModuleType:
    module = request.param
    assert isinstance(module, ModuleType)
    return module
