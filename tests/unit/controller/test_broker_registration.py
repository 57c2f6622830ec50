"""Registration, fencing and unregistration of brokers (rules 2, 30, 32, 35)."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.chaos.models.controller.broker_requests import beat, epoch_of, registration, replica
from quorate.chaos.models.controller.small_cluster import SmallCluster
from quorate.controller.brokers import fence_broker, register_broker, unregister_broker
from quorate.controller.decision import Decision
from quorate.controller.heartbeats import heartbeat
from quorate.controller.previous_run import StartKind, judge_start
from quorate.controller.witnesses import HeardWitnesses, with_heard_witnesses
from quorate.core.ids import BrokerEpoch, BrokerId
from quorate.errors import (
    BrokerNotAvailable,
    DuplicateBroker,
    InvalidConfig,
    InvalidRequest,
    UnexpectedBrokerEpoch,
    UnsupportedFeatureLevel,
)
from quorate.metadata.image import NO_LEADER
from quorate.v1.controller_pb2 import BrokerSessionResponse, RegisterBrokerRequest, RegisterBrokerResponse


def register(
    cluster: SmallCluster, request: RegisterBrokerRequest, *, has_live_session: bool = False
) -> RegisterBrokerResponse:
    decision = register_broker(
        cluster.image, request, next_offset=cluster.next_offset, has_live_session=has_live_session
    )
    return cluster.commit(decision)


def test_the_broker_epoch_is_the_offset_of_the_registration_and_it_begins_fenced() -> None:
    cluster = SmallCluster(0)
    response = register(cluster, registration(cluster, 1))
    broker = cluster.image.brokers[BrokerId(1)]
    assert response.broker_epoch == broker.broker_epoch == cluster.image.offset
    assert response.cluster_id == "cluster"
    assert broker.is_fenced


def test_a_retry_gets_the_same_answer_and_changes_nothing() -> None:
    cluster = SmallCluster(0)
    request = registration(cluster, 1)
    first = register(cluster, request)
    offset = cluster.image.offset
    assert register(cluster, request, has_live_session=True) == first
    assert cluster.image.offset == offset


def test_a_late_copy_of_a_registration_is_none() -> None:
    """Rule 35: its process is gone, and the one after that, too."""
    cluster = SmallCluster(1)
    second = registration(cluster, 1, incarnation_id="second", is_same_boot=True)
    register(cluster, second)
    register(cluster, registration(cluster, 1, incarnation_id="third", is_same_boot=True))
    offset, current = cluster.image.offset, epoch_of(cluster, 1)
    with pytest.raises(UnexpectedBrokerEpoch) as refused:
        register(cluster, second)
    assert refused.value.facts["current_broker_epoch"] == current
    assert refused.value.retriable
    assert cluster.image.offset == offset


@pytest.mark.parametrize("has_live_session", [False, True])
def test_a_process_that_expects_another_epoch_is_told_the_right_one(has_live_session: bool) -> None:
    """Also while the process before may live: whoever waits for its end need not ask once more then."""
    cluster = SmallCluster(1)
    restored = registration(cluster, 1, expected_epoch=1, previous_epoch=1, is_clean=True)
    with pytest.raises(UnexpectedBrokerEpoch) as refused:
        register(cluster, restored, has_live_session=has_live_session)
    current = refused.value.facts["current_broker_epoch"]
    assert isinstance(current, int)
    restored.expected_broker_epoch = current
    # To know what stands is no evidence: the notes are those of an old copy.
    assert judge_start(cluster.image.brokers[BrokerId(1)], restored) is StartKind.UNKNOWN_DIRECTORY
    register(cluster, restored)
    assert cluster.image.brokers[BrokerId(1)].incarnation_id == "next"


def test_a_broker_that_was_forgotten_is_told_that_none_stands() -> None:
    cluster = SmallCluster(1)
    request = registration(cluster, 1, is_clean=True)
    cluster.change_broker(1, is_fenced=True)
    cluster.commit(unregister_broker(cluster.image, BrokerId(1)))
    with pytest.raises(UnexpectedBrokerEpoch) as refused:
        register(cluster, request)
    assert refused.value.facts["current_broker_epoch"] == 0
    request.expected_broker_epoch = 0
    assert register(cluster, request).broker_epoch == cluster.image.offset


def test_another_process_is_refused_while_a_session_is_alive() -> None:
    cluster = SmallCluster(1)
    with pytest.raises(DuplicateBroker, match="host-1:9092"):
        register(cluster, registration(cluster, 1), has_live_session=True)


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        ({"is_clean": True}, StartKind.CLEAN),
        ({"is_same_boot": True}, StartKind.PROCESS_CRASH),
        ({"is_same_boot": True, "is_intact": False}, StartKind.LOSSY),
        ({"is_same_boot": False}, StartKind.LOSSY),
        ({"is_clean": True, "directory_id": "another"}, StartKind.UNKNOWN_DIRECTORY),
        ({"is_clean": True, "previous_epoch": 1}, StartKind.UNKNOWN_DIRECTORY),
        ({"previous_epoch": 0}, StartKind.UNKNOWN_DIRECTORY),
        (
            {"previous_epoch": 1, "is_same_boot": True, "unnoted": ["incarnation-3"]},
            StartKind.UNKNOWN_DIRECTORY,
        ),
        (
            {"previous_epoch": 1, "is_same_boot": True, "unnoted": ["x", "incarnation-2"]},
            StartKind.PROCESS_CRASH,
        ),
        ({"previous_epoch": 1, "unnoted": ["incarnation-2"]}, StartKind.LOSSY),
    ],
)
def test_a_start_is_judged_by_what_the_directory_and_the_controller_know(
    facts: dict[str, Any], kind: StartKind
) -> None:
    cluster = SmallCluster(1)
    broker = cluster.image.brokers[BrokerId(1)]
    assert broker.incarnation_id == "incarnation-2"
    assert judge_start(broker, registration(cluster, 1, **facts)) is kind


SAME_BOOT = {"is_same_boot": True}


@pytest.mark.parametrize(
    ("on_record", "heard", "facts", "kind"),
    [
        (5, 9, {**SAME_BOOT, "cache_witness": 9}, StartKind.PROCESS_CRASH),
        (5, 9, {**SAME_BOOT, "cache_witness": 10}, StartKind.PROCESS_CRASH),
        (5, 9, {**SAME_BOOT, "cache_witness": 8}, StartKind.LOSSY),
        (5, None, {**SAME_BOOT, "cache_witness": 5}, StartKind.PROCESS_CRASH),
        (5, None, {**SAME_BOOT, "cache_witness": 4}, StartKind.LOSSY),
        (None, 9, {**SAME_BOOT, "cache_witness": 8}, StartKind.LOSSY),
        (5, None, SAME_BOOT, StartKind.LOSSY),
        (None, None, SAME_BOOT, StartKind.PROCESS_CRASH),
        (None, None, {**SAME_BOOT, "cache_witness": 0}, StartKind.PROCESS_CRASH),
        (5, 9, {"is_clean": True, "cache_witness": 9}, StartKind.CLEAN),
        (5, 9, {"is_clean": True, "cache_witness": 8}, StartKind.LOSSY),
        (5, 9, {"cache_witness": 9}, StartKind.LOSSY),
        (5, 9, {**SAME_BOOT, "cache_witness": 9, "directory_id": "another"}, StartKind.UNKNOWN_DIRECTORY),
    ],
)
def test_whoever_finds_a_lower_number_than_was_heard_has_lost_its_page_cache(
    on_record: int | None, heard: int | None, facts: dict[str, Any], kind: StartKind
) -> None:
    cluster = SmallCluster(1)
    if on_record is not None:
        cluster.commit(heartbeat_of(cluster, cache_witness=on_record, wants_shutdown=True))
    broker = with_heard_witnesses(cluster.image.brokers[BrokerId(1)], HeardWitnesses(heard))
    assert judge_start(broker, registration(cluster, 1, **facts)) is kind


EVERY_START = [{"is_clean": True}, SAME_BOOT, {"is_same_boot": False}]


@pytest.mark.parametrize("facts", EVERY_START)
@pytest.mark.parametrize(
    ("on_record", "heard", "found", "is_unknown"),
    [
        (5, 9, 8, True),
        (5, 9, 9, False),
        (5, 9, 10, False),
        (5, None, 4, True),
        (5, None, 5, False),
        # Heard, and not on record: by this controller it is known.
        (0, 3, 2, True),
        # No file, though there was one.
        (1, None, 0, True),
        # Nothing was ever told: there was no room for the file, or the process did not live to tell.
        (0, None, 0, False),
        (0, None, 6, False),
        # A version that has no such file tells nothing, and nothing follows from that.
        (5, 9, None, False),
        (0, None, None, False),
    ],
)
def test_whoever_finds_a_lower_number_than_is_on_its_device_has_an_older_directory(
    on_record: int, heard: int | None, found: int | None, is_unknown: bool, facts: dict[str, Any]
) -> None:
    """Whatever the marker and the boot say: neither speaks for an old copy."""
    cluster = SmallCluster(1)
    cluster.commit(heartbeat_of(cluster, device_witness=on_record or None, wants_shutdown=True))
    assert cluster.image.brokers[BrokerId(1)].device_witness == on_record
    broker = with_heard_witnesses(cluster.image.brokers[BrokerId(1)], HeardWitnesses(device=heard))
    usual = judge_start(broker, registration(cluster, 1, **facts))
    kind = judge_start(broker, registration(cluster, 1, device_witness=found, **facts))
    assert usual is not StartKind.UNKNOWN_DIRECTORY
    assert kind is (StartKind.UNKNOWN_DIRECTORY if is_unknown else usual)


def test_an_old_copy_of_the_last_run_leaves_synced_topics_and_is_a_directory_like_any_other_then() -> None:
    cluster = SmallCluster(2)
    cluster.create("t", [1, 2], configs={"durability": "fsync", "min.insync.replicas": "2"})
    cluster.commit(fence_broker(cluster.image, BrokerId(1), heard=HeardWitnesses(device=9)))
    assert cluster.partition().elr == (1,)
    register(cluster, registration(cluster, 1, is_clean=True, device_witness=4))
    assert (cluster.partition().isr, cluster.partition().elr) == ((2,), ())
    assert "broker_registered" in cluster.warnings()
    # It counts on from there: what it has lost must not be held against it for ever.
    assert cluster.image.brokers[BrokerId(1)].device_witness == 4
    broker = cluster.image.brokers[BrokerId(1)]
    again = registration(cluster, 1, incarnation_id="later", is_same_boot=True, device_witness=4)
    assert judge_start(broker, again) is StartKind.PROCESS_CRASH


def heartbeat_of(cluster: SmallCluster, **facts: Any) -> Decision[BrokerSessionResponse]:
    return heartbeat(
        cluster.image, beat(cluster, 1, **facts), state_offset=0, others_offset=None, session_timeout_ms=1
    )


def test_what_was_heard_is_put_on_record_with_the_fencing_and_begins_anew_with_a_registration() -> None:
    cluster = SmallCluster(2)
    cluster.create("t", [1, 2])
    cluster.commit(fence_broker(cluster.image, BrokerId(1), heard=HeardWitnesses(9)))
    assert cluster.image.brokers[BrokerId(1)].cache_witness == 9
    assert cluster.partition().isr == (2,)
    # It counts on from what it has found, and could never reach what it has lost.
    register(cluster, registration(cluster, 1, is_same_boot=True, cache_witness=4))
    assert cluster.image.brokers[BrokerId(1)].cache_witness == 4
    assert "broker_registered" in cluster.warnings()


def test_what_was_heard_counts_before_it_is_on_record() -> None:
    cluster = SmallCluster(2)
    cluster.create("t", [1, 2], configs={"min.insync.replicas": "2"})
    decision = register_broker(
        cluster.image,
        registration(cluster, 1, is_same_boot=True, cache_witness=4),
        next_offset=cluster.next_offset,
        has_live_session=False,
        heard=HeardWitnesses(5),
    )
    cluster.commit(decision)
    assert cluster.partition().elr == ()
    assert cluster.partition().last_known_elr == (1,)


@pytest.mark.parametrize("wish", ["wants_unfence", "wants_shutdown"])
def test_every_record_about_a_broker_carries_the_numbers_of_its_heartbeat(wish: str) -> None:
    cluster = SmallCluster(1)
    if wish == "wants_unfence":
        cluster.commit(fence_broker(cluster.image, BrokerId(1), heard=HeardWitnesses(6)))
    cluster.commit(heartbeat_of(cluster, cache_witness=8, device_witness=3, **{wish: True}))
    assert cluster.image.brokers[BrokerId(1)].cache_witness == 8
    assert cluster.image.brokers[BrokerId(1)].device_witness == 3
    # An older one, which was long under way, takes nothing back.
    cluster.commit(fence_broker(cluster.image, BrokerId(1), heard=HeardWitnesses(7)))
    assert cluster.image.brokers[BrokerId(1)].cache_witness == 8


@pytest.mark.parametrize("evidence", [{"is_clean": True}, {"is_same_boot": True}])
def test_after_kill_9_of_all_brokers_every_partition_can_be_led_again(evidence: dict[str, Any]) -> None:
    cluster = SmallCluster(3)
    cluster.create("t", [1, 2, 3])
    for broker_id in (1, 2, 3):
        cluster.commit(fence_broker(cluster.image, BrokerId(broker_id)))
    for broker_id in (1, 2, 3):
        register(cluster, registration(cluster, broker_id, **evidence))
    assert (cluster.partition().isr, cluster.partition().elr) == ((3,), (2,))


def test_a_lossy_broker_leaves_replicated_topics_and_stays_in_synced_ones() -> None:
    cluster = SmallCluster(1)
    cluster.create("replicated", [1])
    cluster.create("synced", [1], configs={"durability": "fsync"})
    register(cluster, registration(cluster, 1))
    assert cluster.partition(name="replicated").isr == ()
    assert cluster.partition(name="replicated").last_known_elr == (1,)
    assert cluster.partition(name="synced").isr == (1,)


def test_a_lossy_broker_leaves_a_topic_that_was_changed_to_fsync_and_is_not_synced_yet() -> None:
    cluster = SmallCluster(1)
    cluster.create("t", [1])
    cluster.configure("t", {"durability": "fsync"})
    register(cluster, registration(cluster, 1))
    assert cluster.partition().isr == ()


def test_the_cluster_may_make_all_topics_synced() -> None:
    cluster = SmallCluster(1)
    cluster.configure("", {"durability": "fsync"})
    cluster.create("t", [1])
    register(cluster, registration(cluster, 1))
    assert cluster.partition().isr == (1,)


@pytest.mark.parametrize("facts", [{"directory_id": "wiped", "previous_epoch": 0}, {"previous_epoch": 1}])
def test_a_wiped_disk_or_an_old_copy_counts_for_nothing(facts: dict[str, Any]) -> None:
    cluster = SmallCluster(1)
    cluster.create("t", [1], configs={"durability": "fsync"})
    register(cluster, registration(cluster, 1, is_clean=True, **facts))
    assert cluster.partition().isr == ()
    assert "broker_registered" in cluster.warnings()


def test_damaged_replicas_leave_though_the_stop_was_clean() -> None:
    cluster = SmallCluster(2)
    cluster.create("t", [1, 2], [1, 2])
    damaged = [replica(cluster.partition(1))]
    register(cluster, registration(cluster, 1, is_clean=True, damaged=damaged))
    assert (cluster.partition(0).isr, cluster.partition(0).elr) == ((2,), (1,))
    assert (cluster.partition(1).isr, cluster.partition(1).elr) == ((2,), ())


def test_a_registration_ends_what_the_process_before_led_though_it_was_never_fenced() -> None:
    cluster = SmallCluster(1)
    cluster.create("t", [1])
    before = cluster.partition()
    register(cluster, registration(cluster, 1, is_same_boot=True))
    after = cluster.partition()
    assert (after.leader, after.isr) == (NO_LEADER, (1,))
    assert after.leader_epoch == before.leader_epoch + 1


def test_draining_survives_a_restart() -> None:
    cluster = SmallCluster(1)
    cluster.change_broker(1, is_draining=True)
    register(cluster, registration(cluster, 1))
    assert cluster.image.brokers[BrokerId(1)].is_draining


def test_a_directory_of_another_cluster_is_refused() -> None:
    cluster = SmallCluster(0)
    with pytest.raises(InvalidConfig, match=r"belongs to cluster elsewhere.*correct its cluster\.id"):
        register(cluster, registration(cluster, 1, cluster_id="elsewhere"))


def test_software_that_cannot_run_on_the_feature_level_is_refused() -> None:
    cluster = SmallCluster(0)
    with pytest.raises(UnsupportedFeatureLevel, match="can run on 2 to 3"):
        register(cluster, registration(cluster, 1, feature_levels=(2, 3)))


def test_incomplete_registrations_are_refused() -> None:
    cluster = SmallCluster(0)
    with pytest.raises(InvalidRequest, match="incarnation_id"):
        register(cluster, registration(cluster, 1, incarnation_id=""))
    with pytest.raises(InvalidRequest, match="no broker id"):
        register(cluster, registration(cluster, -1))


def test_fencing_is_for_one_registration_only() -> None:
    cluster = SmallCluster(1)
    stale = BrokerEpoch(epoch_of(cluster, 1) - 1)
    assert fence_broker(cluster.image, BrokerId(1), broker_epoch=stale).records == ()
    assert fence_broker(cluster.image, BrokerId(9)).records == ()
    cluster.commit(fence_broker(cluster.image, BrokerId(1), broker_epoch=BrokerEpoch(epoch_of(cluster, 1))))
    assert cluster.image.brokers[BrokerId(1)].is_fenced
    assert fence_broker(cluster.image, BrokerId(1)).records == ()


def test_only_a_broker_that_is_gone_and_holds_nothing_is_forgotten() -> None:
    cluster = SmallCluster(2)
    cluster.create("t", [1])
    with pytest.raises(BrokerNotAvailable, match="running"):
        unregister_broker(cluster.image, BrokerId(2))
    cluster.commit(fence_broker(cluster.image, BrokerId(1)))
    with pytest.raises(BrokerNotAvailable, match="1 replicas"):
        unregister_broker(cluster.image, BrokerId(1))
    cluster.commit(fence_broker(cluster.image, BrokerId(2)))
    cluster.commit(unregister_broker(cluster.image, BrokerId(2)))
    assert list(cluster.image.brokers) == [1]
    assert unregister_broker(cluster.image, BrokerId(2)).records == ()
