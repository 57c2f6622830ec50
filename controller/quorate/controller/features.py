"""The feature level: what the metadata may contain.

Raised once every node can read what comes with it, never lowered: records of the higher level are in the log
by then. A node that cannot run on the level stops rather than guess (quorate.metadata.records), so raising
it while such a node exists would take that node out of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from quorate.controller.decision import ControllerEvent, Decision
from quorate.errors import UnsupportedFeatureLevel
from quorate.metadata.image import MetadataImage
from quorate.metadata.records import FEATURE_LEVEL_MAX, FEATURE_LEVEL_MIN, feature_level_record
from quorate.v1 import admin_pb2

__all__ = ["SupportedLevels", "update_feature_level"]


class SupportedLevels(NamedTuple):
    """What one node's software can run on, both inclusive."""

    node: str
    minimum: int
    maximum: int


def update_feature_level(
    image: MetadataImage, request: admin_pb2.UpdateFeatureLevelRequest, *, voters: Iterable[SupportedLevels]
) -> Decision[admin_pb2.UpdateFeatureLevelResponse]:
    """``voters``: every other voter of the quorum. What could not be asked must not be left out."""
    nodes = [SupportedLevels("this controller", FEATURE_LEVEL_MIN, FEATURE_LEVEL_MAX), *voters]
    nodes += [
        SupportedLevels(f"broker {broker_id}", broker.feature_level_min, broker.feature_level_max)
        for broker_id, broker in sorted(image.brokers.items())
    ]
    highest = min(node.maximum for node in nodes)
    level = request.level or max(highest, image.feature_level)
    if level < image.feature_level:
        raise UnsupportedFeatureLevel(
            f"the cluster is on feature level {image.feature_level}, and a level is never lowered",
            feature_level=image.feature_level,
        )
    behind = [node for node in nodes if not node.minimum <= level <= node.maximum]
    if behind:
        told = "; ".join(f"{node.node} runs on {node.minimum} to {node.maximum}" for node in behind)
        raise UnsupportedFeatureLevel(
            f"feature level {level} is not for every node: {told}. Update them, or remove them",
            feature_level=image.feature_level,
            feature_level_max=highest,
        )
    response = admin_pb2.UpdateFeatureLevelResponse(level=level)
    if level == image.feature_level:
        return Decision((), response)
    event = ControllerEvent("feature_level_raised", {"before": image.feature_level, "level": level})
    return Decision((feature_level_record(level),), response, (event,))
