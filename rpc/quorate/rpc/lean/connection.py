"""One HTTP/2 connection without its socket (RFC 9113): either side of it.

Bytes that arrived go into ``receive``, with the time; what is to be sent collects in ``output`` and is taken
by ``take_output``. In between, whoever owns a stream is called as its listener, and whoever owns the
connection is told of new streams (``Acceptor``). Nothing here waits, and nothing here knows a socket or a
clock. What arrives is read in ``receiver``.

Invariants:

- HPACK's tables follow every header block in the order of the wire, also of streams that nobody wants.
- Every byte of DATA is counted against both windows, also if nobody wants it. The connection's window is
  opened again at once, and a stream's as its owner consumes: one that nobody reads holds up itself alone.
- After a ``ConnectionFault`` nothing is read any more: GOAWAY is the last thing that is sent.
- A peer cannot make this side work or keep things without a bound: see ``limits``.

Rejected: the package h2, which does the same with an object per event, and made nobody faster than grpcio
(docs/adr/0021-lean-transport.md); priorities, which are deprecated.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from quorate.rpc.lean.faults import ConnectionFault, StreamFault
from quorate.rpc.lean.frames import (
    PREFACE,
    STREAM_ID_MAX,
    WINDOW_DEFAULT,
    WINDOW_MAX,
    ErrorCode,
    SettingCode,
    goaway_frame,
    ping_frame,
    reset_frame,
    settings_frame,
    window_update_frame,
)
from quorate.rpc.lean.header_codec import HeaderEncoder, HeaderList
from quorate.rpc.lean.limits import Limits, PeerRates
from quorate.rpc.lean.receiver import Receiver
from quorate.rpc.lean.settings import LocalSettings, PeerSettings
from quorate.rpc.lean.stream import Stream

if TYPE_CHECKING:
    # Compiled, a stream needs this module first: of what it has, only its class is there by now.
    from quorate.rpc.lean.stream import StreamListener

__all__ = ["Acceptor", "Connection"]

#: Streams that are remembered after they have ended, to tell what comes late from what never was. A
#: connection that idles keeps them; what is too old to be among them is passed over.
_ENDED_REMEMBERED_MAX: Final = 64
#: What one turn of the loop may hand to the socket: so much, and a frame. It must not all be held here.
_SENT_AT_ONCE_BYTES_MAX: Final = 512 << 10
_SENT_FRAME_BYTES_MAX: Final = 1 << 20
#: the same while little is sent: a single frame
_LITTLE_AT_ONCE_BYTES_MAX: Final = 0
_LITTLE_FRAME_BYTES_MAX: Final = 8 << 10
#: a reason in GOAWAY is for people
_REASON_CHARACTERS_MAX: Final = 200


class Acceptor(Protocol):
    """Whoever owns the connection."""

    def on_stream(self, stream: Stream, found: HeaderList) -> StreamListener:
        """The peer has opened a stream."""
        ...

    def on_goaway(self) -> None:
        """The peer takes no more streams. Those that it did not see have been lost by now."""
        ...

    def on_settings(self) -> None:
        """The peer has told what it grants."""
        ...


class _Nobody:
    """Of streams that belong to nobody yet, or any more."""

    def on_headers(self, found: HeaderList) -> None: ...
    def on_data(self, part: memoryview) -> None: ...
    def on_end(self) -> None: ...
    def on_drained(self) -> None: ...
    def on_lost(self, code: ErrorCode | None, reason: str) -> None: ...


class Connection:
    nobody: StreamListener = _Nobody()

    def __init__(
        self, *, is_client: bool, settings: LocalSettings, limits: Limits, acceptor: Acceptor, now: float
    ) -> None:
        self.is_client = is_client
        self.settings = settings
        self.limits = limits
        self.acceptor = acceptor
        self.peer = PeerSettings()
        self.rates = PeerRates(limits, now)
        self.encoder = HeaderEncoder()
        self.streams: dict[int, Stream] = {}
        #: the latest to end, and whether it was this side that reset them
        self.ended: dict[int, bool] = {}
        #: Those with something to send, and room in their own windows, for which the connection's window or
        #: the socket had none, in the order of their turns. Whose own window is shut is not among them: the
        #: peer names it when it opens that.
        self.blocked: OrderedDict[int, Stream] = OrderedDict()
        self.send_window = WINDOW_DEFAULT
        #: all that the peer has ever opened of it
        self._granted_bytes = WINDOW_DEFAULT
        #: whether the socket takes more
        self.is_writable = True
        #: why nothing is read any more
        self.fault: ConnectionFault | None = None
        self.output: list[bytes | memoryview] = []
        self.output_bytes = 0
        #: of DATA: of one frame; and of one turn of the loop, before streams wait for the socket
        self.sent_frame_bytes_max = _SENT_FRAME_BYTES_MAX
        self.sent_at_once_bytes_max = _SENT_AT_ONCE_BYTES_MAX
        #: told when there is something to send, once until it is taken
        self.on_output: Callable[[], None] = lambda: None
        #: told when there is so much that it should leave before more is received
        self.on_full: Callable[[], None] = lambda: None
        self.is_peer_going_away = False
        self.is_going_away = False
        #: opened by the peer, whether or not this side takes them
        self.last_peer_stream_id = 0
        #: what GOAWAY tells: no later one has been, or will be, looked at
        self.last_taken_stream_id = 0
        #: of those that have ended, the latest that is no longer among ``ended``
        self._last_forgotten_id = 0
        self._next_stream_id = 1
        self._receiver = Receiver(self)
        self._greet()

    def _greet(self) -> None:
        settings = self.settings
        told = [
            (SettingCode.INITIAL_WINDOW_SIZE, settings.window_bytes),
            (SettingCode.MAX_FRAME_SIZE, settings.frame_bytes_max),
            (SettingCode.MAX_HEADER_LIST_SIZE, self.limits.header_list_bytes_max),
        ]
        if self.is_client:
            self.write(PREFACE)
            told.append((SettingCode.ENABLE_PUSH, 0))
        else:
            told.append((SettingCode.MAX_CONCURRENT_STREAMS, settings.streams_max))
        self.write(settings_frame(told))
        if settings.connection_window_bytes > WINDOW_DEFAULT:
            self.write(window_update_frame(0, settings.connection_window_bytes - WINDOW_DEFAULT))

    # ---- in and out

    def receive(self, view: memoryview, now: float) -> int:
        """How much of it was used up: the rest has to come again, with more behind it."""
        if self.fault is not None:
            return len(view)
        self.rates.now = now
        try:
            if self.output_bytes > self.limits.unsent_control_bytes_max:
                self.check_output()
            return self._receiver.receive(view)
        except ConnectionFault as fault:
            self.fail(fault)
            return len(view)

    def check_output(self) -> None:
        """There is much of it. What is left once the socket takes no more are answers that the peer asks for,
        and does not read: data waits with its streams."""
        self.on_full()
        if self.output_bytes > self.limits.unsent_control_bytes_max:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "answers that nobody reads")

    def write(self, piece: bytes | memoryview) -> None:
        if not self.output:
            self.on_output()
        self.output.append(piece)
        self.output_bytes += len(piece)

    def take_output(self) -> list[bytes | memoryview]:
        taken, self.output = self.output, []
        self.output_bytes = 0
        return taken

    @property
    def data_bytes_sent(self) -> int:
        """Of streams alone: answers to pings are not among them."""
        return self._granted_bytes - self.send_window

    @property
    def waiting_bytes(self) -> int:
        return sum(stream.waiting_bytes for stream in self.streams.values())

    def set_writable(self, *, is_writable: bool) -> None:
        self.is_writable = is_writable
        if is_writable and self.blocked:
            self.pump_all()

    def send_little(self, *, is_little: bool) -> None:
        """At a time: the socket may take it slowly, and others need the memory."""
        self.sent_frame_bytes_max = _LITTLE_FRAME_BYTES_MAX if is_little else _SENT_FRAME_BYTES_MAX
        self.sent_at_once_bytes_max = _LITTLE_AT_ONCE_BYTES_MAX if is_little else _SENT_AT_ONCE_BYTES_MAX

    def pump_all(self) -> None:
        """Everybody in turn: who was served first this time is last the next time.

        Nobody is asked whom there is no room for: a peer could open the window byte by byte, with thousands
        waiting.
        """
        while self.blocked and self.is_writable and self.send_window > 0:
            _, stream = self.blocked.popitem(last=False)
            stream.pump()
            if stream.id in self.blocked:
                # What it has no room in has room for nobody else either.
                return

    def open_window(self, increment: int) -> None:
        """The peer takes so much more, over all streams."""
        self.send_window += increment
        self._granted_bytes += increment
        if self.send_window > WINDOW_MAX:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "no window is that large")
        if self.blocked:
            self.pump_all()

    def change_windows(self, window_bytes: int) -> None:
        """Of all streams, open or yet to come, after a new setting of the peer."""
        difference = window_bytes - self.peer.window_bytes
        if not difference:
            return
        self.rates.count_window_change(len(self.streams))
        self.peer.window_bytes = window_bytes
        for stream in self.streams.values():
            stream.send_window += difference
            if stream.send_window > WINDOW_MAX:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "no window is that large")
            if stream.waiting_bytes and stream.send_window > 0:
                self.blocked[stream.id] = stream

    # ---- streams

    @property
    def is_used_up(self) -> bool:
        """Takes no more streams: the peer said so, or the numbers are all used."""
        return self.is_peer_going_away or self.fault is not None or self._next_stream_id > STREAM_ID_MAX

    def open(self, listener: StreamListener) -> Stream:
        """A client's next stream. There has to be room."""
        assert self.is_client
        stream = Stream(self, self._next_stream_id)
        stream.listener = listener
        self._next_stream_id += 2
        self.streams[stream.id] = stream
        return stream

    def is_idle(self, stream_id: int) -> bool:
        """Nobody has opened it yet; or it is no stream at all."""
        if self.is_client:
            return stream_id >= self._next_stream_id or not stream_id % 2
        return stream_id > self.last_peer_stream_id or not stream_id

    def is_late(self, stream_id: int) -> bool:
        """What a peer sends on a stream that this side has reset was on its way, and is harmless. So is what
        comes on one that ended too long ago to be remembered: nobody knows any more whether it was reset."""
        was_reset = self.ended.get(stream_id)
        if was_reset is None:
            return stream_id <= self._last_forgotten_id and stream_id not in self.streams
        return was_reset

    def ignore(self, stream_id: int) -> None:
        """The peer was told that its stream will not be seen; it may not have known when it opened it."""
        self.last_peer_stream_id = stream_id
        self._remember_ended(stream_id, was_reset=True)

    def forget(self, stream: Stream, *, was_reset: bool = False) -> None:
        """It has ended on both sides, or was reset by this one."""
        del self.streams[stream.id]
        if self.blocked:
            self.blocked.pop(stream.id, None)
        stream.discard()
        self._remember_ended(stream.id, was_reset=was_reset)

    def lose(self, stream: Stream, code: ErrorCode | None, reason: str) -> None:
        listener = stream.listener
        self.forget(stream)
        listener.on_lost(code, reason)

    def reset_broken(self, stream_id: int, fault: StreamFault) -> None:
        """The peer has broken it."""
        self.rates.count_reset()
        self.write(reset_frame(stream_id, fault.code))
        stream = self.streams.get(stream_id)
        if stream is not None:
            self.lose(stream, fault.code, fault.reason)
        self._remember_ended(stream_id, was_reset=True)

    def _remember_ended(self, stream_id: int, *, was_reset: bool) -> None:
        self.ended[stream_id] = was_reset
        if len(self.ended) > _ENDED_REMEMBERED_MAX:
            self._forget_ended()

    def _forget_ended(self) -> None:
        """The older half of them: one at a time would cost every call as much as to remember it."""
        for stream_id in list(self.ended)[: _ENDED_REMEMBERED_MAX // 2]:
            del self.ended[stream_id]
            self._last_forgotten_id = max(self._last_forgotten_id, stream_id)

    # ---- the end

    def ping(self, opaque: bytes) -> None:
        self.write(ping_frame(opaque))

    def go_away(self, reason: str = "") -> None:
        """Takes no more streams; those under way go on."""
        if not self.is_going_away:
            self.is_going_away = True
            self.write(goaway_frame(self.last_taken_stream_id, ErrorCode.NO_ERROR, reason))

    def fail(self, fault: ConnectionFault) -> None:
        """Nothing is read from now on, and GOAWAY is the last that is sent."""
        if self.fault is None:
            self.fault = fault
            reason = fault.reason[:_REASON_CHARACTERS_MAX]
            self.write(goaway_frame(self.last_taken_stream_id, fault.code, reason))
            # Without its code: that is about the connection, and says nothing of what became of a call.
            self.lose_all(None, fault.reason)

    def lose_all(self, code: ErrorCode | None, reason: str) -> None:
        for stream in list(self.streams.values()):
            self.lose(stream, code, reason)

    # ---- for tests

    def validate(self) -> None:
        """What holds between any two calls from outside."""
        assert self.output_bytes == sum(map(len, self.output))
        assert self.blocked.keys() <= self.streams.keys()
        for stream in self.streams.values():
            assert not stream.waiting_bytes or stream.send_window <= 0 or stream.id in self.blocked
        assert len(self.ended) <= _ENDED_REMEMBERED_MAX
        assert self.fault is None or not self.streams, "nothing outlives the connection"
        for stream_id, stream in self.streams.items():
            assert stream.id == stream_id
            assert not (stream.is_local_ended and stream.is_remote_ended), "it would have been forgotten"
            stream.validate()
