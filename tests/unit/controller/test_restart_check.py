"""Whether a broker can stop without making a partition unavailable."""

from __future__ import annotations

import pytest

from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.controller.brokers import fence_broker
from quorate.controller.restart_check import check_broker_restart
from quorate.core.ids import BrokerId
from quorate.errors import BrokerNotAvailable


def test_a_broker_of_a_healthy_cluster_may_stop() -> None:
    cluster = SmallCluster(3)
    cluster.create("t", [1, 2, 3])
    answer = check_broker_restart(cluster.image, 1)
    assert answer.is_safe
    assert list(answer.reasons) == []


def test_partitions_that_would_fall_below_min_isr_are_counted_and_some_named() -> None:
    cluster = SmallCluster(3)
    cluster.create("t", *[[1, 2, 3]] * 5)
    cluster.commit(fence_broker(cluster.image, BrokerId(3)))
    answer = check_broker_restart(cluster.image, 1)
    assert not answer.is_safe
    first, second = answer.reasons
    assert first.startswith("5 partitions (t-0, t-1, t-2 and 2 more) would refuse writes with acks=all")
    assert second == "Brokers that are down or stopping as well: 3."


def test_a_partition_that_would_have_no_leader_is_named() -> None:
    cluster = SmallCluster(1)
    cluster.create("t", [1])
    answer = check_broker_restart(cluster.image, 1)
    assert not answer.is_safe
    assert list(answer.reasons) == ["Partition t-0 would have no leader, since no other replica is in sync."]


def test_a_broker_that_is_down_harms_only_what_waits_for_it() -> None:
    cluster = SmallCluster(3)
    cluster.create("t", [1, 2, 3])
    cluster.commit(fence_broker(cluster.image, BrokerId(1)))
    answer = check_broker_restart(cluster.image, 1)
    assert answer.is_safe
    assert "is fenced" in answer.reasons[0]


def test_a_broker_that_is_stopping_already_is_said_to() -> None:
    cluster = SmallCluster(2)
    cluster.change_broker(1, is_shutting_down=True)
    assert "stopping already" in check_broker_restart(cluster.image, 1).reasons[0]


def test_an_unknown_broker_is_refused() -> None:
    with pytest.raises(BrokerNotAvailable):
        check_broker_restart(SmallCluster(1).image, 7)
