"""A connection's socket: the only part of the lean transport on an event loop that touches one.

What arrives is read into one buffer that all connections of the thread share: it is worked off before the
next is read, and only the beginning of a frame that is not whole yet is kept. So an idle connection costs
next to nothing, and the buffer stays in the processor's cache.

What is to be sent in answer to what was read, over whichever connection, leaves when that is worked off; what
is to be sent otherwise, at the end of this turn of the loop: in one write for each connection. From the first
byte that the system does not take, nothing is handed to the socket until the system has all of it, and what
waits stays with its streams (``Connection.is_writable``). So what lies beside the socket is known whenever
there is anything, and counts with the answers that nobody takes (``untaken``).
"""

from __future__ import annotations

import asyncio
import fcntl
import sys
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from quorate.core.logging import get_logger
from quorate.rpc.lean.addresses import peer_name
from quorate.rpc.lean.connection import Acceptor, Connection
from quorate.rpc.lean.faults import ConnectionFault
from quorate.rpc.lean.frames import ErrorCode
from quorate.rpc.lean.limits import Limits
from quorate.rpc.lean.settings import LocalSettings
from quorate.rpc.lean.untaken import Taking, Untaken

__all__ = ["ALPN_PROTOCOL", "KeepAlive", "Link"]

log = get_logger(__name__)

#: at most so much is read at once; what is larger comes in several parts
_BUFFER_BYTES: Final = 1 << 20
#: what HTTP/2 is called while the encryption is agreed on
ALPN_PROTOCOL: Final = "h2"
#: A timer that is late by so much tells of a process that was stopped.
_PAUSE_S: Final = 1.0
_PING: Final = b"quorate?"
#: how long the last words may take to leave; and how often it is looked whether they have
_LAST_WORDS_S: Final = 1.0

_of_thread = threading.local()


class _Shared:
    """What all connections of a thread have in common."""

    __slots__ = ("buffer", "is_reading", "to_flush")

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(_BUFFER_BYTES))
        #: what has arrived at one of them is being worked off
        self.is_reading = False
        #: who has something to send because of that
        self.to_flush: list[LinkCore] = []

    @staticmethod
    def of_thread() -> _Shared:
        try:
            return cast(_Shared, _of_thread.shared)
        except AttributeError:
            _of_thread.shared = _Shared()
            return cast(_Shared, _of_thread.shared)


def _unacknowledged_bytes(transport: asyncio.Transport) -> int:
    """What was written, and the peer's machine does not have yet: with the loop, and with the system."""
    socket = transport.get_extra_info("socket")
    waiting = bytes(4)
    # ValueError: of a socket that is closed.
    with suppress(OSError, ValueError):
        if socket is not None:
            waiting = fcntl.ioctl(socket.fileno(), termios.TIOCOUTQ, waiting)
    return transport.get_write_buffer_size() + int.from_bytes(waiting, sys.byteorder)


class KeepAlive:
    """When to ask whether a silent peer is there, and when to give it up."""

    __slots__ = ("_is_asked", "_silence_s", "_timeout_s")

    def __init__(self, silence_s: float, timeout_s: float) -> None:
        self._silence_s = silence_s
        self._timeout_s = timeout_s
        self._is_asked = False

    def look(self, silent_s: float) -> tuple[bool, bool, float]:
        """Whether to ask now, whether it is dead, and after how many seconds to look again."""
        if silent_s < self._silence_s:
            self._is_asked = False
            return False, False, self._silence_s - silent_s
        if not self._is_asked:
            self._is_asked = True
            return True, False, self._timeout_s
        return False, True, self._timeout_s


class LinkCore:
    """All of a link but what makes it a protocol: a class of C can have no base that is Python's."""

    def __init__(
        self,
        acceptor: Acceptor,
        *,
        is_client: bool,
        settings: LocalSettings,
        limits: Limits,
        keep_alive: KeepAlive,
        on_opened: Callable[[Link], None],
        on_closed: Callable[[Link], None],
    ) -> None:
        """``on_closed`` comes only after ``on_opened``: a connection that cannot be encrypted has neither."""
        self._loop = asyncio.get_running_loop()
        self._shared = _Shared.of_thread()
        self._buffer = self._shared.buffer
        #: the beginning of a frame
        self._rest = b""
        #: the system has not taken all that it was given
        self.is_paused = False
        #: of answers, while any of them lies here
        self._taking: Taking | None = None
        #: all that was given to the socket; and what of it the peer's machine had when it was last asked
        #: whether it is there
        self._written_bytes = 0
        self._taken_when_asked = 0
        self._flush_is_due = False
        #: tells what came with one read from what came with the next
        self.read_number = 0
        #: all has been said, and the peer may still be reading it
        self._is_said = False
        #: uvloop closes the socket of whoever gives up connecting, and tells neither us nor whoever asks it
        self._is_aborted = False
        self._keep_alive = keep_alive
        self._on_opened = on_opened
        self._on_closed = on_closed
        self._timer: asyncio.TimerHandle | None = None
        self._look_at = 0.0
        self._transport: asyncio.Transport | None = None
        #: where what lies with the socket counts, beside what waits in streams; None: nowhere
        self._untaken: Untaken | None = None
        self.peer = ""
        self.since = self.last_heard = self._loop.time()
        self.is_closed = False
        self.connection = Connection(
            is_client=is_client,
            settings=settings,
            limits=limits,
            acceptor=acceptor,
            now=self.last_heard,
        )
        self.connection.on_output = self._flush_soon
        self.connection.on_full = self.flush

    # ---- called by the loop

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=0)
        self.peer = peer_name(transport)
        self._look_later(self._keep_alive.look(0.0)[2])
        self._on_opened(cast(Link, self))
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() != ALPN_PROTOCOL:
            self.fail(ErrorCode.HTTP_1_1_REQUIRED, "the two sides did not agree on HTTP/2 (ALPN)")
            return
        self.flush()

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._buffer[len(self._rest) :] if self._rest else self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        rest = self._rest
        end = len(rest) + nbytes
        if rest:
            self._buffer[: len(rest)] = rest
        self.last_heard = now = self._loop.time()
        if self._is_said:
            return
        shared = self._shared
        self.read_number += 1
        shared.is_reading = True
        try:
            used = self.connection.receive(self._buffer[:end], now)
        finally:
            shared.is_reading = False
            while shared.to_flush:
                shared.to_flush.pop().flush_or_abort()
        self._rest = bytes(self._buffer[used:end]) if used < end else b""
        if self.connection.fault is not None:
            self._end()

    def pause_writing(self) -> None:
        self.is_paused = True
        self.connection.set_writable(is_writable=False)
        if self._untaken is not None and self._taking is None:
            self.look_at_taking(self._loop.time())
        self.count_untaken()

    def resume_writing(self) -> None:
        self.is_paused = False
        if self._untaken is not None:
            self._untaken.hold(self, 0)
        self.connection.set_writable(is_writable=True)
        self.flush()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        reason = f"the connection broke: {exc}" if exc is not None else "the connection was closed"
        self.connection.lose_all(None, reason)
        if self._untaken is not None:
            self._untaken.leave(self)
            self._untaken = None
        self._on_closed(cast(Link, self))

    # ---- what its peer does not take

    @property
    def link(self) -> LinkCore:
        return self

    def count_with(self, untaken: Untaken) -> None:
        if self._untaken is not None:
            self._untaken.leave(self)
        self._untaken = untaken
        untaken.join(self)
        self.count_untaken()

    def count_untaken(self) -> None:
        """What lies beside the socket: of calls that are over, for the most part."""
        untaken = self._untaken
        if untaken is not None:
            size = self.untaken_bytes()
            if size or self in untaken.by_holder:
                untaken.hold(self, size)

    def untaken_bytes(self) -> int:
        if self._transport is None or self.is_closed or self._is_aborted:
            return 0
        return self._transport.get_write_buffer_size() + self.connection.output_bytes

    def send_little(self, *, is_little: bool) -> None:
        self.connection.send_little(is_little=is_little)

    def look_at_taking(self, now: float) -> None:
        if self._transport is None or self.is_closed or self._is_aborted:
            return
        connection = self.connection
        waiting_bytes = connection.waiting_bytes
        if not waiting_bytes and not self.is_paused:
            self._taking = None
            return
        unacknowledged = _unacknowledged_bytes(self._transport)
        untaken = waiting_bytes + unacknowledged
        taken = connection.data_bytes_sent - unacknowledged
        if self._taking is None:
            self._taking = Taking(now, taken)
        else:
            self._taking.look(now, taken, untaken)

    def is_stuck(self, now: float, for_s: float) -> bool:
        return self._taking is not None and now - self._taking.since >= for_s

    def cut(self) -> None:
        """Its calls end with it: at once, as they count as well."""
        self.abort()
        self.connection.lose_all(None, "what was sent is not taken")
        self.count_untaken()

    # ---- sending

    def _flush_soon(self) -> None:
        """Once, when what was read is worked off, or at the end of this turn of the loop."""
        if self._flush_is_due:
            return
        self._flush_is_due = True
        if self._shared.is_reading:
            self._shared.to_flush.append(self)
        else:
            self._loop.call_soon(self.flush)

    def promise_flush(self) -> None:
        """Whoever writes next flushes by itself, in this turn of the loop: no other needs to be asked for."""
        self._flush_is_due = True

    def flush(self) -> None:
        self._flush_is_due = False
        transport, connection = self._transport, self.connection
        # One that broke while it was written to is told of by `connection_lost`, in a later turn of the loop;
        # uvloop takes nothing more until then.
        if transport is None or self._is_said or self._is_aborted or transport.is_closing():
            return
        while connection.output and not self.is_paused and not self.is_closed:
            self._written_bytes += connection.output_bytes
            pieces = connection.take_output()
            if len(pieces) == 1:
                transport.write(pieces[0])
            else:
                transport.writelines(pieces)
            if not self.is_paused and connection.blocked:
                connection.set_writable(is_writable=True)

    def flush_or_abort(self) -> None:
        """For whoever is busy with another connection: what goes wrong on this one is its own end."""
        try:
            self.flush()
        except Exception as error:
            # It must not be taken for a fault of the other one.
            log.error("connection_failed", peer=self.peer, exc_info=error)
            self.abort()

    # ---- the end

    def close(self) -> None:
        """Says what is left to say, and hangs up."""
        if self._transport is None or self.is_closed:
            return
        self.is_paused = False
        self.flush()
        self._transport.close()
        # A peer that does not read would keep it open for ever.
        self._loop.call_later(_LAST_WORDS_S, self.abort)

    def part(self, within_s: float) -> None:
        """Says what is left to say, and hears the peer out until it hangs up; but one that has taken all of
        it is not waited for, nor one that takes longer than that.

        Whoever closes a connection to which the peer still sends, if only that its window is open again,
        destroys what is on its way to the peer.
        """
        transport = self._transport
        if transport is None or self.is_closed or self._is_aborted or transport.is_closing():
            return
        self.is_paused = False
        self.flush()
        self._is_said = True
        # Who only reads is not dead, and nothing can be asked any more.
        if self._timer is not None:
            self._timer.cancel()
        try:
            transport.write_eof()
        except OSError:
            # It had broken already, and the loop has not told yet.
            self.abort()
            return
        until = self._loop.time() + max(within_s, _LAST_WORDS_S)
        self._loop.call_later(_LAST_WORDS_S, self._part_if_taken, until)

    def _part_if_taken(self, until: float) -> None:
        if self._transport is None or self.is_closed:
            return
        if self._loop.time() >= until or not _unacknowledged_bytes(self._transport):
            self.abort()
        else:
            self._loop.call_later(_LAST_WORDS_S, self._part_if_taken, until)

    def abort(self) -> None:
        self._is_aborted = True
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None and not self.is_closed:
            self._transport.abort()

    def fail(self, code: ErrorCode, reason: str) -> None:
        self.connection.fail(ConnectionFault(code, reason))
        self._end()

    def _end(self) -> None:
        fault = self.connection.fault
        assert fault is not None
        if not self.is_closed and self._transport is not None and not self._transport.is_closing():
            log.info("connection_refused", peer=self.peer, code=fault.code.name, reason=fault.reason)
            # In the middle of what it is refused for, it would lose the reason with the connection.
            self.part(0.0)

    # ---- keeping alive

    def _look_later(self, after_s: float) -> None:
        self._look_at = self._loop.time() + after_s
        self._timer = self._loop.call_at(self._look_at, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        if now - self._look_at > _PAUSE_S:
            # It was this process that slept. What came meanwhile has not been read yet: that comes first.
            self._look_later(_PAUSE_S)
            return
        ask, is_dead, again_s = self._keep_alive.look(now - self.last_heard)
        if is_dead and not self._has_taken_more():
            log.info("connection_dead", peer=self.peer)
            self.abort()
            return
        if ask:
            self._has_taken_more()
            self.connection.ping(_PING)
        self._look_later(again_s)

    def _has_taken_more(self) -> bool:
        """Since this was asked last, with more on its way: on a slow link the ping waits behind that."""
        if self._transport is None or self.is_closed:
            return False
        unacknowledged = _unacknowledged_bytes(self._transport)
        before, self._taken_when_asked = self._taken_when_asked, self._written_bytes - unacknowledged
        return unacknowledged > 0 and self._taken_when_asked > before


class Link(LinkCore, asyncio.BufferedProtocol):
    """What a loop takes for a protocol."""
