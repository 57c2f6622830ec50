"""Settings of topics: what is accepted, and how it is told.

Everything is checked before it is recorded, and recorded in the form that ``TopicConfig.rendered`` writes.
So two ways to write the same value ("1d", "86400000") are the same value, and readers of an image need no
parser.
"""

from __future__ import annotations

from collections.abc import Mapping

from quorate.controller.decision import ControllerEvent
from quorate.core.config.topic import NO_TOPIC_KEYS, TopicConfig
from quorate.core.ids import TopicName
from quorate.errors import InvalidConfig
from quorate.metadata.image import MetadataImage, TopicImage
from quorate.metadata.topic_settings import BUILT_IN
from quorate.v1 import admin_pb2

__all__ = ["canonical_configs", "config_entries", "unclean_election_allowed"]


def canonical_configs(configs: Mapping[str, str], *, of_topic: bool) -> dict[str, str]:
    """The same settings in the form in which they are recorded; ``InvalidConfig`` names what is refused.

    ``of_topic`` False: the cluster's.
    """
    shared = sorted(NO_TOPIC_KEYS.intersection(configs)) if of_topic else []
    if shared:
        raise InvalidConfig(f"{shared[0]}: it is set for the cluster, not for a topic", key=shared[0])
    rendered = TopicConfig().with_overrides(configs).rendered()
    return {key: rendered[key] for key in sorted(configs)}


def config_entries(image: MetadataImage, topic: TopicImage | None) -> list[admin_pb2.ConfigEntry]:
    """Every setting in force with its source, sorted by name; of the cluster where ``topic`` is None.

    Defaults at the nodes (log.*) are not in the metadata, so they are not told here.
    """
    return [_entry(image, topic, key) for key in sorted(BUILT_IN)]


def _entry(image: MetadataImage, topic: TopicImage | None, key: str) -> admin_pb2.ConfigEntry:
    if topic is not None and key in topic.configs:
        return admin_pb2.ConfigEntry(name=key, value=topic.configs[key], source=admin_pb2.CONFIG_SOURCE_TOPIC)
    if key in image.cluster_configs:
        return admin_pb2.ConfigEntry(
            name=key, value=image.cluster_configs[key], source=admin_pb2.CONFIG_SOURCE_CLUSTER
        )
    return admin_pb2.ConfigEntry(name=key, value=BUILT_IN[key], source=admin_pb2.CONFIG_SOURCE_DEFAULT)


def unclean_election_allowed(topic: TopicName | None) -> ControllerEvent:
    """``topic`` None: on every topic that has no setting of its own."""
    return ControllerEvent(
        "unclean_election_allowed",
        {
            "topic": topic or "(every topic without a setting of its own)",
            "consequence": "acknowledged records may be lost when replicas fail",
        },
        is_warning=True,
    )
