"""Where the processor time of a load goes: clients, leader, followers; and of each node, which threads.

    python -m bench.cpu

A node's main thread runs the event loop: our Python, uvloop and the transport, which is lean by default and
has other threads only to look up names. Files are synced by other threads; with QUORATE_RPC_TRANSPORT=grpcio
grpcio's own are among them. The topic has one partition, so that one node leads and two follow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

from bench.cluster.peer import Load
from bench.cluster.quorate_peer import QuoratePeer
from bench.processor_time import cpu_of, seconds_of_clients

_TOPIC: Final = "cpu"


class Work(NamedTuple):
    name: str
    load: Load
    run: Callable[[QuoratePeer, Load], Awaitable[object]]


_WORKS: Final = (
    Work(
        "100 B, send_many",
        Load(_TOPIC, 2_000_000, 100),
        lambda peer, load: peer.produce_by(load, "--send-many"),
    ),
    Work("100 B, send", Load(_TOPIC, 1_000_000, 100), lambda peer, load: peer.produce_by(load)),
    Work("1 KB, send", Load(_TOPIC, 300_000, 1_000), lambda peer, load: peer.produce_by(load)),
    Work("one record per batch", Load(_TOPIC, 8_000, 1_000), QuoratePeer.produce_one_per_batch),
    Work("lone send", Load(_TOPIC, 4_000, 1_000), QuoratePeer.send_alone),
    Work("consume 100 B", Load(_TOPIC, 2_000_000, 100), QuoratePeer.consume),
)


async def measure() -> Table:
    table = Table(title="Processor time, microseconds a record", title_justify="left")
    table.add_column("work")
    for column in (
        "clients",
        "leader",
        "its Python and uvloop",
        "its system calls",
        "other threads",
        "a follower",
    ):
        table.add_column(column, justify="right")
    async with QuoratePeer() as peer:
        await peer.start()
        await peer.create_topic(_TOPIC, 1)
        for work in _WORKS:
            before = {each: cpu_of(each) for each in peer.process_ids()}
            clients_before = seconds_of_clients()
            await work.run(peer, work.load)
            clients = seconds_of_clients() - clients_before
            leader, *followers = sorted(
                (cpu_of(each) - before[each] for each in peer.process_ids()), key=lambda cpu: -cpu.total
            )
            follower = sum(each.total for each in followers) / len(followers)
            seconds = (clients, leader.total, *leader, follower)
            table.add_row(work.name, *(f"{each / work.load.records * 1e6:,.2f}" for each in seconds))
    return table


if __name__ == "__main__":
    Console(width=140).print(asyncio.run(measure()))
