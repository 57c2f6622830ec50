"""What a broker told of its witnesses: numbers that its directory must not be found without (rule 30).

Each heartbeat carries two of them (``quorate.broker.directory``): one that is in the page cache, and one that
is on the device. Both only grow, so of what was heard and what is on record the higher one holds. What
follows from a lower one is said in ``quorate.controller.previous_run``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from quorate.metadata.image import BrokerImage
from quorate.v1.controller_pb2 import BrokerSessionRequest

__all__ = ["NOTHING_HEARD", "HeardWitnesses", "heard_in", "with_heard_witnesses"]


class HeardWitnesses(NamedTuple):
    """The highest numbers of one registration; None: none was heard."""

    cache: int | None = None
    device: int | None = None

    def with_later(self, later: HeardWitnesses) -> HeardWitnesses:
        """Heartbeats of two streams may overtake each other."""
        return HeardWitnesses(_higher(self.cache, later.cache), _higher(self.device, later.device))


NOTHING_HEARD: Final = HeardWitnesses()


def heard_in(request: BrokerSessionRequest) -> HeardWitnesses:
    return HeardWitnesses(
        cache=request.cache_witness if request.HasField("cache_witness") else None,
        device=request.device_witness if request.HasField("device_witness") else None,
    )


def with_heard_witnesses(broker: BrokerImage, heard: HeardWitnesses) -> BrokerImage:
    """With the numbers that the active controller has heard, where they are news."""
    cache, device = broker.cache_witness, broker.device_witness
    if heard.cache is not None and heard.cache > (cache or 0):
        cache = heard.cache
    if heard.device is not None and heard.device > device:
        device = heard.device
    if (cache, device) == (broker.cache_witness, broker.device_witness):
        return broker
    return replace(broker, cache_witness=cache, device_witness=device)


def _higher(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)
