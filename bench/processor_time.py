"""Seconds of processor time, of a process with all its threads, and of children that have ended."""

from __future__ import annotations

import os
import resource
from typing import Final

__all__ = ["seconds_of_clients", "seconds_of_process"]

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def seconds_of_process(process_id: int) -> float:
    with open(f"/proc/{process_id}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(") ")[2].split()
    return sum(int(field) for field in fields[11:13]) / _TICKS_PER_S


def seconds_of_clients() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
