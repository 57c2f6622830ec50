"""Whose disk may be harmed, and which of its files are whose."""

from __future__ import annotations

from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.scene import Scene
from quorate.metadata.raft.quorum_config import QUORUM_DIRECTORY_NAME

__all__ = ["brokers_to_harm", "is_of_quorum", "mere_brokers"]


def mere_brokers(scene: Scene) -> list[SimMachine]:
    """Those that are no controllers: an operator can give them an empty disk, and need do no more."""
    return [each for each in scene.cluster.brokers if not each.config.is_controller]


def brokers_to_harm(scene: Scene) -> list[SimMachine]:
    """For what a controller on the same disk survives. Where all brokers are controllers, any of them."""
    return mere_brokers(scene) or scene.cluster.brokers


def is_of_quorum(path: str) -> bool:
    """A controller's, whether a broker is in the same process or not."""
    return f"/{QUORUM_DIRECTORY_NAME}" in path
