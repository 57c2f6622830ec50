"""One seed, one run: in another process, under another hash seed, at another time, whatever ran before."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from typing import Any, Final

import pytest

from quorate.chaos.cluster.faults.kinds import Fault
from quorate.chaos.cluster.run import run_seed
from quorate.chaos.cluster.trace import Trace
from quorate.chaos.sim.loop import SimLoop

#: by seed; between them, every kind there is
KINDS_BY_SEED: Final = {number + 1: tuple(Fault)[number::5] for number in range(5)}

_PROGRAM: Final = """
import sys, time
shift_s = float(sys.argv[1])
for name, unit in (("time", 1), ("time_ns", 10**9), ("monotonic", 1), ("monotonic_ns", 10**9)):
    def shifted(clock=getattr(time, name), by=shift_s * unit):
        return type(clock())(clock() + by)
    setattr(time, name, shifted)
from tests.simulation.test_cluster_determinism import digests
print(*digests())
"""
#: seconds: half a century, and not a whole number of anything
_ANOTHER_TIME: Final = 1_577_836_800.123


def digests() -> list[str]:
    """Of the traces: every log line of every node, every fault, with its time."""
    found = []
    for seed, kinds in KINDS_BY_SEED.items():
        trace = Trace()
        report = run_seed(seed, faults=kinds, trace=trace)
        found += [trace.digest(), report.digest]
    return found


def test_a_seed_gives_the_same_trace_in_another_process_with_another_hash_seed_at_another_time() -> None:
    """Every clock of the machine shows something else; what is simulated reads none of them."""
    told = [
        subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(shift_s)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for hash_seed, shift_s in (("1", 0.0), ("2", _ANOTHER_TIME))
    ]
    assert told[0] == told[1]
    assert len(set(told[0])) == 2 * len(KINDS_BY_SEED)


def test_nothing_waits_for_the_garbage_collector_to_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop closes a forgotten generator in a task of its own, once the collector comes across it: a
    moment that no seed decides. In this one, handlers left the generators of their requests behind."""
    left: list[str] = []

    def leave(_loop: SimLoop, generator: AsyncGenerator[Any, Any]) -> None:
        left.append(repr(generator))

    monkeypatch.setattr(SimLoop, "_asyncgen_finalizer_hook", leave)
    thresholds = gc.get_threshold()
    gc.set_threshold(50, 2, 2)
    try:
        run_seed(3004)
    finally:
        gc.set_threshold(*thresholds)
    assert left == []


def test_to_trace_a_run_does_not_change_it() -> None:
    assert run_seed(3, trace=Trace()).digest == run_seed(3).digest
