"""Patterns of topic names: regular expressions in RE2's syntax, as subscriptions have them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from quorate.errors import InvalidPattern

__all__ = ["compiled_pattern"]

#: what one compiled pattern may take, and the tables that matching makes of it
_PATTERN_BYTES_MAX: Final = 1 << 20
_PATTERNS_KEPT_MAX: Final = 64


@lru_cache(maxsize=_PATTERNS_KEPT_MAX)
def compiled_pattern(pattern: str) -> Any:
    """RE2 needs a time that grows with a name's length alone, whatever the pattern. Or ``InvalidPattern``."""
    import re2  # only where there is a pattern: most clients have none

    options = re2.Options()
    options.max_mem = _PATTERN_BYTES_MAX
    options.never_capture = True
    # Else each mistake of a client is a line in the broker's standard error.
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidPattern(f"pattern {pattern!r}: {text}", pattern=pattern) from None
