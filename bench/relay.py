"""What the transport alone takes for a lone send: the floor under `quorate bench latency`.

Four processes exchange the messages of one send with three replicas, over the product's Transport, without a
log or a check (`bench.relay_process`). In turns with the lone sends of the product, on a cluster that is
there all the time, so that both see the same machine.

    python -m bench.relay [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
from typing import Final

from bench.cluster.peer import Latencies, Load, latencies_of
from bench.cluster.processes import output_of, running
from bench.cluster.quorate_peer import QuoratePeer
from bench.figure import Figure, show
from bench.relay_process import FOLLOWERS
from quorate.node.cluster_layout import HOST, free_ports

__all__ = ["run"]

_LOAD: Final = Load("alone", 3_000, 1_000, warm_up_records=1_000)
_PROCESS: Final = (sys.executable, "-m", "bench.relay_process")


async def _relayed() -> Latencies:
    [port] = free_ports(1)
    address = f"{HOST}:{port}"
    async with contextlib.AsyncExitStack() as stack:
        for role in ("leader", *["follower"] * FOLLOWERS):
            await stack.enter_async_context(running(*_PROCESS, role, address))
        records = _LOAD.warm_up_records + _LOAD.records
        seconds = json.loads(
            await output_of(*_PROCESS, "client", address, str(records), str(_LOAD.value_bytes))
        )
    return latencies_of([each * 1e3 for each in seconds[_LOAD.warm_up_records :]])


async def run(rounds: int = 3) -> list[Figure]:
    relayed, sent = [], []
    async with QuoratePeer() as peer:
        await peer.start()
        await peer.create_topic(_LOAD.topic, 1)
        for _ in range(rounds):
            relayed.append(await _relayed())
            sent.append(await peer.send_alone(_LOAD))
    how = f"median of {rounds} rounds in turns, {_LOAD.records:,} records of {_LOAD.value_bytes:,} bytes each"
    figures = []
    for name in Latencies._fields:
        floor = statistics.median(getattr(each, name) for each in relayed)
        ours = statistics.median(getattr(each, name) for each in sent)
        label = name.partition("_")[0]
        figures += [
            Figure.at_most(f"messages of a lone send, {label}", floor, "ms", None, how),
            Figure.at_most(f"lone send, {label}", ours, "ms", None, f"{ours / floor:.2f}x the messages"),
        ]
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="bench.relay", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    show("A lone send", asyncio.run(run(parser.parse_args().rounds)))
