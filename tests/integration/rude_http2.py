"""A client that begins requests and never ends them. No gRPC library would, so it speaks HTTP/2 by itself."""

from __future__ import annotations

import select
import socket
import struct
import time
from typing import Final

__all__ = ["UnfinishedRequests"]

_DATA, _HEADERS, _SETTINGS, _PING, _WINDOW_UPDATE = 0, 1, 4, 6, 8
_ACK, _END_HEADERS = 1, 4
_INITIAL_WINDOW: Final = 4
_FRAME_BYTES_MAX: Final = 16_384


class UnfinishedRequests:
    """Calls of one method on one connection, each with all of its request but the last byte."""

    def __init__(self, address: str, path: str, *, calls: int, request_bytes: int) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._received = b""
        self._stream_window = 65_535
        self._socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, b""))
        #: by stream; 0 is the connection
        self._window = {0: 65_535}
        self._unsent: dict[int, int] = {}
        for stream in range(1, 2 * calls, 2):
            self._window[stream] = self._stream_window
            self._socket.sendall(_frame(_HEADERS, _END_HEADERS, stream, _headers(path)))
            self._send(stream, struct.pack(">BI", 0, request_bytes))
            self._unsent[stream] = request_bytes - 1

    def send_for(self, seconds: float) -> None:
        """As much as the server lets in."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            is_stuck = True
            for stream, unsent in self._unsent.items():
                size = min(unsent, self._window[stream], self._window[0], _FRAME_BYTES_MAX)
                if size > 0:
                    self._send(stream, bytes(size))
                    self._unsent[stream] -= size
                    is_stuck = False
            self._receive(0.05 if is_stuck else 0)

    def close(self) -> None:
        self._socket.close()

    def _send(self, stream: int, content: bytes) -> None:
        self._socket.sendall(_frame(_DATA, 0, stream, content))
        self._window[stream] -= len(content)
        self._window[0] -= len(content)

    def _receive(self, timeout_s: float) -> None:
        if not select.select([self._socket], [], [], timeout_s)[0]:
            return
        self._received += self._socket.recv(65_536)
        while len(self._received) >= 9:
            size = int.from_bytes(self._received[:3], "big")
            if len(self._received) < 9 + size:
                return
            kind, flags, stream = struct.unpack(">BBI", self._received[3:9])
            self._heard(kind, flags, stream, self._received[9 : 9 + size])
            self._received = self._received[9 + size :]

    def _heard(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if kind == _WINDOW_UPDATE:
            self._window[stream] = self._window.get(stream, 0) + int.from_bytes(content, "big")
        elif kind == _PING and not flags & _ACK:
            self._socket.sendall(_frame(_PING, _ACK, 0, content))
        elif kind == _SETTINGS and not flags & _ACK:
            for key, value in struct.iter_unpack(">HI", content):
                if key == _INITIAL_WINDOW:
                    for each in self._unsent:
                        self._window[each] += value - self._stream_window
                    self._stream_window = value
            self._socket.sendall(_frame(_SETTINGS, _ACK, 0, b""))


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


def _headers(path: str) -> bytes:
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "broker",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in fields.items())


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()
