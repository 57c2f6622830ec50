"""One voter of a simulated cluster, as the observer sees it."""

from __future__ import annotations

from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.invariants.metadata_watch import MetadataWatch
from quorate.controller.controller import Controller
from quorate.metadata.image import MetadataImage
from quorate.metadata.raft.core import RaftCore
from quorate.metadata.raft.entries import NO_INDEX, NO_TERM, Index
from quorate.metadata.raft.ready import Role

__all__ = ["ControllerView"]


class ControllerView:
    """Of one process."""

    def __init__(self, machine: SimMachine, watch: MetadataWatch) -> None:
        self._name = f"{machine.name}#{machine.starts}"
        self._watch = watch
        self._image: MetadataImage | None = None
        self._commit_index = NO_INDEX
        self._led_term = NO_TERM

    def look(self, controller: Controller) -> MetadataImage | None:
        """Its image, if that has changed. Past all properties, since this is what a look costs."""
        driver = controller._quorum._driver
        if driver is not None:
            core = driver.core
            state = core._state
            if state.role is Role.LEADER and state.term != self._led_term:
                self._led_term = state.term
                self._watch.saw_leader(self._name, state.term)
            if state.log.commit_index != self._commit_index:
                self._commit_index_moved(core)
        image = controller._publisher._image
        if image is self._image:
            return None
        self._image = image
        return image

    def _commit_index_moved(self, core: RaftCore) -> None:
        commit_index = core.commit_index
        first = Index(max(self._commit_index + 1, core.first_index))
        committed = [each for each in core.entries_from(first) if each.index <= commit_index]
        self._commit_index = commit_index
        self._watch.saw_committed(self._name, committed)
