"""How much a peer may ask of a connection before it is taken for hostile and closed.

HTTP/2 lets a peer cause work and memory with a few bytes: headers that unpack to megabytes, pings that want
answers, streams that are opened and reset at once, windows that are opened byte by byte. Each has a bound
here. What is only too often is counted in a bucket that refills over time (``Rate``): a burst is harmless,
and a stock client with much to do has bursts.

Rejected: one bucket for all kinds of frames. A client that receives much sends thousands of WINDOW_UPDATEs a
second for good reason; as many SETTINGS are an attack.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from quorate.rpc.lean.faults import ConnectionFault
from quorate.rpc.lean.frames import ErrorCode, FrameType

__all__ = ["Limits", "PeerRates", "Rate", "RateLimit"]

#: streams whose windows are changed for what one frame of SETTINGS costs; and the most that is asked for a
#: change, so that a client with many may do it now and then: stock ones do as they learn how fast the link is
_STREAMS_PER_SETTINGS: Final = 500
_SETTINGS_FOR_WINDOWS_MAX: Final = 10
#: what a DATA frame lets its receiver send: the windows of the stream and of the connection opened again,
#: and a ping to measure the link
_CONTROL_FRAMES_PER_DATA: Final = 4
#: by which clients of gRPC know that they are to ask less often whether anybody is there
_PINGS: Final = "too_many_pings"
_GROWING: Final = (FrameType.WINDOW_UPDATE, FrameType.PING)


@dataclass(frozen=True, slots=True)
class Rate:
    """So many at once, and so many a second from then on."""

    burst: int
    per_s: float


@dataclass(frozen=True, slots=True)
class Limits:
    #: names and values of one header block once unpacked, as HPACK counts them; a peer is told in SETTINGS
    header_list_bytes_max: int = 16 << 10
    #: headers of one block: a call keeps what it came with, and each is ten times what it takes on the wire
    headers_max: int = 128
    #: one header block as it is sent, over all of its frames
    header_block_bytes_max: int = 16 << 10
    #: frames that one header block may be spread over
    continuations_max: int = 16
    #: in one frame of SETTINGS; six have a meaning, and some clients add one that has none
    settings_max: int = 32
    #: what waits to be written because a peer sends much that wants answers, and reads none of them
    unsent_control_bytes_max: int = 1 << 20
    #: RST_STREAM from a peer, and streams of it that had to be reset: each had cost a call
    resets: Rate = Rate(2_000, 500)
    #: header blocks that have to be unpacked and belong to nothing: of streams that were reset, of those that
    #: come after GOAWAY, and interim responses. Who cancels many calls at once gets two for each.
    unwanted_headers: Rate = Rate(5_000, 1_000)
    #: DATA with nothing in it that ends nothing
    empty_data: Rate = Rate(1_000, 100)
    #: frames of types that nobody knows, which have to be passed over
    unknown_frames: Rate = Rate(1_000, 100)
    #: by type of frame. PING, because of clients that measure the link, and WINDOW_UPDATE grow with what is
    #: sent to the peer: see ``PeerRates``.
    control_frames: dict[int, Rate] = field(
        default_factory=lambda: {
            FrameType.PING: Rate(1_000, 100),
            FrameType.SETTINGS: Rate(100, 10),
            FrameType.PRIORITY: Rate(1_000, 100),
            FrameType.GOAWAY: Rate(10, 1),
            FrameType.WINDOW_UPDATE: Rate(10_000, 1_000),
        }
    )


class RateLimit:
    """A bucket of tokens. Over any time it grants its burst, and what came in meanwhile, at most."""

    __slots__ = ("_rate", "_since", "_tokens")

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._tokens: float = rate.burst
        self._since = now

    def take(self, now: float, count: int = 1) -> bool:
        # Filled only once it is empty: a frame that is within the limit costs a subtraction.
        if self._tokens < count:
            self._tokens = min(self._rate.burst, self._tokens + (now - self._since) * self._rate.per_s)
            self._since = now
            if self._tokens < count:
                return False
        self._tokens -= count
        return True

    def earn(self, count: int) -> None:
        """Something was done for the peer that lets it send so many more."""
        self._tokens = min(self._rate.burst, self._tokens + count)


class PeerRates:
    """How often one peer has done what is harmless only now and then."""

    def __init__(self, limits: Limits, now: float) -> None:
        self.now = now
        #: frames of DATA that were sent to the peer, and have not been counted in its favour yet
        self.data_frames_sent = 0
        self._resets = RateLimit(limits.resets, now)
        self._empty_data = RateLimit(limits.empty_data, now)
        self._unknown_frames = RateLimit(limits.unknown_frames, now)
        self._unwanted_headers = RateLimit(limits.unwanted_headers, now)
        self._control_frames = {kind: RateLimit(rate, now) for kind, rate in limits.control_frames.items()}

    def count_reset(self) -> None:
        self._count(self._resets, "too many resets")

    def count_empty_data(self) -> None:
        self._count(self._empty_data, "too many frames of DATA with nothing in them")

    def count_unknown_frame(self) -> None:
        self._count(self._unknown_frames, "too many frames of an unknown type")

    def count_unwanted_headers(self) -> None:
        self._count(self._unwanted_headers, "too many headers of no stream that is there")

    def count_window_change(self, streams: int) -> None:
        """Beside its frame: for what it costs to walk over the streams."""
        limit = self._control_frames.get(FrameType.SETTINGS)
        frames = min(streams // _STREAMS_PER_SETTINGS, _SETTINGS_FOR_WINDOWS_MAX)
        if limit is not None and frames:
            self._count(limit, "too many changes of many windows", frames)

    def count_frame(self, kind: int) -> None:
        limit = self._control_frames.get(kind)
        if limit is not None:
            if self.data_frames_sent:
                self._earn()
            self._count(
                limit, _PINGS if kind == FrameType.PING else f"too many control frames of type {kind}"
            )

    def _earn(self) -> None:
        """Not as they are sent: that is far more often."""
        frames, self.data_frames_sent = self.data_frames_sent, 0
        for kind in _GROWING:
            if kind in self._control_frames:
                self._control_frames[kind].earn(frames * _CONTROL_FRAMES_PER_DATA)

    def _count(self, limit: RateLimit, reason: str, count: int = 1) -> None:
        if not limit.take(self.now, count):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, reason)
