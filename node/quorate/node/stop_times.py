"""How long a node that is asked to stop may take: for itself, and for whoever waits for it."""

from __future__ import annotations

from typing import Final

from quorate.core.config import NodeConfig

__all__ = ["BROKERS_FIRST_S", "longest_stop_s"]

#: How long a controller that stops goes on for the sake of brokers that are stopping, too.
BROKERS_FIRST_S: Final = 10.0


def longest_stop_s(config: NodeConfig) -> float:
    """How long it may wait for others; what it has to write comes on top."""
    waits_ms = config.shutdown_grace_ms + (config.controlled_shutdown_timeout_ms if config.is_broker else 0)
    return waits_ms / 1000 + (BROKERS_FIRST_S if config.is_controller else 0.0)
