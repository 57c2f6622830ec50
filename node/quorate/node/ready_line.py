"""The line by which a node says that it serves.

By itself, because whoever starts nodes and waits for it needs nothing else of what a node is made of: the
brokers and controllers behind ``process`` take more time to import than all of ``quorate up`` before a spawn.
"""

from __future__ import annotations

from typing import Final

__all__ = ["READY_PREFIX"]

#: Begins the one line on standard output; whoever starts a node waits for it.
READY_PREFIX: Final = "ready: bootstrap="
