"""Numbers of witnesses go on record while brokers serve, not only when something happens to them.

Which number a broker has told last (``quorate.controller.previous_run``), the active controller knows, and
nobody else. Where it runs in the broker's own process, on the broker's own volume, one loss takes both: the
records and the only memory of the number that would have told of it. The number that is on record by then
must be a recent one. The kernel writes the witness back of its own accord every thirty seconds or so, with
what was in it at that moment; a number on record that is higher than that one shows the loss. What stays is
the time from that moment to the next record.

The number of the device witness (``quorate.controller.previous_run``) goes with it. That one is on record so
that it is known, too, after a power loss of all nodes at once, when nobody remembers what was heard.

All that is news of all brokers is one batch, and the next one is not decided before that is committed: so it
is one small write of the quorum in each interval, however many brokers there are. A record of it changes no
epoch, neither of the broker nor of any partition, and no broker waits for anybody to see it
(``BrokerImage.is_as``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorate.controller.brokers import broker_change
from quorate.controller.decision import Decision
from quorate.controller.witnesses import HeardWitnesses, with_heard_witnesses
from quorate.core.ids import BrokerId
from quorate.metadata.image import MetadataImage

__all__ = ["WITNESS_INTERVAL_S", "record_heard_witnesses"]

#: one small record of each broker; a thirtieth of the age at which kernels write pages back
WITNESS_INTERVAL_S: Final = 1.0


def record_heard_witnesses(
    image: MetadataImage, heard_of: Callable[[BrokerId], HeardWitnesses]
) -> Decision[None]:
    """``heard_of``: the highest numbers that the active controller has heard."""
    records = []
    for broker in image.brokers.values():
        heard = heard_of(broker.broker_id)
        if with_heard_witnesses(broker, heard) is not broker:
            records.append(broker_change(broker, heard=heard))
    return Decision(tuple(records), None)
