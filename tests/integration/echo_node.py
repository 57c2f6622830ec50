"""Stands in for a node where only its network matters: it echoes, counts what arrives, and calls others.

Orders come on standard input, answers go to standard output: ``call <address> <seconds>`` sends a line over a
connection that is kept, and answers ``answered <milliseconds>`` or ``silent``; ``count`` answers with the
number of lines that arrived here.
"""

from __future__ import annotations

import asyncio
import sys

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class EchoNode:
    def __init__(self) -> None:
        self._arrived = 0
        self._connections: dict[str, Connection] = {}
        self._serial = 0

    async def run(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        orders = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
        async with await asyncio.start_server(self._echo, host, int(port)):
            _say("ready")
            while line := await orders.readline():
                name, *arguments = line.decode().split()
                answer = str(self._arrived) if name == "count" else await self._call(*arguments)
                _say(answer)

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            self._arrived += 1
            writer.write(line)

    async def _call(self, address: str, seconds: str) -> str:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        self._serial += 1
        try:
            async with asyncio.timeout(float(seconds)):
                await self._send_and_wait(address, b"%d\n" % self._serial)
        except (TimeoutError, OSError):
            return "silent"
        return f"answered {(loop.time() - begun) * 1000:.0f}"

    async def _send_and_wait(self, address: str, line: bytes) -> None:
        if address not in self._connections:
            host, _, port = address.rpartition(":")
            self._connections[address] = await asyncio.open_connection(host, int(port))
        reader, writer = self._connections[address]
        writer.write(line)
        # Answers to lines that nobody waited for any more come first.
        while (answer := await reader.readline()) != line:
            if not answer:
                del self._connections[address]
                raise ConnectionResetError


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(EchoNode().run(sys.argv[1]))
