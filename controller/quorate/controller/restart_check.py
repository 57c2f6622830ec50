"""May this broker stop? What its absence would do to each partition, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorate.controller.brokers import find_broker
from quorate.controller.elections import topics_in_order
from quorate.core.ids import BrokerId, TopicPartition
from quorate.metadata.image import BrokerImage, MetadataImage
from quorate.metadata.topic_settings import min_insync_replicas, replication_factor_of
from quorate.v1.admin_pb2 import CheckBrokerRestartResponse

__all__ = ["check_broker_restart"]

#: partitions that a sentence names; the rest are counted
_NAMED_MAX: Final = 3


def check_broker_restart(image: MetadataImage, broker_id: int) -> CheckBrokerRestartResponse:
    """Safe: every partition that can be led, and written, can be so without this broker."""
    broker = find_broker(image, broker_id)
    offline, under_min_isr = _harmed_without(image, broker.broker_id)
    why_not = [
        _sentence(offline, "would have no leader, since no other replica is in sync"),
        _sentence(
            under_min_isr,
            "would refuse writes with acks=all, since fewer than min.insync.replicas would be in sync",
        ),
    ]
    reasons = [sentence for sentence in why_not if sentence]
    is_safe = not reasons
    reasons.extend(_circumstances(image, broker))
    return CheckBrokerRestartResponse(is_safe=is_safe, reasons=reasons)


def _harmed_without(
    image: MetadataImage, broker_id: BrokerId
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Partitions that would go offline, and those that would only fall below MinISR."""
    active = {broker.broker_id for broker in image.brokers.values() if broker.is_active}
    offline: list[TopicPartition] = []
    under_min_isr: list[TopicPartition] = []
    for topic in topics_in_order(image):
        setting = min_insync_replicas(image, topic)
        for partition in topic.partitions:
            if broker_id not in partition.isr:
                continue
            left = [member for member in partition.isr if member != broker_id and member in active]
            name = TopicPartition(topic.name, partition.partition)
            if not left:
                offline.append(name)
            elif len(left) < min(setting, replication_factor_of(partition)):
                under_min_isr.append(name)
    return offline, under_min_isr


def _sentence(partitions: Sequence[TopicPartition], fate: str) -> str:
    if not partitions:
        return ""
    named = ", ".join(map(str, partitions[:_NAMED_MAX]))
    if len(partitions) == 1:
        return f"Partition {named} {fate}."
    beyond = len(partitions) - _NAMED_MAX
    listed = f"{named} and {beyond} more" if beyond > 0 else named
    return f"{len(partitions)} partitions ({listed}) {fate}."


def _circumstances(image: MetadataImage, broker: BrokerImage) -> list[str]:
    """Worth knowing; they do not make a restart unsafe by themselves."""
    sentences = []
    if broker.is_fenced:
        sentences.append(f"Broker {broker.broker_id} is fenced: it is down, or has not begun to serve.")
    if broker.is_shutting_down and not broker.is_fenced:
        sentences.append(f"Broker {broker.broker_id} is stopping already.")
    others = sorted(
        other.broker_id for other in image.brokers.values() if not other.is_active and other is not broker
    )
    if others:
        sentences.append(f"Brokers that are down or stopping as well: {', '.join(map(str, others))}.")
    return sentences
