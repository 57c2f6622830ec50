"""What the two sides of a connection tell each other about it, in SETTINGS."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.rpc.lean.frames import FRAME_BYTES_MAX_DEFAULT, STREAM_ID_MAX, WINDOW_DEFAULT

__all__ = ["LocalSettings", "PeerSettings"]


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """What this side tells the other in SETTINGS."""

    #: for each stream
    window_bytes: int = 1 << 20
    connection_window_bytes: int = 16 << 20
    frame_bytes_max: int = 1 << 20
    #: that the peer may have open; a client grants none
    streams_max: int = 0


@dataclass(slots=True)
class PeerSettings:
    window_bytes: int = WINDOW_DEFAULT
    frame_bytes_max: int = FRAME_BYTES_MAX_DEFAULT
    #: that this side may have open
    streams_max: int = STREAM_ID_MAX
    #: whether any have come
    are_known: bool = False
