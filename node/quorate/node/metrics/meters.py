"""All that a node's process records as it happens: made before the node, and given to what it stands on.

With the same seams, and nothing else: who serves calls, syncs files and writes the log is told of a meter or
wrapped by one. A process that has no address for metrics records nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from quorate.broker.broker import Broker
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig
from quorate.core.ids import BrokerId
from quorate.core.log_flood import FloodGuard
from quorate.core.metrics import MetricSource
from quorate.core.transport import Transport
from quorate.node.metrics.change import ChangeMeter
from quorate.node.metrics.cluster import ClusterMetrics
from quorate.node.metrics.controller import ControllerMetrics
from quorate.node.metrics.disk import DiskMeter
from quorate.node.metrics.event import EventMeter
from quorate.node.metrics.insides import debt_s_of_throttle, image_of
from quorate.node.metrics.loop import LoopMeter
from quorate.node.metrics.measured_transport import MeasuredTransport
from quorate.node.metrics.node import NodeMetrics
from quorate.node.metrics.replica import ReplicaMetrics
from quorate.node.metrics.request import RequestMeter
from quorate.node.metrics.throttle import ThrottleMeter
from quorate.node.metrics.topic import TopicMeter
from quorate.node.node import Node

__all__ = ["Meters", "sources_of"]


class Meters:
    def __init__(self, config: NodeConfig, clock: Clock, flood: FloodGuard) -> None:
        self.clock = clock
        self.topics_max = config.metrics.topics_max
        self.requests = RequestMeter()
        self.topics = TopicMeter(self.topics_max)
        self.disk = DiskMeter(config.data_dir)
        self.events = EventMeter(flood)
        self.loop = LoopMeter()

    @property
    def sources(self) -> Sequence[MetricSource]:
        """Of the process, whether or not there is a node."""
        return (self.topics, self.requests, self.disk, self.loop, self.events)

    def measured(self, transport: Transport) -> Transport:
        # Not the clock's own, which also counts suspension: this one takes a quarter of the time to read.
        return MeasuredTransport(transport, self.requests, self.topics, time.monotonic)


def sources_of(
    node: Node, node_id: BrokerId, meters: Meters
) -> tuple[Sequence[MetricSource], Sequence[Callable[[], None]]]:
    """What is read from a node that is there, and what has to be called a few times a second for it."""
    broker = node.broker
    changes = ChangeMeter(
        node_id,
        broker_image=lambda: None if broker is None else image_of(broker),
        # It is gone when the node stops, before the node is.
        controller_image=lambda: None if node.controller is None else node.controller.image,
    )
    sources: list[MetricSource] = [
        NodeMetrics(node_id, node, meters.clock),
        ControllerMetrics(node, meters.clock),
        ClusterMetrics(node),
        changes,
    ]
    ticks = [changes.tick]
    if broker is not None:
        meters.topics.attach(lambda: _topics_of(broker))
        throttle = ThrottleMeter(
            node_id,
            broker.replicas,
            meters.clock,
            image=lambda: image_of(broker),
            debt_s=lambda: debt_s_of_throttle(broker),
        )
        sources += [ReplicaMetrics(broker.replicas, meters.clock, topics_max=meters.topics_max), throttle]
        sources += broker.metrics
        ticks.append(throttle.tick)
    return sources, ticks


def _topics_of(broker: Broker) -> Collection[str] | None:
    image = image_of(broker)
    return None if image is None else image.topic_ids
