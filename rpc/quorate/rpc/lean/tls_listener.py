"""Takes connections that are to be encrypted, and counts them from the beginning.

A loop's own server tells of such a connection once the two sides have agreed on its encryption. Who never
begins with that would hold a descriptor for as long as it may take, and nobody would have counted it: so
connections are accepted here, and refused here where there is no room.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from quorate.core.logging import get_logger
from quorate.rpc.lean.encryption import Encryption

__all__ = ["TlsListener"]

log = get_logger(__name__)

#: until the next attempt, when no more descriptors are to be had
_PAUSE_S: Final = 1.0


class TlsListener:
    def __init__(
        self,
        listening: socket.socket,
        encrypted: Callable[[], Encryption],
        *,
        handshakes: set[asyncio.Task[None]],
        has_room: Callable[[], bool],
    ) -> None:
        """``handshakes``: those under way, of all listeners of a server."""
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._encrypted = encrypted
        self._handshakes = handshakes
        self._has_room = has_room
        #: accepted, and nobody else's yet
        self._taken_by_nobody: set[socket.socket] = set()
        self._pausing: asyncio.TimerHandle | None = None
        self._loop.add_reader(listening, self._accept)

    def close(self) -> None:
        """Those who are not heard out yet are given up."""
        if self._pausing is not None:
            self._pausing.cancel()
        if self._listening.fileno() >= 0:  # a server may be stopped twice
            self._loop.remove_reader(self._listening)
        self._listening.close()
        for handshake in self._handshakes:
            handshake.cancel()
        # One that is cancelled before it has begun does nothing at all.
        for accepted in self._taken_by_nobody:
            accepted.close()

    def _accept(self) -> None:
        """One of those that wait; the loop tells again while there are others."""
        try:
            accepted, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            log.error("cannot_accept", error=str(error), again_in_s=_PAUSE_S)
            self._loop.remove_reader(self._listening)
            self._pausing = self._loop.call_later(
                _PAUSE_S, self._loop.add_reader, self._listening, self._accept
            )
            return
        if not self._has_room():
            log.warning("too_many_connections", handshakes=len(self._handshakes))
            accepted.close()
            return
        accepted.settimeout(0)
        self._taken_by_nobody.add(accepted)
        handshake = self._loop.create_task(self._agree(accepted))
        self._handshakes.add(handshake)
        handshake.add_done_callback(self._handshakes.discard)

    async def _agree(self, accepted: socket.socket) -> None:
        # The loop's transport closes it from now on: its number may be somebody else's by the time we would.
        self._taken_by_nobody.discard(accepted)
        try:
            encryption = self._encrypted()
            transport, _ = await self._loop.connect_accepted_socket(lambda: encryption, accepted)
            try:
                await encryption.agreed
            except BaseException:
                transport.abort()
                raise
        except OSError as error:
            log.info("connection_not_encrypted", error=str(error))
