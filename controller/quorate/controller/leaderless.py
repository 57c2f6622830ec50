"""Leaders for partitions that have none though somebody could lead them.

Mostly there is nothing to do here: who makes a broker active elects it where it was waited for, and who takes
one away elects another. But large decisions come in pieces (``quorate.controller.departures``), and what a
piece leaves to the next one is lost when the controller changes in between. So a new controller looks through
all partitions when it begins, and now and then afterwards.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

from quorate.controller.decision import Decision
from quorate.controller.departures import PARTITION_CHANGES_PER_BATCH_MAX
from quorate.controller.elections import Elections, topics_in_order
from quorate.core.ids import BrokerId
from quorate.metadata.image import MetadataImage

__all__ = ["elect_missing_leaders", "elect_waiting"]


def elect_missing_leaders(
    image: MetadataImage,
    *,
    leaving: Collection[BrokerId] = (),
    changes_max: int = PARTITION_CHANGES_PER_BATCH_MAX,
) -> Decision[None]:
    """Not complete where more are left than fit. ``leaving``: brokers on the way out, who get no leaders."""
    elections = Elections(image, leaving=leaving)
    is_complete = elect_waiting(elections, image, changes_max=changes_max)
    return Decision(tuple(elections.records), None, tuple(elections.events), is_complete=is_complete)


def elect_waiting(elections: Elections, image: MetadataImage, *, changes_max: int) -> bool:
    """Elect for partitions that can have a leader and have none; whether none of them is left."""
    waiting = (
        partition
        for topic in topics_in_order(image)
        for partition in topic.partitions
        if elections.waits_for_leader(partition)
    )
    for partition in islice(waiting, changes_max):
        after = elections.change(partition)
        assert after is not partition, "what does not change would be left for ever"
    return next(waiting, None) is None
