"""What a node's process asks of its host."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from quorate.core.config import NodeConfig
from quorate.core.ids import BrokerId
from quorate.core.os_disk import OsDisk
from quorate.node import process
from quorate.node.child import log_size, log_tail
from quorate.node.node import Node


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


def test_end_of_a_log_has_nothing_of_an_earlier_process(tmp_path: Path) -> None:
    log = tmp_path / "node.log"
    assert log_size(str(log)) == 0
    log.write_text("earlier\n")
    start = log_size(str(log))
    log.write_text("earlier\nfirst\nlast\n")
    assert log_tail(str(log), start) == "first\nlast"
    assert log_tail(str(log)) == "earlier\nfirst\nlast"
    log.write_text("earlier\n" + "first" * 1000 + "\nlast\n")
    assert log_tail(str(log), start) == "last"


async def test_stop_that_is_asked_for_during_the_start_ends_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started, let_go = asyncio.Event(), asyncio.Event()

    async def long_recovery(*_: object) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            let_go.set()

    monkeypatch.setattr(Node, "start", long_recovery)
    stop_requested = asyncio.Event()
    disk = OsDisk()
    config = NodeConfig(node_id=BrokerId(1), data_dir=str(tmp_path))
    surroundings = process._surroundings(config, disk, None)
    running = asyncio.create_task(process._start_unless_stopped(config, surroundings, stop_requested))
    await started.wait()
    stop_requested.set()
    assert await running is None
    assert let_go.is_set()
    disk.close()
