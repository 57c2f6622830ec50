"""What a peer can do wrong: to a connection, or to one of its streams (RFC 9113, section 5.4)."""

from __future__ import annotations

from quorate.rpc.lean.frames import ErrorCode

__all__ = ["ConnectionFault", "StreamFault"]


class ConnectionFault(Exception):
    """The two sides no longer agree on where they are: GOAWAY, and the end of the connection."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class StreamFault(Exception):
    """One stream is broken, and the others need not know: RST_STREAM."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
