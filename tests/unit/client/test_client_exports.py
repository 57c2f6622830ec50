"""What ``from quorate.client import …`` promises."""

from __future__ import annotations

import subprocess
import sys

import pytest

import quorate.client


def test_every_public_name_is_there() -> None:
    for name in quorate.client.__all__:
        assert getattr(quorate.client, name).__name__ == {"Record": "ConsumerRecord"}.get(name, name)
    assert set(quorate.client.__all__) <= set(dir(quorate.client))


def test_a_record_is_what_a_consumer_gets() -> None:
    assert quorate.client.Record is quorate.client.ConsumerRecord


def test_another_name_is_not() -> None:
    with pytest.raises(AttributeError, match="Produce"):
        quorate.client.Produce  # noqa: B018


def test_importing_the_package_does_not_import_grpc() -> None:
    code = "import sys, quorate.client; print('grpc' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
