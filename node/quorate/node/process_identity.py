"""Which process is meant: a pid alone does not say, because the system gives it to somebody else later.

A process is named by its pid and the moment it was started. Whoever reads a pid from a file looks at both
before it believes that the process is alive, and before it sends a signal. A zombie counts as dead: it does
nothing any more, and only waits for a parent that may never ask.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["ProcessIdentity", "reap"]

_DEAD_STATES = "ZX"
_STOPPED_STATES = "Tt"
_DYING_STATE = "D"


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    pid: int
    #: when it was started, in the system's own words; compared and never read
    started: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """Who has that pid now; None: nobody."""
        found = _look_up(pid)
        return None if found is None else cls(pid, found[1])

    @property
    def is_running(self) -> bool:
        return self._state() not in (None, *_DEAD_STATES)

    @property
    def is_stopped(self) -> bool:
        """SIGSTOP has taken effect."""
        return self._state() in tuple(_STOPPED_STATES)

    def send(self, number: signal.Signals) -> bool:
        """False: it is gone, and nobody got the signal."""
        try:
            with contextlib.ExitStack() as stack:
                deliver = _signal_sender(self.pid, stack)
                # After the process was pinned down: the pid cannot change hands between look and signal.
                if not self.is_running:
                    return False
                deliver(number)
        except ProcessLookupError:
            return False
        return True

    def _state(self) -> str | None:
        found = _look_up(self.pid)
        return found[0] if found is not None and found[1] == self.started else None


def reap(pid: int) -> int | None:
    """The exit status (a signal's number is negative) if it is a child of ours that has just ended."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if ended == pid else None


def _signal_sender(pid: int, stack: contextlib.ExitStack) -> Callable[[signal.Signals], None]:
    if not hasattr(os, "pidfd_open"):
        return lambda number: os.kill(pid, number)
    descriptor = os.pidfd_open(pid)
    stack.callback(os.close, descriptor)
    return lambda number: signal.pidfd_send_signal(descriptor, number)


def _look_up(pid: int) -> tuple[str, str] | None:
    """State (one letter) and start of a process."""
    if os.path.isdir("/proc/self"):
        return _from_proc(pid)
    return _from_ps(pid)


def _from_proc(pid: int) -> tuple[str, str] | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            content = file.read()
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot_id = file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in parentheses, may hold anything; what follows it starts with field 3.
    fields = content.rpartition(")")[2].split()
    state, thread_count, start_ticks = fields[0], int(fields[17]), fields[19]
    if state == "Z" and thread_count > 1:
        # Killed, but a thread waits for the disk; the process keeps its sockets and locks until then.
        state = _DYING_STATE
    # Ticks are counted from the boot, so the boot belongs to the name.
    return state, f"{boot_id}/{start_ticks}"


def _from_ps(pid: int) -> tuple[str, str] | None:
    """Where there is no /proc."""
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our own
    state, _, started = answer.stdout.strip().partition(" ")
    return (state[0], started.strip()) if state else None
