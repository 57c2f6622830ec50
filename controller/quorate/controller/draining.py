"""Draining: a broker gives up its leaders and gets no new ones, but goes on following.

For work on a machine: clients move away while everything is still there. The wish is on record and survives
restarts of the broker. What nobody else can lead stays where it is; the controller's rounds of moving
leaders (``quorate.controller.preferred``) take it away once somebody can. An election falls back on a
draining broker rather than leave a partition without a leader.

A broker that is decommissioned carries the same mark: it, too, leads nothing and gets nothing new. Taking the
mark away ends either.
"""

from __future__ import annotations

from quorate.controller.brokers import broker_change, find_broker
from quorate.controller.decision import ControllerEvent, Decision
from quorate.controller.elections import Elections, topics_in_order
from quorate.controller.lookup import partition_name
from quorate.metadata.image import MetadataImage
from quorate.v1.admin_pb2 import DrainBrokerRequest, DrainBrokerResponse

__all__ = ["drain_broker"]


def drain_broker(image: MetadataImage, request: DrainBrokerRequest) -> Decision[DrainBrokerResponse]:
    """Asking again moves what can be moved by now."""
    broker = find_broker(image, request.broker_id)
    should_drain = not request.cancel
    elections = Elections(image, draining=broker.broker_id if should_drain else None)
    response = DrainBrokerResponse()
    if should_drain:
        for topic in topics_in_order(image):
            for partition in topic.partitions:
                if partition.leader != broker.broker_id:
                    continue
                best = elections.best_leader(partition)
                if best is None:
                    response.remaining_leaders.append(partition_name(image, partition))
                else:
                    elections.change(partition, leader=best)
    if broker.is_draining == should_drain:
        return Decision(tuple(elections.records), response)
    event = ControllerEvent(
        "broker_draining" if should_drain else "broker_drain_cancelled", {"broker_id": broker.broker_id}
    )
    return Decision((broker_change(broker, is_draining=should_drain), *elections.records), response, (event,))
