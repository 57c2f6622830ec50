"""What the active controller does unasked, now and then.

The first thing of all: a log that holds nothing yet gets its feature level and the cluster's id. Then, for
as long as it is active: leaders move back to their preferred replicas, a bounded number at a time, and moves
whose replicas have caught up are completed, in case nobody asked for an ISR since.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorate.controller.active import ActiveController
from quorate.controller.decision import Decision
from quorate.controller.preferred import move_leaders_back
from quorate.controller.reassignment import complete_reassignments
from quorate.core.clock import Clock
from quorate.core.logging import get_logger
from quorate.errors import QuorateError
from quorate.metadata.image import MetadataImage
from quorate.metadata.records import FEATURE_LEVEL_MAX, cluster_record, feature_level_record

__all__ = ["Duties", "found_metadata"]

log = get_logger(__name__)

#: leaders that move back at once; each costs its partition a short pause
_MOVES_PER_ROUND: Final = 1_000


def found_metadata(image: MetadataImage, *, cluster_id: str) -> Decision[None]:
    """The first records of a new cluster; nothing for one that has them."""
    if image.feature_level:
        return Decision((), None)
    return Decision((feature_level_record(FEATURE_LEVEL_MAX), cluster_record(cluster_id, 0)), None)


class Duties:
    def __init__(self, active: ActiveController, clock: Clock, *, interval_s: float) -> None:
        self._active = active
        self._clock = clock
        self._interval_s = interval_s

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._clock.sleep(self._interval_s)
            self._do(complete_reassignments)
            self._do(lambda image: move_leaders_back(image, moves_max=_MOVES_PER_ROUND))

    def _do(self, decide: Callable[[MetadataImage], Decision[object]]) -> None:
        if not self._active.is_active:
            return
        try:
            self._active.change_unattended(lambda image, _offset: decide(image))
        except QuorateError as error:
            log.warning("duty_put_off", reason=error.message)
