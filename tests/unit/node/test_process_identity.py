"""A pid alone names nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from quorate.node import process_identity
from quorate.node.process_identity import ProcessIdentity, reap


@pytest.fixture
def child() -> Iterator[int]:
    """A process that waits; not by subprocess, which would reap it behind our back."""
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", "import signal; signal.pause()"], os.environ)
    yield pid
    if reap(pid) is None and ProcessIdentity.of(pid) is not None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def identity_of(pid: int) -> ProcessIdentity:
    identity = ProcessIdentity.of(pid)
    assert identity is not None
    return identity


def wait_until_dead(identity: ProcessIdentity) -> None:
    deadline = time.monotonic() + 10
    while identity.is_running:
        assert time.monotonic() < deadline


def test_own_process_runs() -> None:
    assert identity_of(os.getpid()).is_running


def test_process_that_took_over_a_pid_is_not_the_one_that_had_it(child: int) -> None:
    earlier = ProcessIdentity(child, "another boot/1")
    assert not earlier.is_running
    assert not earlier.send(signal.SIGKILL)
    assert identity_of(child).is_running


def test_zombie_is_dead_and_tells_its_status_once(child: int) -> None:
    identity = identity_of(child)
    assert identity.send(signal.SIGKILL)
    wait_until_dead(identity)
    assert ProcessIdentity.of(child) == identity, "nobody has reaped it yet"
    assert not identity.send(signal.SIGTERM)
    assert reap(child) == -signal.SIGKILL
    assert reap(child) is None
    assert ProcessIdentity.of(child) is None


def test_stopped_process_runs_and_is_known_to_stand_still(child: int) -> None:
    identity = identity_of(child)
    assert not identity.is_stopped
    identity.send(signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)
    assert identity.is_running
    assert identity.is_stopped


def test_without_proc_ps_tells_the_same(child: int, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        subprocess.run(["ps", "--version"], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no ps on this machine")
    monkeypatch.setattr(process_identity, "_look_up", process_identity._from_ps)
    identity = identity_of(child)
    assert identity.is_running
    assert identity.send(signal.SIGKILL)
    wait_until_dead(identity)
    os.waitpid(child, 0)
    assert ProcessIdentity.of(child) is None
