"""A connected socket by a deadline, for a thread that has no event loop.

All of it is within the deadline: looking a name up, and every address that it has. `socket.create_connection`
gives each address the whole time anew, and waits for the resolver as long as that likes.
"""

from __future__ import annotations

import socket
import time
from typing import Any

from quorate.errors import Unavailable
from quorate.rpc.lean.addresses import InetAddress, UnixAddress, parse
from quorate.rpc.lean.connect_errors import why_not_connected
from quorate.rpc.lean.resolving import Found, look_up

__all__ = ["dial"]


def dial(address: str, *, deadline: float) -> socket.socket:
    """Connects, or raises ``Unavailable``. ``deadline`` is of `time.monotonic`."""
    try:
        parsed = parse(address)
        if isinstance(parsed, UnixAddress):
            return _connected(socket.AF_UNIX, parsed.path, deadline - time.monotonic())
        made = _first_connected(_addresses_of(parsed, deadline), deadline)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except (OSError, ValueError) as error:
        why = why_not_connected(error)
        raise Unavailable(f"cannot connect to {address}: {why}", address=address) from error
    return made


def _first_connected(found: Found, deadline: float) -> socket.socket:
    """Each gets its share of what is left: one that is dead must not use up the time of the next."""
    failure = OSError("it has no address")
    for index, (family, _, _, _, place) in enumerate(found):
        try:
            return _connected(family, place, (deadline - time.monotonic()) / (len(found) - index))
        except OSError as error:
            failure = error
    raise failure


def _connected(family: int, place: Any, timeout_s: float) -> socket.socket:
    if timeout_s <= 0:
        raise TimeoutError("timed out")
    made = socket.socket(family)
    try:
        made.settimeout(timeout_s)
        made.connect(place)
    except BaseException:
        made.close()
        raise
    return made


def _addresses_of(address: InetAddress, deadline: float) -> Found:
    try:
        return _looked_up_by(deadline, address.host, address.port)
    except socket.gaierror:
        if not address.is_local_name:
            raise
        return _looked_up_by(deadline, "localhost", address.port)


def _looked_up_by(deadline: float, host: str, port: int) -> Found:
    try:
        return look_up(host, port).result(max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        raise TimeoutError(f"nobody has said in time where {host} is") from None
