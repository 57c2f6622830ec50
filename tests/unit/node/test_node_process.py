"""What a node's process asks of its host."""

from __future__ import annotations

import subprocess
import sys

import pytest

from quorate.node import process


def test_node_runs_on_the_standard_loop_where_uvloop_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert process._loop_factory() is not None
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert process._loop_factory() is None


def test_import_changes_nothing_in_the_host_and_leaves_grpc_to_be_silenced() -> None:
    """gRPC's C core reads its variable while it is imported: afterwards it is too late to set it."""
    program = (
        "import os, sys; before = dict(os.environ); import quorate.node.process\n"
        "assert dict(os.environ) == before\n"
        "assert 'grpc' not in sys.modules\n"
        "import quorate.rpc.grpcio_transport\n"
        "assert dict(os.environ) == before\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
