"""TLS between a loop's socket and a link: to the loop it is a protocol, to the link a transport.

What the loop's own transports of TLS have been given and not handed on can only be guessed, and each loop's
are different: asyncio's keep what is written last in buffers that nobody counts, hear nothing any more once
they begin to close, and grow with whatever was written at once. Here what is written is encrypted at once and
lies with the loop's transport, like what is not encrypted. So all bounds and times of a link hold as they are
(``untaken``), and so does its way to part (``Link.part``).

OpenSSL's buffers never shrink: nothing is put into them but piece by piece.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, cast

from quorate.rpc.lean.link import Link

__all__ = ["Encryption"]

#: read at once from the socket, into a buffer that all connections of a thread share
_BUFFER_BYTES: Final = 256 << 10
#: handed to OpenSSL at once, either way: what a record holds
_PIECE_BYTES: Final = 16 << 10

_of_thread = threading.local()


def _shared_buffer() -> memoryview:
    try:
        return cast(memoryview, _of_thread.buffer)
    except AttributeError:
        _of_thread.buffer = memoryview(bytearray(_BUFFER_BYTES))
        return cast(memoryview, _of_thread.buffer)


class Encryption(asyncio.BufferedProtocol):
    def __init__(
        self,
        link: Link,
        context: ssl.SSLContext,
        *,
        is_server: bool,
        server_name: str | None = None,
        within_s: float,
    ) -> None:
        """``within_s``: for the two sides to agree. The link hears of the connection only once they have."""
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._buffer = _shared_buffer()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=is_server, server_hostname=server_name
        )
        self._within_s = within_s
        self._timer: asyncio.TimerHandle | None = None
        self._below: Any = None
        self._is_agreed = False
        #: this side has said its farewell
        self._is_said = False
        #: OSError: why they have not agreed
        self.agreed: asyncio.Future[None] = self._loop.create_future()
        # Of those that nobody waits for.
        self.agreed.add_done_callback(lambda agreed: agreed.cancelled() or agreed.exception())

    # ---- called by the loop

    def connection_made(self, transport: Any) -> None:
        self._below = transport
        self._timer = self._loop.call_later(
            self._within_s, self._give_up, TimeoutError("no agreement on TLS")
        )
        self._agree()

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_said:
            return  # it is heard out, and not listened to
        try:
            self._receive(self._buffer[:nbytes])
        except ssl.SSLError as error:
            if self._is_agreed:
                self._hand_on()
                self._below.close()
            else:
                self._give_up(error)

    def pause_writing(self) -> None:
        if self._is_agreed:
            self._link.pause_writing()

    def resume_writing(self) -> None:
        if self._is_agreed:
            self._link.resume_writing()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_agreed:
            self._link.connection_lost(exc)
        else:
            self._give_up(exc or ConnectionResetError("the other side hung up before TLS was agreed on"))

    # ---- the handshake

    def _agree(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._hand_on()
            return
        except ssl.SSLError as error:
            self._give_up(error)
            return
        self._hand_on()
        if self._timer is not None:
            self._timer.cancel()
        self._is_agreed = True
        self._link.connection_made(cast(asyncio.BaseTransport, self))
        if not self.agreed.done():
            self.agreed.set_result(None)

    def _give_up(self, reason: Exception) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self.agreed.done():
            self.agreed.set_exception(reason)
        # What OpenSSL has to say of it.
        self._hand_on()
        self._below.close()

    # ---- receiving

    def _receive(self, content: memoryview) -> None:
        at = 0
        while at < len(content):
            if self._is_agreed:
                at = self._pass_on(content, at)
            else:
                at += self._incoming.write(content[at : at + _PIECE_BYTES])
                self._agree()
                if self._is_agreed:
                    # What came behind the handshake.
                    at = self._pass_on(content, at)
            if self._is_said or self._below.is_closing():
                return

    def _pass_on(self, content: memoryview, at: int) -> int:
        """Unpacked, as much as the link's buffer has room for; how much of it was used up."""
        buffer = self._link.get_buffer(-1)
        size, is_end = 0, False
        while size < len(buffer) and not is_end:
            if not self._incoming.pending and not self._tls.pending():
                # Asked all the same, it would make an error of it.
                if at == len(content):
                    break
                at += self._incoming.write(content[at : at + _PIECE_BYTES])
            try:
                got = cast(int, self._tls.read(len(buffer) - size, buffer[size:]))
                size += got
                is_end = not got
            except ssl.SSLWantReadError:
                if at == len(content):
                    break
                at += self._incoming.write(content[at : at + _PIECE_BYTES])
            except ssl.SSLZeroReturnError:
                is_end = True
        self._hand_on()
        if size:
            self._link.buffer_updated(size)
        if is_end:
            self.close()
            return len(content)
        return at

    # ---- the link's transport

    def write(self, piece: bytes | memoryview) -> None:
        self.writelines((piece,))

    def writelines(self, pieces: Iterable[bytes | memoryview]) -> None:
        packed: list[bytes] = []
        #: of a record that is not full
        begun = bytearray()
        try:
            for piece in pieces:
                at = 0
                if begun or len(piece) < _PIECE_BYTES:
                    at = _PIECE_BYTES - len(begun)
                    begun += piece[:at]
                    if len(begun) < _PIECE_BYTES:
                        continue
                    packed.append(self._packed(begun))
                    begun.clear()
                view = memoryview(piece)
                while len(piece) - at >= _PIECE_BYTES:
                    packed.append(self._packed(view[at : at + _PIECE_BYTES]))
                    at += _PIECE_BYTES
                begun += view[at:]
            if begun:
                packed.append(self._packed(begun))
        except ssl.SSLError:
            # The other side negotiates once more, which HTTP/2 forbids: nothing may be left out of a stream.
            self._below.abort()
            return
        if len(packed) == 1:
            self._below.write(packed[0])
        else:
            self._below.writelines(packed)

    def _packed(self, content: bytearray | memoryview) -> bytes:
        self._tls.write(content)
        return self._outgoing.read()

    def _hand_on(self) -> None:
        """What OpenSSL has to say by itself."""
        if self._outgoing.pending and not self._below.is_closing():
            self._below.write(self._outgoing.read())

    def get_write_buffer_size(self) -> int:
        size: int = self._below.get_write_buffer_size()
        return size

    def set_write_buffer_limits(self, high: int) -> None:
        self._below.set_write_buffer_limits(high=high)

    def get_extra_info(self, name: str) -> Any:
        return self._tls if name == "ssl_object" else self._below.get_extra_info(name)

    def is_closing(self) -> bool:
        is_closing: bool = self._below.is_closing()
        return is_closing

    def write_eof(self) -> None:
        self._say_farewell()
        self._below.write_eof()

    def close(self) -> None:
        self._say_farewell()
        self._below.close()

    def abort(self) -> None:
        self._below.abort()

    def _say_farewell(self) -> None:
        if self._is_agreed and not self._is_said:
            self._is_said = True
            # It wants to read the other side's.
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._hand_on()
