"""Whether this broker does all that it is there for: for whoever restarts brokers one after another.

Ready is a broker that is registered and unfenced, and in the ISR of every replica that it holds. Only then
the next one may be stopped without a partition having one copy less than it should. Partitions that nobody
leads do not count: no replica can catch up there, and waiting for it would hold up those whose start brings
the leader back.
"""

from __future__ import annotations

from quorate.broker.census import ReplicaCensus
from quorate.broker.hosted import Hosted
from quorate.core.ids import BrokerId
from quorate.errors import BrokerFenced

__all__ = ["Readiness"]


class Readiness:
    def __init__(self, broker_id: BrokerId, hosted: Hosted, census: ReplicaCensus) -> None:
        self._broker_id = broker_id
        self._hosted = hosted
        self._census = census

    async def missing(self) -> list[str]:
        """What is not as it should be, in sentences; empty: it is ready."""
        try:
            image = self._hosted.image
        except BrokerFenced:
            return ["the broker is starting: it recovers its logs, or registers"]
        census = await self._census.take(image)
        missing = []
        own = image.brokers.get(self._broker_id)
        if own is not None and own.is_shutting_down:
            missing.append("the broker is about to stop: its leaders move to others")
        elif own is None or own.is_fenced or not self._hosted.lease.is_valid:
            # What the metadata says is as old as the last word from the controller; the lease knows how old.
            missing.append("the broker is fenced, or has lost touch with the active controller")
        if census.out_of_sync:
            names = ", ".join(census.out_of_sync_names)
            more = census.out_of_sync - len(census.out_of_sync_names)
            others = f", and {more} more" if more else ""
            missing.append(f"{census.out_of_sync} replica(s) not in sync: {names}{others}")
        return missing
