"""The process that carries between the nodes of a cluster: ``python -m quorate.chaos.faults.switch``.

A process of its own, so that a drill that is busy does not slow the network down. It takes one order per line
on its standard input, as JSON, and answers each with a line; it ends, and the network with it, when the input
does: a drill that is killed leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from dataclasses import asdict
from typing import Any

from quorate.chaos.faults.switch.carrier import Carrier
from quorate.chaos.faults.switch.links import Links
from quorate.chaos.faults.switch.packet_carrier import PacketCarrier
from quorate.chaos.faults.switch.proxy_carrier import ProxyCarrier

__all__ = ["main"]


class _Switch:
    def __init__(self, kind: str, seed: int) -> None:
        rng = random.Random(seed)
        self._links = Links(rng)
        self._carrier: Carrier = (
            PacketCarrier(self._links) if kind == "namespaces" else ProxyCarrier(self._links)
        )

    async def run(self) -> None:
        orders = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
        try:
            while line := await orders.readline():
                sys.stdout.write(json.dumps(await self._answer(json.loads(line))) + "\n")
                sys.stdout.flush()
        finally:
            await self._carrier.close()

    async def _answer(self, order: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"done": await self._do(**order)}
        except OSError as error:
            return {"failed": str(error)}

    async def _do(self, do: str, **arguments: Any) -> object:
        if do == "open":
            await self._carrier.open()
        elif do == "admit":
            return asdict(await self._carrier.admit(**arguments))
        elif do == "heal":
            self._links.heal()
            await self._carrier.heal()
        else:
            getattr(self._links, do)(**arguments)
        return None


def main() -> None:
    kind, seed = sys.argv[1:]
    asyncio.run(_Switch(kind, int(seed)).run())


if __name__ == "__main__":
    main()
