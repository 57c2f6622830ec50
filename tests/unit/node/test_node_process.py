"""What a node's process asks of its host."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from quorate.core.config import NodeConfig
from quorate.core.ids import BrokerId
from quorate.core.os_disk import OsDisk
from quorate.node import process
from quorate.node.child import log_size, log_tail
from quorate.node.node import Node
from quorate.node.stop_times import longest_stop_s


def test_node_runs_on_the_standard_loop_where_uvloop_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert process._loop_factory() is not None
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert process._loop_factory() is None


@pytest.mark.parametrize(
    ("open_files_max", "connections"), [(None, 20_000), (1 << 20, 20_000), (4096, 2048), (200, 100), (1, 1)]
)
def test_connections_leave_half_of_the_descriptors_to_the_disk(
    open_files_max: int | None, connections: int
) -> None:
    """They would else take from a start what it opens its logs with."""
    assert process.connections_within(open_files_max) == connections


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
    surroundings = process._surroundings(config, disk, None, connections_max=10)
    running = asyncio.create_task(process._start_unless_stopped(config, surroundings, stop_requested))
    await started.wait()
    stop_requested.set()
    assert await running is None
    assert let_go.is_set()
    disk.close()


def test_a_process_tells_on_a_signal_what_it_is_at_and_goes_on() -> None:
    """Its threads and its tasks: why a node hangs is nowhere else to be seen."""
    program = (
        "import asyncio, os\n"
        "from quorate.node.stack_dump import STACK_DUMP_SIGNAL, dump_stacks_on_signal\n"
        "async def waits_for_ever(): await asyncio.Event().wait()\n"
        "async def main():\n"
        "    dump_stacks_on_signal()\n"
        "    task = asyncio.create_task(waits_for_ever(), name='stuck')\n"
        "    await asyncio.sleep(0)\n"
        "    os.kill(os.getpid(), STACK_DUMP_SIGNAL)\n"
        "    await asyncio.sleep(0.01)\n"
        "    task.cancel()\n"
        "asyncio.run(main())\n"
    )
    run = subprocess.run([sys.executable, "-c", program], check=True, timeout=60, capture_output=True)
    said = run.stderr.decode()
    assert "Current thread" in said
    assert "name='stuck'" in said
    assert "waits_for_ever" in said


def test_whoever_stops_a_node_waits_for_longer_than_it_may_take_by_its_settings() -> None:
    both = NodeConfig(node_id=BrokerId(1), data_dir="d")
    assert longest_stop_s(both) >= (both.controlled_shutdown_timeout_ms + both.shutdown_grace_ms) / 1000
    patient = replace(both, controlled_shutdown_timeout_ms=120_000)
    assert longest_stop_s(patient) - longest_stop_s(both) == 110
