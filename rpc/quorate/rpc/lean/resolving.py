"""Where names are: the system's resolver, asked for each name by a thread of its own.

It may take ten seconds to find out that it does not know a name: that of a container that is gone, or of
anybody while no name server answers. An event loop has a few threads for this (libuv has two), for all that
connect. So a node that had lost one peer, and tried it again and again, did not find the others either, and
with one of three voters gone the two that were left elected nobody.

Here a name waits for no other, and whoever looks for one that is being looked up shares the answer: a peer
that is tried again and again costs one thread, not one for each time. A thread is left to itself once nobody
waits: nothing ends a resolver but its own time-outs.

Cost: a name that is there again is found once the question that was under way has failed, and not before.

Rejected: to keep answers. They are wrong just when they matter, as a pod comes back with another address. And
to hand names to the loop with more threads: libuv reads their number once, from the environment.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Final

__all__ = ["Found", "look_up", "looked_up"]

#: as `socket.getaddrinfo` tells them
Found = Sequence[tuple[Any, ...]]

#: names at once; a node knows fewer peers than that
_LOOKUPS_MAX: Final = 256

_lock = threading.Lock()
_lookups: dict[tuple[str, int], Future[Found]] = {}


def look_up(host: str, port: int) -> Future[Found]:
    """It fails with ``OSError``, or ``ValueError`` for what is no name, at once or later.

    Nobody can cancel it: it is everybody's.
    """
    answer: Future[Found] = Future()
    answer.set_running_or_notify_cancel()
    try:
        # What is an address already takes no time.
        answer.set_result(_ask(host, port, socket.AI_NUMERICHOST))
    except socket.gaierror:
        return _shared(host, port, answer)
    return answer


async def looked_up(host: str, port: int) -> Found:
    """The same for whoever has an event loop."""
    answer = look_up(host, port)
    return answer.result() if answer.done() else await asyncio.wrap_future(answer)


def _shared(host: str, port: int, answer: Future[Found]) -> Future[Found]:
    with _lock:
        if (under_way := _lookups.get((host, port))) is not None:
            return under_way
        if len(_lookups) >= _LOOKUPS_MAX:
            raise OSError(f"{_LOOKUPS_MAX} names are being looked up already, and {host} would be one more")
        _lookups[host, port] = answer
    try:
        threading.Thread(target=_look, args=(host, port, answer), name=f"resolve {host}", daemon=True).start()
    except RuntimeError as error:
        # Somebody may have begun to wait for it.
        _finish(host, port)
        answer.set_exception(OSError(f"cannot look {host} up: {error}"))
    return answer


def _look(host: str, port: int, answer: Future[Found]) -> None:
    try:
        found = _ask(host, port, 0)
    except Exception as error:  # noqa: BLE001 - whatever it is: a name that never has an answer is never asked for again
        _finish(host, port)
        answer.set_exception(error)
    else:
        _finish(host, port)
        answer.set_result(found)


def _finish(host: str, port: int) -> None:
    """Before anybody is told: who then looks for it again asks anew."""
    with _lock:
        del _lookups[host, port]


def _forget() -> None:
    """In a process that was forked: the threads are not there, and who held the lock may be one of them."""
    global _lock  # one that nobody is left to release cannot be mended
    _lock = threading.Lock()
    _lookups.clear()


def _ask(host: str, port: int, flags: int) -> Found:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)


os.register_at_fork(after_in_child=_forget)
