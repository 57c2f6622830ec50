"""`kill -9` of a job with all that it has started: Spark's JVM and its workers are in groups of their own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

__all__ = ["jvm_of_session", "kill_own_session", "kill_session"]


def kill_session(leader: int) -> None:
    """Every process of it, the leader first: which must not hear of the others. Not the caller's."""
    # Those that another has started in the meantime are found by the next look.
    while members := sorted(_members(leader), key=lambda pid: pid != leader):
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def jvm_of_session(leader: int) -> int:
    """Spark's, once it is up."""
    (jvm,) = (pid for pid in _members(leader) if Path(f"/proc/{pid}/comm").read_text() == "java\n")
    return jvm


def kill_own_session() -> NoReturn:
    """By a process apart: whoever ends others first goes on for a moment, on its other threads."""
    leader = os.getsid(0)
    if os.fork() == 0:
        os.setsid()
        kill_session(leader)
        os._exit(0)
    while True:
        time.sleep(1)


def _members(leader: int) -> Iterator[int]:
    """Those that are alive."""
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        with suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
            # Behind the name, which may hold anything: state, parent, group, session.
            state, _, _, session = file.read().rpartition(")")[2].split()[:4]
            if int(session) == leader and state not in "ZX":
                yield int(name)
