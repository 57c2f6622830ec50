"""What a member's process does, whatever its client library is.

It says ``ready`` once everything is imported, joins when its standard input says so, writes down what
arrives, and leaves when told to. A rebalance is thus never measured together with the start of a process.
Only the standard library, for the reason in `bench.groups.arrivals`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from bench.groups.arrivals import ArrivalWriter, Arrived
from bench.peers.client_lines import say

__all__ = ["Consuming", "be_member", "send_steadily"]


class Consuming(Protocol):
    """A member that has been made and has subscribed, as its library does it."""

    def poll(self) -> Sequence[Arrived]:
        """What came, soon."""
        ...

    def close(self) -> None:
        """Leaves the group."""
        ...


def be_member(join: Callable[[], Consuming], path: str) -> None:
    say({"ready": True})
    if sys.stdin.readline() != "join\n":
        return
    is_to_leave = threading.Event()
    threading.Thread(target=_wait_for_line, args=(is_to_leave,), daemon=True).start()
    with ArrivalWriter(path) as arrivals:
        joined_at = time.monotonic()
        member = join()
        say({"at_s": joined_at})
        while not is_to_leave.is_set():
            records = member.poll()
            if records:
                arrivals.note(records)
        left_at = time.monotonic()
        member.close()
        say({"at_s": left_at, "took_s": time.monotonic() - left_at})


def _wait_for_line(event: threading.Event) -> None:
    sys.stdin.readline()
    event.set()


def send_steadily(send: Callable[[int], None], *, partitions: int, interval_s: float) -> None:
    """A record to each partition per interval, for ever. A sender that falls behind does not catch up."""
    say({"ready": True})
    due = time.monotonic()
    while True:
        for partition in range(partitions):
            send(partition)
        due = max(due + interval_s, time.monotonic() - interval_s)
        time.sleep(max(due - time.monotonic(), 0))
