"""Two transports in turns: one server, one client, a few bytes for an answer.

grpcio and lean; with ``--tls``, lean without and with encryption.

What a call takes when it is alone, and how many messages a second get through, as calls and on a stream; and
the processor time of both sides for each, which others on the machine disturb least. Both transports see the
same machine: they take turns within every round, and each figure is the median of the rounds.

    python -m bench.transport [--rounds 5] [--seconds 1] [--tls]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import subprocess
import sys
import tempfile
from typing import Any, Final, NamedTuple, TypeAlias

from bench.cluster.processes import running, tell
from bench.figure import Figure, show
from bench.processor_time import seconds_of_process
from bench.transport_process import IN_FLIGHT

__all__ = ["run"]

_PROCESS: Final = (sys.executable, "-m", "bench.transport_process")
#: what is compared, the second with the first
Kinds: TypeAlias = tuple[str, str]
_KINDS: Final[Kinds] = ("grpcio", "lean")
_KB: Final = 1 << 10


class Load(NamedTuple):
    name: str
    bytes: int


_LOADS: Final = (
    Load("alone", _KB),
    *(Load(name, size * _KB) for name in ("calls", "stream") for size in (1, 16, 128)),
)


async def _measure(kinds: Kinds, rounds: int, seconds: float) -> dict[tuple[Load, str], list[dict[str, Any]]]:
    measured: dict[tuple[Load, str], list[dict[str, Any]]] = {}
    async with contextlib.AsyncExitStack() as stack:
        addresses, pids = {}, {}
        for kind in kinds:
            server = await stack.enter_async_context(running(*_PROCESS, "server", kind))
            assert server.stdout is not None
            addresses[kind] = (await server.stdout.readline()).decode().strip()
            pids[kind] = server.pid
        for _ in range(rounds):
            for load in _LOADS:
                for kind in kinds:
                    arguments = (kind, addresses[kind], load.name, str(load.bytes), str(seconds))
                    before_s = seconds_of_process(pids[kind])
                    told = await tell(*_PROCESS, "client", *arguments)
                    cpu_s = told["cpu_s"] + seconds_of_process(pids[kind]) - before_s
                    told["cpu_us"] = cpu_s / told["messages"] * 1e6
                    measured.setdefault((load, kind), []).append(told)
    return measured


async def run(rounds: int = 5, seconds: float = 1.0, kinds: Kinds = _KINDS) -> list[Figure]:
    measured = await _measure(kinds, rounds, seconds)
    how = f"median of {rounds} rounds of {seconds:g} s in turns"

    def median(load: Load, kind: str, what: str) -> float:
        return float(statistics.median(each[what] for each in measured[load, kind]))

    figures = []
    for load in _LOADS:
        base = median(load, kinds[0], "p50_ms" if load.name == "alone" else "per_s")
        for kind in kinds:
            name = f"{load.name}, {load.bytes // _KB} KB, {kind.partition('=')[0]}"
            cpu = f"{median(load, kind, 'cpu_us'):,.0f} us of processor each"
            if load.name == "alone":
                value = median(load, kind, "p50_ms")
                detail = f"p50; p99 {median(load, kind, 'p99_ms'):.2f} ms; {value / base:.2f}x; {cpu}"
                figures.append(Figure.at_most(name, value, "ms", None, f"{detail}; {how}"))
            else:
                value = median(load, kind, "per_s")
                rate = f"{value * load.bytes / 1e6:,.0f} MB/s"
                detail = f"{rate}; {value / base:.1f}x; {cpu}; {IN_FLIGHT} in flight"
                figures.append(Figure.against(name, value, "/s", None, detail))
    return figures


def _certify(directory: str) -> None:
    """A key, and what it is certified with."""
    files = ["-keyout", f"{directory}/key.pem", "-out", f"{directory}/certificate.pem"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files]
    subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="bench.transport", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--tls", action="store_true", help="what encryption costs the lean transport")
    chosen = parser.parse_args()
    if chosen.tls:
        with tempfile.TemporaryDirectory() as certified:
            _certify(certified)
            figures = asyncio.run(run(chosen.rounds, chosen.seconds, ("lean", f"tls={certified}")))
        show("the lean transport without and with TLS", figures)
    else:
        show("grpcio and the lean transport", asyncio.run(run(chosen.rounds, chosen.seconds)))
