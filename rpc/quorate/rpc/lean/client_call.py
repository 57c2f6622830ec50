"""A call as its caller sees it: the listener of its stream, and what it makes of the answer.

A unary call's answer is taken apart while it lies in the receive buffer, and wakes the caller once, when the
status is there. A stream's answers wait in order until they are asked for, and open the window as they are.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from quorate.core.transport import Method
from quorate.core.waking import wake
from quorate.errors import QuorateError
from quorate.rpc.dispatch import parse_response
from quorate.rpc.lean import wire
from quorate.rpc.lean.frames import ErrorCode
from quorate.rpc.lean.grpc_headers import Ending, Metadata, ResponseHead, ending, response_head
from quorate.rpc.lean.header_codec import HeaderList
from quorate.rpc.lean.messages import (
    BrokenMessage,
    MessageReader,
    MessageTooLarge,
    whole_bytes,
)
from quorate.rpc.lean.status import Status, StatusCode, code_of_http, code_of_reset
from quorate.rpc.lean.stream import Stream

__all__ = ["ClientCall", "StreamClientCall", "UnaryClientCall"]


class ClientCall:
    """``on_end``: told once, when the status is known."""

    def __init__(self, method: Method[Any, Any], message_bytes_max: int, on_end: Callable[[], None]) -> None:
        self.stream: Stream | None = None
        #: how it ended; None: it has not
        self.status: Status | None = None
        #: the answer could not be read
        self.failure: QuorateError | None = None
        #: the server says that it has not looked at it, and will not (RFC 9113, 8.7)
        self.is_unseen = False
        self.initial_metadata: Metadata = ()
        self.trailing_metadata: Metadata = ()
        self._method = method
        self._message_bytes_max = message_bytes_max
        self._on_end = on_end
        self._reader = MessageReader(message_bytes_max)
        self._head: ResponseHead | None = None
        self._ending: Ending | None = None

    # ---- what the stream tells

    def on_headers(self, found: HeaderList) -> None:
        if self._head is not None:
            self._ending = ending(found)
            return
        head = response_head(found)
        if head.http_status.startswith(b"1"):
            return  # not the response yet
        self._head = head
        self._ending = head.ending
        if head.ending is not None:
            return
        if head.http_status != b"200" or not head.is_grpc:
            told = f"Received http2 header with status: {head.http_status.decode('latin-1')}"
            self.end(Status(code_of_http(head.http_status), told))
        elif head.encoding != b"identity":
            self.end(Status(StatusCode.INTERNAL, "the answer is compressed, which nobody asked for"))
        else:
            self.initial_metadata = head.metadata

    def on_data(self, part: memoryview) -> None:
        try:
            self._read(part)
        except QuorateError as error:
            self.failure = error
            self.end(Status(StatusCode.INTERNAL, "the answer cannot be read"))
        except MessageTooLarge as error:
            limits = f"({error.message_bytes} vs. {self._message_bytes_max})"
            self.end(
                Status(StatusCode.RESOURCE_EXHAUSTED, f"CLIENT: Received message larger than max {limits}")
            )
        except BrokenMessage:
            self.end(Status(StatusCode.INTERNAL, "the answer is compressed, which nobody asked for"))
        else:
            self._on_part()

    def _read(self, part: memoryview) -> None:
        """Messages that lie whole in it need no reader that remembers; most do."""
        at, end = 0, len(part)
        if self._reader.is_between_messages:
            while end - at >= wire.PREFIX_BYTES:
                next_at = at + whole_bytes(part, at, self._message_bytes_max)
                if next_at > end:
                    break
                self._on_message(part[at + wire.PREFIX_BYTES : next_at])
                at = next_at
                if self.status is not None:
                    return
        if at < end:
            for content in self._reader.feed(part[at:]):
                self._on_message(content)
                if self.status is not None:
                    return

    def on_end(self) -> None:
        if self._ending is None:
            self.end(Status(StatusCode.INTERNAL, "the stream ended without a status"))
            return
        status, self.trailing_metadata = self._ending.status, self._ending.metadata
        if not status.code and not self._reader.is_between_messages:
            status = Status(StatusCode.INTERNAL, "the stream ended within a message")
        self.end(status)

    def on_drained(self) -> None: ...

    def on_lost(self, code: ErrorCode | None, reason: str) -> None:
        if code is None:
            self.end(Status(StatusCode.UNAVAILABLE, reason))
        elif code is ErrorCode.NO_ERROR and self._ending is not None:
            # "I have heard enough": the status came before it.
            self.on_end()
        else:
            # Whoever has begun to answer has seen it, whatever it says now.
            self.is_unseen = code is ErrorCode.REFUSED_STREAM and self._head is None
            self.end(Status(code_of_reset(code), f"{reason} ({code.name})"))

    def _on_message(self, content: memoryview) -> None:
        raise NotImplementedError

    def _on_part(self) -> None:
        raise NotImplementedError

    # ---- what the caller does

    def end(self, status: Status) -> None:
        """The first status counts. The server is told if it does not know."""
        if self.status is None:
            self.status = status
            if self.stream is not None:
                self.stream.reset(ErrorCode.CANCEL)
            self._on_end()

    def _welcome_rest(self) -> None:
        missing = self._reader.missing_bytes
        if missing and self.stream is not None:
            self.stream.expect(missing)


class UnaryClientCall(ClientCall):
    def __init__(self, method: Method[Any, Any], message_bytes_max: int, on_end: Callable[[], None]) -> None:
        super().__init__(method, message_bytes_max, on_end)
        self.response: Message | None = None

    def _on_message(self, content: memoryview) -> None:
        if self.response is not None:
            self.end(Status(StatusCode.INTERNAL, "more than one answer"))
        self.response = parse_response(self._method, content)

    def _on_part(self) -> None:
        stream = self.stream
        if stream is not None:
            # Beyond the frame that is arriving: its window is spent already.
            stream.expect(self._reader.begun_bytes - stream.held_bytes)


class StreamClientCall(ClientCall):
    def __init__(self, method: Method[Any, Any], message_bytes_max: int, on_end: Callable[[], None]) -> None:
        super().__init__(method, message_bytes_max, on_end)
        #: with what each holds of the window
        self._responses: deque[tuple[Message, int]] = deque()
        self._waits_for_response: asyncio.Future[None] | None = None
        self._waits_for_room: asyncio.Future[None] | None = None

    def _on_message(self, content: memoryview) -> None:
        self._responses.append((parse_response(self._method, content), wire.PREFIX_BYTES + len(content)))
        wake(self._waits_for_response)

    def _on_part(self) -> None:
        # A small one at once, so that it does not stick; a larger one when somebody waits for it.
        stream = self.stream
        if self._waits_for_response is not None or (
            stream is not None and self._reader.begun_bytes <= stream.connection.settings.window_bytes
        ):
            self._welcome_rest()

    def on_drained(self) -> None:
        wake(self._waits_for_room)

    def end(self, status: Status) -> None:
        super().end(status)
        wake(self._waits_for_response)
        wake(self._waits_for_room)

    async def next_response(self) -> Message | None:
        """None: there is no other, and the status is known."""
        while not self._responses:
            if self.status is not None:
                return None
            self._waits_for_response = asyncio.get_running_loop().create_future()
            self._welcome_rest()
            try:
                await self._waits_for_response
            finally:
                self._waits_for_response = None
        response, size = self._responses.popleft()
        if self.stream is not None:
            self.stream.consumed(size)
        return response

    async def room(self) -> None:
        """Until all that was sent has left, or the call has ended."""
        while self.status is None and self.stream is not None and not self.stream.is_drained:
            self._waits_for_room = asyncio.get_running_loop().create_future()
            try:
                await self._waits_for_room
            finally:
                self._waits_for_room = None
