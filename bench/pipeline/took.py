"""What a piece of work in Spark took: time, and processor time of the JVM and of all its Python workers.

The second says what a query costs where the first says what else the machine was doing.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

__all__ = ["Took", "took"]

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Took(NamedTuple):
    seconds: float
    processor_s: float


def took(spark: SparkSession, work: Callable[[], object]) -> Took:
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - nothing public knows the process
    jvm: int = gateway.proc.pid
    processor, began = _of_tree(jvm), time.perf_counter()
    work()
    return Took(time.perf_counter() - began, _of_tree(jvm) - processor)


def _of_tree(root: int) -> float:
    """Of a process and all below it; of those that have ended, what their parents know of them."""
    children: dict[int, list[int]] = defaultdict(list)
    seconds: dict[int, float] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                    fields = file.read().rpartition(") ")[2].split()
            except OSError:
                continue  # it ended meanwhile
            children[int(fields[1])].append(int(name))
            # User and system, its own and those of children that it has waited for.
            seconds[int(name)] = sum(map(int, fields[11:15])) / _TICKS_PER_S
    total, waiting = 0.0, [root]
    while waiting:
        each = waiting.pop()
        total += seconds.get(each, 0.0)
        waiting += children[each]
    return total
