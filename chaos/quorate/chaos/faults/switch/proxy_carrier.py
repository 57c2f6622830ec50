"""A network of connections, for whoever is not root: each node is reached through a proxy, which is here.

A node advertises the proxy's address and listens behind it. TCP loses no bytes, so neither does the proxy:
what a link would drop is held back, until the link is sound again, or for as long as TCP takes to send a lost
packet once more. To both ends that is the same as packets that are lost and sent again. What differs: a new
connection over a blocked link is accepted (by the proxy), and silent from then on.

The proxy has to know who connects: by asking the system which process has the other end of the connection
(``socket_owner``). Rejected: a port for each pair of nodes, as all nodes read the same addresses in one
metadata image; a source address for each node (127.0.0.2, ...), as gRPC does not let a client choose it; an
HTTP proxy named in each node's environment, as nodes ignore that one on purpose.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
from typing import Final

from quorate.chaos.faults.switch.carrier import Place
from quorate.chaos.faults.switch.links import CLIENTS, Links
from quorate.chaos.faults.switch.socket_owner import connecting_process
from quorate.node.cluster_file import ClusterFile
from quorate.node.cluster_layout import HOST

__all__ = ["ProxyCarrier"]

_CHUNK_BYTES: Final = 64 * 1024
#: how much may be under way in one direction of a connection, as a window of TCP
_UNDER_WAY_BYTES_MAX: Final = 4 * 1024 * 1024
#: how long TCP waits before it sends a lost packet again; twice as long each time
_RESEND_S: Final = 0.2
_RESENDS_MAX: Final = 6


class ProxyCarrier:
    def __init__(self, links: Links) -> None:
        self._links = links
        self._healed = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Nothing to do: there is one proxy for each node."""

    async def admit(self, name: str, address: str, cluster_directory: str) -> Place:
        cluster = ClusterFile(cluster_directory)

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            source = _source(cluster, writer)
            task = asyncio.create_task(self._serve(source, name, address, (reader, writer)))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

        server = await asyncio.start_server(accept, HOST, 0)
        self._servers.append(server)
        port = server.sockets[0].getsockname()[1]
        return Place(f"{HOST}:{port}", address, ())

    async def heal(self) -> None:
        self._healed.set()
        self._healed = asyncio.Event()

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def passage(self, source: str, target: str) -> None:
        """Returns once the link lets something through."""
        while self._links.is_blocked(source, target):
            await self._healed.wait()

    def transit_s(self, source: str, target: str) -> float:
        """How long bytes take: the link's delay, and what TCP waits before it sends what was lost again."""
        waited_s = 0.0
        resend_s = _RESEND_S
        for _ in range(_RESENDS_MAX):
            if self._links.is_blocked(source, target) or not self._links.is_lost(source, target):
                break
            waited_s += resend_s
            resend_s *= 2
        return waited_s + self._links.delay_s(source, target)

    async def _serve(
        self,
        source: str,
        target: str,
        address: str,
        near: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        reader, writer = near
        with contextlib.closing(writer):
            # As the packets that open a connection go there and back.
            await self.passage(source, target)
            await self.passage(target, source)
            host, _, port = address.rpartition(":")
            try:
                far_reader, far_writer = await asyncio.open_connection(host, int(port))
            except OSError:
                return  # nobody listens: the connection ends
            with contextlib.closing(far_writer):
                there = _Direction(self, source, target, reader, far_writer)
                back = _Direction(self, target, source, far_reader, writer)
                await _until_one_ends(there.read(), there.write(), back.read(), back.write())


def _source(cluster: ClusterFile, writer: asyncio.StreamWriter) -> str:
    from_port = writer.get_extra_info("peername")[1]
    to_port = writer.get_extra_info("sockname")[1]
    names = {node.process.pid: node.name for node in cluster.read().nodes if node.process is not None}
    pid = connecting_process(from_port, to_port, sorted(names))
    return CLIENTS if pid is None else names[pid]


class _Direction:
    """Bytes one way. Read ahead of what may be written, so that a delay does not divide the throughput."""

    def __init__(
        self,
        carrier: ProxyCarrier,
        source: str,
        target: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._carrier = carrier
        self._source = source
        self._target = target
        self._reader = reader
        self._writer = writer
        #: when each may arrive (never before the one ahead of it); no bytes: the source has closed
        self._under_way: collections.deque[tuple[float, bytes]] = collections.deque()
        self._bytes = 0
        self._changed = asyncio.Event()

    async def read(self) -> None:
        loop = asyncio.get_running_loop()
        due = 0.0
        chunk = b"first"
        while chunk:
            while self._bytes > _UNDER_WAY_BYTES_MAX:
                self._changed.clear()
                await self._changed.wait()
            try:
                chunk = await self._reader.read(_CHUNK_BYTES)
            except ConnectionError:
                chunk = b""
            due = max(due, loop.time() + self._carrier.transit_s(self._source, self._target))
            self._under_way.append((due, chunk))
            self._bytes += len(chunk)
            self._changed.set()
        # The end has to arrive as well; ``write`` returns when it does.
        await asyncio.Event().wait()

    async def write(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while not self._under_way:
                self._changed.clear()
                await self._changed.wait()
            due, chunk = self._under_way[0]
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            await self._carrier.passage(self._source, self._target)
            self._under_way.popleft()
            self._bytes -= len(chunk)
            self._changed.set()
            if not chunk:
                return
            try:
                self._writer.write(chunk)
                await self._writer.drain()
            except ConnectionError:
                return


async def _until_one_ends(*work: collections.abc.Coroutine[None, None, None]) -> None:
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
