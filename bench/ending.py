"""Ends a benchmark so that what it started ends too."""

from __future__ import annotations

import signal
import sys

__all__ = ["end_on_sigterm"]


def end_on_sigterm() -> None:
    """As Ctrl-C does: through every context, each of which stops its processes. Before a loop runs."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
