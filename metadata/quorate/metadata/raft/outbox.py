"""What waits to be sent to one peer, over one connection."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from quorate.core.clock import Clock
from quorate.metadata.raft.messages import AppendRequest, Envelope
from quorate.metadata.raft.wire import envelope_to_proto
from quorate.v1 import quorum_pb2

__all__ = ["Outbox"]

_MESSAGES_MAX: Final = 1_000
_BYTES_MAX: Final = 64 << 20
_NOTICE_WAIT_S: Final = 0.003


class Outbox:
    """Bounded; what does not fit is dropped. Read by one call, once.

    A request that says nothing but that the commit index has moved is a *notice*. It waits for a moment:
    under load the next request says the same, and a third of all messages need not be sent.

    A notice is known by what it lacks: entries, and a new round, which heartbeats and read barriers have. The
    request that asks a newcomer how far its log goes lacks both as well, if another came before it. It waits
    for the same moment, once for every voter that is added, and whatever overtakes it asks the same question:
    too little for a mark of its own in every message.
    """

    def __init__(self, greeting: quorum_pb2.ExchangeRequest, clock: Clock) -> None:
        self._greeting: quorum_pb2.ExchangeRequest | None = greeting
        self._clock = clock
        self._envelopes: deque[tuple[int, Envelope]] = deque()
        self._bytes = 0
        self._reader: asyncio.Future[None] | None = None
        self._notice: Envelope | None = None
        self._notice_due = 0.0
        self._is_notice_timed = False
        #: of the last request; heartbeats and read barriers begin a new one
        self._round = -1

    def put(self, envelope: Envelope) -> None:
        message = envelope.message
        if isinstance(message, AppendRequest):
            is_notice = not message.entries and message.round == self._round
            self._round = message.round
            self._notice = envelope if is_notice else None
            if is_notice:
                self._notice_due = self._clock.monotonic() + _NOTICE_WAIT_S
                self._time_notice(_NOTICE_WAIT_S)
                return
        self._enqueue(envelope)

    def _enqueue(self, envelope: Envelope) -> None:
        size = _size_of(envelope)
        if len(self._envelopes) >= _MESSAGES_MAX or self._bytes + size > _BYTES_MAX:
            return
        self._bytes += size
        self._envelopes.append((size, envelope))
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _time_notice(self, seconds: float) -> None:
        if not self._is_notice_timed:
            self._is_notice_timed = True
            self._clock.call_later(seconds, self._release_notice)

    def _release_notice(self) -> None:
        self._is_notice_timed = False
        if self._notice is None:
            return
        wait_s = self._notice_due - self._clock.monotonic()
        if wait_s > _NOTICE_WAIT_S / 2:
            # The timer was set for one that was overtaken; this one has not had its moment yet.
            self._time_notice(wait_s)
            return
        notice, self._notice = self._notice, None
        self._enqueue(notice)

    def __aiter__(self) -> AsyncIterator[quorum_pb2.ExchangeRequest]:
        return self

    async def __anext__(self) -> quorum_pb2.ExchangeRequest:
        if self._greeting is not None:
            greeting, self._greeting = self._greeting, None
            return greeting
        while not self._envelopes:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        size, envelope = self._envelopes.popleft()
        self._bytes -= size
        return envelope_to_proto(envelope)


def _size_of(envelope: Envelope) -> int:
    message = envelope.message
    return sum(len(entry.data) for entry in message.entries) if isinstance(message, AppendRequest) else 0
