"""Seconds of processor time, of a process with all its threads, and of children that have ended."""

from __future__ import annotations

import os
import resource
from typing import Final, NamedTuple

__all__ = ["Cpu", "cpu_of", "seconds_of_clients", "seconds_of_process"]

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Cpu(NamedTuple):
    """Seconds."""

    main_user: float = 0.0
    main_system: float = 0.0
    other_threads: float = 0.0

    def __sub__(self, before: Cpu) -> Cpu:
        return Cpu(*(mine - its for mine, its in zip(self, before, strict=True)))

    @property
    def total(self) -> float:
        return sum(self)


def cpu_of(process_id: int) -> Cpu:
    """Of the threads that are alive."""
    main, others = Cpu(), 0.0
    for thread in os.listdir(f"/proc/{process_id}/task"):
        user, system = _user_and_system(f"/proc/{process_id}/task/{thread}/stat")
        if int(thread) == process_id:
            main = Cpu(user, system)
        else:
            others += user + system
    return main._replace(other_threads=others)


def seconds_of_process(process_id: int) -> float:
    return sum(_user_and_system(f"/proc/{process_id}/stat"))


def seconds_of_clients() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _user_and_system(path: str) -> tuple[float, float]:
    """``path``: a stat file of proc, whose second field, the name, may hold anything."""
    with open(path, encoding="ascii") as file:
        fields = file.read().rpartition(") ")[2].split()
    user, system = (int(field) / _TICKS_PER_S for field in fields[11:13])
    return user, system
