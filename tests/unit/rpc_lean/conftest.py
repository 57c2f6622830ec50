"""What the tests of encrypted connections share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tools.certificate import Tls, certified


@pytest.fixture(scope="session")
def certificate() -> Iterator[Tls]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing, so there is no certificate")
    with certified() as made:
        yield made
