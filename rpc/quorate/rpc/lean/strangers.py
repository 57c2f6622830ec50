"""Requests that are not gRPC, as browsers and probes send them: heard to their ends, and told so.

They are no calls: no method admits them, and none of them counts with what calls hold. So there is a bound
for them alone, over all connections, and their server looks after those that are too slow as after calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from quorate.rpc.lean.faults import ConnectionFault
from quorate.rpc.lean.frames import ErrorCode, Flag
from quorate.rpc.lean.grpc_headers import http_refusal
from quorate.rpc.lean.header_codec import HeaderList
from quorate.rpc.lean.link import Link
from quorate.rpc.lean.stream import Stream, StreamListener

__all__ = ["Stranger", "Strangers"]

#: of all connections together: most are over in the turn in which they came
_STRANGERS_MAX: Final = 1_000


class Strangers:
    """All of a server."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, on_over: Callable[[], None]) -> None:
        self._loop = loop
        #: under way
        self.count = 0
        self._on_over = on_over

    def on_stream(self, stream: Stream, link: Link) -> StreamListener:
        if self.count >= _STRANGERS_MAX:
            stream.connection.rates.count_reset()
            stream.reset(ErrorCode.REFUSED_STREAM)
            return stream.connection.nobody
        self.count += 1
        return Stranger(stream, link, now=self._loop.time(), on_over=self._one_is_over)

    def _one_is_over(self) -> None:
        self.count -= 1
        self._on_over()


class Stranger:
    """A request of some other kind."""

    def __init__(self, stream: Stream, link: Link, *, now: float, on_over: Callable[[], None]) -> None:
        self._stream = stream
        self.link = link
        self._on_over = on_over
        self._is_over = False
        self.peer = link.peer
        self.arriving_since: float | None = now
        self._taking_since: float | None = None

    def on_headers(self, found: HeaderList) -> None: ...

    def on_data(self, part: memoryview) -> None:
        self._stream.consumed(len(part))

    def on_end(self) -> None:
        self._taking_since, self.arriving_since = self.arriving_since, None
        headers, body = http_refusal("This is a gRPC server, and speaks nothing else.\n")
        self._stream.send_headers(headers)
        self._stream.send(body, b"", Flag.END_STREAM)
        if self._stream.is_local_ended:
            self._over()

    def on_drained(self) -> None:
        self._over()

    def on_lost(self, code: ErrorCode | None, reason: str) -> None:  # noqa: ARG002 - the listener's
        self._over()

    def _over(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._on_over()

    def look_at_taking(self, now: float) -> None:
        """Its answer is a line."""

    def is_stuck(self, now: float, for_s: float) -> bool:
        return self._taking_since is not None and now - self._taking_since >= for_s

    def refuse_late(self) -> None:
        self.cut()

    def stop(self) -> None:
        self._reset()

    def cut(self) -> None:
        """Too slow. That counts: who is at it again and again is no client of anybody's."""
        if self._is_over:
            return
        self._reset()
        try:
            self._stream.connection.rates.count_reset()
        except ConnectionFault as fault:
            self.link.fail(fault.code, fault.reason)

    def _reset(self) -> None:
        self._stream.reset(ErrorCode.CANCEL)
        self._over()
