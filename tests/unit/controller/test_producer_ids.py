"""Producer ids are given away once."""

from __future__ import annotations

import pytest

from quorate.chaos.models.controller.broker_requests import epoch_of
from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.controller.producer_ids import allocate_producer_ids
from quorate.errors import StaleBrokerEpoch
from quorate.v1.controller_pb2 import AllocateProducerIdsRequest


def test_blocks_follow_one_another_whoever_asks() -> None:
    cluster = SmallCluster(2)
    blocks = []
    for broker_id in (1, 2, 1):
        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch_of(cluster, broker_id))
        response = cluster.commit(allocate_producer_ids(cluster.image, request))
        blocks.append((response.first_producer_id, response.count))
    assert blocks == [(0, 1_000), (1_000, 1_000), (2_000, 1_000)]


def test_an_earlier_run_gets_none() -> None:
    cluster = SmallCluster(1)
    with pytest.raises(StaleBrokerEpoch):
        allocate_producer_ids(cluster.image, AllocateProducerIdsRequest(broker_id=1, broker_epoch=1))
