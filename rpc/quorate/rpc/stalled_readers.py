"""Clients that are alive and do not take their answers.

An answer that its client does not read stays in this process: gRPC has it, and waits for room in the client's
flow-control window. Keepalive does not help, because such a client answers pings. Ending the call does not
help either: its status queues up behind the answer, and no server can reset a call in grpcio. So the
connection is cut. A client that comes back to it finds it broken (``Unavailable``), as after any other loss.

All calls are looked at now and then, rather than each with a timer of its own: a stream hands over thousands
of answers a second, and next to none is ever late.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote

from quorate.core.logging import get_logger

__all__ = ["HandOver", "StalledReaders", "cut_connection"]

log = get_logger(__name__)

#: how often one limit's time is looked at; an answer is found late by this part of the limit at most
_LOOKS_PER_LIMIT: Final = 4


class HandOver:
    """One call, and since when the transport has an answer of it that the client has not taken."""

    __slots__ = ("_loop", "peer", "since")

    def __init__(self, peer: Callable[[], str]) -> None:
        self._loop = asyncio.get_running_loop()
        self.peer = peer
        self.since: float | None = None

    def begin(self) -> None:
        self.since = self._loop.time()

    def end(self) -> None:
        self.since = None


class StalledReaders:
    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        #: an ordered set
        self._hand_overs: dict[HandOver, None] = {}
        self._port = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self, port: int) -> None:
        """``port``: which this process serves on."""
        self._port = port
        self._look_later()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def add(self, hand_over: HandOver) -> None:
        self._hand_overs[hand_over] = None

    def discard(self, hand_over: HandOver) -> None:
        self._hand_overs.pop(hand_over, None)

    @contextmanager
    def watch(self, peer: Callable[[], str]) -> Iterator[HandOver]:
        hand_over = HandOver(peer)
        self.add(hand_over)
        try:
            yield hand_over
        finally:
            self.discard(hand_over)

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._limit_s / _LOOKS_PER_LIMIT, self._look)

    def _look(self) -> None:
        self._look_later()
        late = asyncio.get_running_loop().time() - self._limit_s
        peers = {each.peer() for each in self._hand_overs if each.since is not None and each.since <= late}
        for peer in peers:
            is_cut = cut_connection(peer, port=self._port)
            log.warning("stalled_reader_cut", peer=peer, limit_s=self._limit_s, found=is_cut)


def cut_connection(peer: str, *, port: int) -> bool:
    """End the connection of ``peer`` (as gRPC names it) to this process's ``port``; False: there is none.

    grpcio knows the socket and does not tell; but every file of this process can be looked at.
    """
    host, _, peer_port = unquote(peer).partition(":")[2].rpartition(":")
    try:
        wanted = (_plain(host.strip("[]")), int(peer_port))
    except ValueError:
        return False
    return any(_cut_if(int(name), wanted, port) for name in os.listdir("/dev/fd"))


def _cut_if(descriptor: int, peer: tuple[str, int], port: int) -> bool:
    # A file that was closed meanwhile, or is no connection, is not the one.
    with contextlib.suppress(OSError):
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
        # A copy: looked at and shut down, it is the same connection, whatever happens to the number.
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            if copy.family not in (socket.AF_INET, socket.AF_INET6) or copy.getsockname()[1] != port:
                return False
            host, peer_port = copy.getpeername()[:2]
            if (_plain(host), peer_port) == peer:
                copy.shutdown(socket.SHUT_RDWR)
                return True
    return False


def _plain(host: str) -> str:
    """An IPv4 address that came to an IPv6 socket, as such."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
