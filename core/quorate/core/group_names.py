"""What a group, and whatever a member calls itself, may not be called: it is shown in tables and in logs."""

from __future__ import annotations

__all__ = ["has_control_characters"]

_DELETE = 0x7F
_PRINTABLE_AGAIN = 0xA0


def has_control_characters(name: str) -> bool:
    """A line break, say, which would make one row of a table look like two."""
    return any(ord(each) < ord(" ") or _DELETE <= ord(each) < _PRINTABLE_AGAIN for each in name)
