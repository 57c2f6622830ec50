"""Addresses as people write them: ``HOST:PORT``, ``[IPV6]:PORT`` or ``unix:PATH``."""

from __future__ import annotations

import socket
from typing import Any, Final, NamedTuple

from quorate.core.config import parse_address

__all__ = ["InetAddress", "UnixAddress", "parse", "peer_name"]

_UNIX: Final = "unix:"


class InetAddress(NamedTuple):
    host: str
    port: int
    #: as it was written, brackets and all
    written_host: str

    @property
    def is_local_name(self) -> bool:
        """Under `.localhost`: this machine's own, whatever a resolver knows (RFC 6761).

        The one of the C library often knows nothing of them, that of other gRPC clients does.
        """
        return self.host.lower().rstrip(".").endswith(".localhost")


class UnixAddress(NamedTuple):
    path: str


def parse(address: str) -> InetAddress | UnixAddress:
    """``ValueError`` for anything else."""
    if address.startswith(_UNIX):
        path = address.removeprefix(_UNIX)
        if not path:
            raise ValueError(f"{address!r} has no path")
        return UnixAddress(path)
    host, port = parse_address(address)
    return InetAddress(host, port, address.rpartition(":")[0])


def peer_name(transport: Any) -> str:
    """Where a connection comes from, as gRPC names it."""
    connection = transport.get_extra_info("socket")
    name = transport.get_extra_info("peername")
    if not isinstance(name, tuple):
        # A Unix socket, or one that is gone already: uvloop has no name for it then.
        return "unix:"
    if connection is not None and connection.family == socket.AF_INET6:
        return f"ipv6:[{name[0]}]:{name[1]}"
    return f"ipv4:{name[0]}:{name[1]}"
