"""Numbers of cache witnesses go on record while brokers serve, not only when something happens to them.

Which number a broker has told last (``quorate.controller.previous_run``), the active controller knows, and
nobody else. Where it runs in the broker's own process, on the broker's own volume, one loss takes both: the
records and the only memory of the number that would have told of it. The number that is on record by then
must be a recent one. The kernel writes the witness back of its own accord every thirty seconds or so, with
what was in it at that moment; a number on record that is higher than that one shows the loss. What stays is
the time from that moment to the next record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorate.controller.brokers import broker_change
from quorate.controller.decision import Decision
from quorate.controller.previous_run import with_heard_witness
from quorate.core.ids import BrokerId
from quorate.metadata.image import MetadataImage

__all__ = ["WITNESS_INTERVAL_S", "record_heard_witnesses"]

#: one small record of each broker; a thirtieth of the age at which kernels write pages back
WITNESS_INTERVAL_S: Final = 1.0


def record_heard_witnesses(
    image: MetadataImage, heard_witness: Callable[[BrokerId], int | None]
) -> Decision[None]:
    """``heard_witness``: the highest number that the active controller has heard; None: it heard none."""
    records = []
    for broker in image.brokers.values():
        heard = heard_witness(broker.broker_id)
        if with_heard_witness(broker, heard) is not broker:
            records.append(broker_change(broker, heard_witness=heard))
    return Decision(tuple(records), None)
