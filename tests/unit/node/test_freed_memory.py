"""Freed memory stays with a node, so that the next message costs no pages. Counted, not timed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from quorate.core.freed_memory import keep_freed_memory

MESSAGES = 50
BYTES = 1 << 20
#: of a message: as it was read, as it was put together, as it leaves
COPIES = 3
#: Prints how many pages the kernel had to hand out for all messages, after the first few.
PROGRAM = f"""
import resource
from quorate.core.freed_memory import keep_freed_memory
ASK
def message():
    copies = [b"x" * {BYTES} for _ in range({COPIES})]
    del copies
for _ in range(5): message()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({MESSAGES}): message()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library has this")


def pages_handed_out(ask: str, **environment: str) -> int:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    program = PROGRAM.replace("ASK", ask)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@needs_glibc
def test_a_message_costs_no_pages_once_there_was_one_like_it() -> None:
    assert pages_handed_out("keep_freed_memory()") < MESSAGES
    # Or else the test above shows nothing.
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    assert pages_handed_out("") > MESSAGES * BYTES // page_bytes


@needs_glibc
def test_whoever_has_decided_already_is_asked_nothing() -> None:
    ask = "assert not keep_freed_memory()"
    assert pages_handed_out(ask, MALLOC_TRIM_THRESHOLD_="131072") > MESSAGES


def test_where_it_cannot_be_asked_for_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.core.freed_memory.ctypes.CDLL", lambda _name: object())
    assert keep_freed_memory() is False
