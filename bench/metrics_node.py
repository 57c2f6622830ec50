"""A node whose recording can be switched on and off while it runs, as a process that a parent steers.

It is made as ``quorate node run`` makes one. Handlers are there twice, measured and bare, and each call is
served by those that are chosen when it begins; a stream stays with them for as long as it lives. The sizes of
messages, of which the transport tells, go to the meters or nowhere.

Usage: python -m bench.metrics_node NODE_ID VOTERS DIRECTORY; it is one of the voters, and a broker.

It prints a line when it is ready. Then lines on standard input, ``on`` or ``off``, each answered by the same
line once that is so.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import uvloop

from quorate.core.clock import SystemClock
from quorate.core.config import NodeConfig, NodeRole
from quorate.core.config.kinds import VoterList
from quorate.core.ids import BrokerId
from quorate.core.logging import LogLevel, configure_logging
from quorate.core.os_disk import OsDisk
from quorate.core.transport import Channel, Handler, Method, Server, Service, Transport
from quorate.node.metrics.measured_transport import MeasuredTransport
from quorate.node.metrics.request import RequestMeter
from quorate.node.metrics.topic import TopicMeter
from quorate.node.node import Node, Surroundings
from quorate.rpc.lean.transport import LeanOptions, LeanTransport
from quorate.rpc.traffic import UNMEASURED, MethodTraffic

__all__: list[str] = []

_TOPICS_MAX: Final = 1_000


class _SwitchedTraffic:
    """For the transport, which asks for a method's once and keeps it."""

    received: Callable[[int], None]
    sent: Callable[[int], None]
    refused: Callable[[str], None]

    def __init__(self, measured: MethodTraffic) -> None:
        self._measured = measured
        self.switch(is_on=False)

    def switch(self, *, is_on: bool) -> None:
        self.received, self.sent, self.refused = self._measured if is_on else UNMEASURED


class Recording:
    """A Transport that measures what it serves while it is on."""

    def __init__(self) -> None:
        self._requests = RequestMeter()
        self._traffics: list[_SwitchedTraffic] = []
        self._transport: Transport = LeanTransport(LeanOptions(traffic=self))
        self._measured = MeasuredTransport(
            self._transport, self._requests, TopicMeter(_TOPICS_MAX), time.monotonic
        )
        self._is_on = False

    def switch(self, *, is_on: bool) -> None:
        self._is_on = is_on
        for traffic in self._traffics:
            traffic.switch(is_on=is_on)

    def of(self, method: Method[Any, Any]) -> MethodTraffic:
        traffic = _SwitchedTraffic(self._requests.of(method))
        self._traffics.append(traffic)
        return traffic  # type: ignore[return-value]  # has all of its attributes

    def connect(self, address: str) -> Channel:
        return self._transport.connect(address)

    async def serve(self, address: str, services: Sequence[Service], *, serving: bool = True) -> Server:
        switched = [self._switched(service) for service in services]
        return await self._transport.serve(address, switched, serving=serving)

    async def is_refused(self, address: str, *, timeout_s: float) -> bool:
        return await self._transport.is_refused(address, timeout_s=timeout_s)

    def _switched(self, service: Service) -> Service:
        switched = copy.copy(service)
        switched.handlers = {
            method: self._either(self._measured.measured_handler(method, handler), handler)
            for method, handler in service.handlers.items()
        }
        return switched

    def _either(self, measured: Any, bare: Any) -> Handler:
        def choose(request: Any, call: Any) -> Any:
            return (measured if self._is_on else bare)(request, call)

        return choose


def _die(reason: str) -> NoReturn:
    sys.stderr.write(f"{reason}\n")
    os._exit(1)


async def _run(config: NodeConfig) -> None:
    recording = Recording()
    disk = OsDisk()
    node = await Node.start(config, Surroundings(SystemClock(), disk, recording, os.urandom, _die))
    stop = asyncio.Event()
    running = asyncio.create_task(node.run(stop, on_ready=_announce), name="node")
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := (await reader.readline()).decode():
        recording.switch(is_on=line.strip() == "on")
        sys.stdout.write(line)
        sys.stdout.flush()
    stop.set()
    await running
    await node.stop()
    disk.close()


def _announce() -> None:
    # As a node does once it is ready.
    gc.collect()
    gc.freeze()
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def main() -> None:
    node_id, voters = BrokerId(int(sys.argv[1])), VoterList().parse(sys.argv[2])
    configure_logging(json=True, level=LogLevel.ERROR)
    config = NodeConfig(
        node_id=node_id,
        node_roles=(NodeRole.CONTROLLER, NodeRole.BROKER),
        data_dir=sys.argv[3],
        listeners=tuple(voter.address for voter in voters if voter.node_id == node_id),
        controller_voters=voters,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(config))


if __name__ == "__main__":
    main()
