"""One voter of a simulated cluster, as the observer sees it."""

from __future__ import annotations

from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.invariants.metadata_watch import MetadataWatch
from quorate.metadata.image import MetadataImage
from quorate.metadata.raft.core import RaftCore
from quorate.metadata.raft.entries import NO_INDEX, NO_TERM, Index
from quorate.metadata.raft.ready import Role

__all__ = ["ControllerView"]


class ControllerView:
    """Of one process."""

    def __init__(self, machine: SimMachine, watch: MetadataWatch) -> None:
        self._machine = machine
        self._name = f"{machine.name}#{machine.starts}"
        self._watch = watch
        self._image: MetadataImage | None = None
        self._commit_index = NO_INDEX
        self._led_term = NO_TERM

    def look(self) -> MetadataImage | None:
        """Its image, if that has changed."""
        node = self._machine.node
        controller = None if node is None else node.controller
        if controller is None:
            return None
        driver = controller._quorum._driver
        if driver is not None:
            self._look_at_quorum(driver.core)
        image = controller.image
        if image is self._image:
            return None
        self._image = image
        return image

    def _look_at_quorum(self, core: RaftCore) -> None:
        if core.role is Role.LEADER and core.term != self._led_term:
            self._led_term = core.term
            self._watch.saw_leader(self._name, core.term)
        commit_index = core.commit_index
        if commit_index != self._commit_index:
            first = Index(max(self._commit_index + 1, core.first_index))
            committed = [each for each in core.entries_from(first) if each.index <= commit_index]
            self._commit_index = commit_index
            self._watch.saw_committed(self._name, committed)
