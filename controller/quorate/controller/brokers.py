"""Brokers come and go: registration, fencing, and what that means for the partitions that they hold.

A broker's epoch is the offset of its registration (rule 2), and dies only by the next one (rule 35). Each
registration begins fenced: what the process before it led or was in sync for is settled before it, as if it
had been fenced first. So no partition is ever led by a process that did not exist when it was elected, and
wherever the broker led, the leader epoch has grown (rule 30).

A registration is a compare-and-set: it names the epoch that it follows. A copy of a request may arrive when
its process is gone, and the next one too. If it were taken for a start, it would stand between the last
process and the next one, who has never heard of it: that one would pass for a stranger, and leave every ISR
with all that it has. Not told apart is a copy that expects none, of a broker that was forgotten since; such a
one holds nothing.

Registering and fencing may concern more partitions than one batch holds; then they come in pieces, which
``quorate.controller.departures`` explains. A registration may come to nothing after some of its pieces,
because the controller or the new process dies. Then the broker is out of some sets, where by its own account
it has no right to be, and still in others. It stands as it stood before: a process that is gone, with a disk
of which nobody knows. Its next registration judges it again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from quorate.controller.decision import ControllerEvent, Decision
from quorate.controller.departures import PARTITION_CHANGES_PER_BATCH_MAX, leave_partitions
from quorate.controller.previous_run import StartKind, judge_start, keeps_replica
from quorate.controller.witnesses import NOTHING_HEARD, HeardWitnesses, with_heard_witnesses
from quorate.core.ids import BrokerEpoch, BrokerId
from quorate.errors import (
    BrokerNotAvailable,
    DuplicateBroker,
    InvalidConfig,
    InvalidRequest,
    StaleBrokerEpoch,
    UnexpectedBrokerEpoch,
    UnsupportedFeatureLevel,
)
from quorate.metadata.image import BrokerImage, MetadataImage, PartitionImage
from quorate.v1.controller_pb2 import RegisterBrokerRequest, RegisterBrokerResponse
from quorate.v1.metadata_pb2 import (
    BrokerChangeRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)

__all__ = [
    "broker_change",
    "fence_broker",
    "find_broker",
    "register_broker",
    "require_broker_epoch",
    "unregister_broker",
]


#: what a registration expects that follows none
_NO_REGISTRATION: Final = BrokerEpoch(0)


def find_broker(image: MetadataImage, broker_id: int) -> BrokerImage:
    broker = image.brokers.get(BrokerId(broker_id))
    if broker is None:
        raise BrokerNotAvailable(f"no broker {broker_id} is registered", broker_id=broker_id)
    return broker


def require_broker_epoch(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    """The broker, if it is this run of it that speaks (rule 2)."""
    broker = image.brokers.get(BrokerId(broker_id))
    if broker is None or broker.broker_epoch != broker_epoch:
        current = None if broker is None else broker.broker_epoch
        raise StaleBrokerEpoch(
            f"broker {broker_id} speaks with epoch {broker_epoch}, registered is {current}",
            broker_id=broker_id,
            request_broker_epoch=broker_epoch,
            current_broker_epoch=current,
        )
    return broker


def register_broker(
    image: MetadataImage,
    request: RegisterBrokerRequest,
    *,
    next_offset: int,
    has_live_session: bool,
    heard: HeardWitnesses = NOTHING_HEARD,
    leaving: Collection[BrokerId] = (),
    changes_max: int = PARTITION_CHANGES_PER_BATCH_MAX,
) -> Decision[RegisterBrokerResponse]:
    """``next_offset``: where the records will stand; ``has_live_session``: of the last registration.

    ``heard``: the highest numbers that this controller heard from the last run.
    ``leaving`` and ``changes_max``: as in ``fence_broker``.
    """
    _check_registration(image, request)
    broker_id = BrokerId(request.broker_id)
    registered = image.brokers.get(broker_id)
    if registered is not None and registered.incarnation_id == request.incarnation_id:
        # The same process asks again, since it did not get the answer.
        return Decision((), _registration(image, registered.broker_epoch))
    _check_expectation(registered, request)
    if registered is not None and has_live_session:
        raise DuplicateBroker(
            f"another process is alive as broker {broker_id}, at {registered.address}; if it is dead, its "
            "session lapses in a moment",
            broker_id=broker_id,
            address=registered.address,
        )
    start = judge_start(registered and with_heard_witnesses(registered, heard), request)
    elections, is_last = leave_partitions(
        image,
        broker_id,
        leaving=leaving,
        changes_max=changes_max,
        has_lost=_losses(request, start),
    )
    response = _registration(image, BrokerEpoch(next_offset))
    if not is_last:
        return Decision(tuple(elections.records), response, tuple(elections.events), is_complete=False)
    run = request.previous_run
    register = RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=request.incarnation_id,
        directory_id=request.directory_id,
        address=request.address,
        rack=request.rack,
        feature_level_min=request.feature_level_min,
        feature_level_max=request.feature_level_max,
        is_draining=registered is not None and registered.is_draining,
        # Not what was heard before: from here on the broker counts on from what it has found, also where its
        # directory was put back from an old copy. That one is on the device as it is.
        cache_witness=run.cache_witness if run.HasField("cache_witness") else None,
        device_witness=run.device_witness,
    )
    event = ControllerEvent(
        "broker_registered",
        {
            "broker_id": broker_id,
            "broker_epoch": next_offset,
            "address": request.address,
            "start": start.value,
        },
        # Records that only this broker had are gone; with enough replicas, none were.
        is_warning=registered is not None and start in (StartKind.LOSSY, StartKind.UNKNOWN_DIRECTORY),
    )
    return Decision(
        (MetadataRecord(register_broker=register), *elections.records),
        response,
        (event, *elections.events),
    )


def fence_broker(
    image: MetadataImage,
    broker_id: BrokerId,
    *,
    broker_epoch: BrokerEpoch | None = None,
    heard: HeardWitnesses = NOTHING_HEARD,
    leaving: Collection[BrokerId] = (),
    changes_max: int = PARTITION_CHANGES_PER_BATCH_MAX,
) -> Decision[None]:
    """Its session is over. Nothing happens where it is fenced already, or has another epoch by now.

    ``heard``: goes on record, for the next controller (``judge_start``).
    ``leaving``: others that are on the way out too; ``changes_max``: of partitions, in this batch.
    """
    broker = image.brokers.get(broker_id)
    if broker is None or broker.is_fenced or broker_epoch not in (None, broker.broker_epoch):
        return Decision((), None)
    elections, is_last = leave_partitions(image, broker_id, leaving=leaving, changes_max=changes_max)
    if not is_last:
        return Decision(tuple(elections.records), None, tuple(elections.events), is_complete=False)
    event = ControllerEvent(
        "broker_fenced", {"broker_id": broker_id, "broker_epoch": broker.broker_epoch}, is_warning=True
    )
    change = broker_change(broker, is_fenced=True, heard=heard)
    return Decision((change, *elections.records), None, (event, *elections.events))


def unregister_broker(image: MetadataImage, broker_id: BrokerId) -> Decision[None]:
    """Forget a broker that is fenced and holds nothing. If it comes back, it is a new one."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return Decision((), None)
    if not broker.is_fenced:
        raise BrokerNotAvailable(f"broker {broker_id} is running; stop it first", broker_id=broker_id)
    held = sum(
        broker_id in partition.replicas for topic in image.topics.values() for partition in topic.partitions
    )
    if held:
        raise BrokerNotAvailable(
            f"broker {broker_id} holds {held} replicas; move them first",
            broker_id=broker_id,
            replica_count=held,
        )
    record = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch)
    return Decision(
        (MetadataRecord(unregister_broker=record),),
        None,
        (ControllerEvent("broker_unregistered", {"broker_id": broker_id}),),
    )


def broker_change(
    broker: BrokerImage,
    *,
    is_fenced: bool | None = None,
    is_shutting_down: bool | None = None,
    is_draining: bool | None = None,
    heard: HeardWitnesses = NOTHING_HEARD,
) -> MetadataRecord:
    """What is absent stays."""
    known = with_heard_witnesses(broker, heard)
    return MetadataRecord(
        broker_change=BrokerChangeRecord(
            broker_id=broker.broker_id,
            broker_epoch=broker.broker_epoch,
            is_fenced=is_fenced,
            is_shutting_down=is_shutting_down,
            is_draining=is_draining,
            cache_witness=known.cache_witness if known.cache_witness != broker.cache_witness else None,
            device_witness=known.device_witness if known.device_witness != broker.device_witness else None,
        )
    )


def _losses(request: RegisterBrokerRequest, start: StartKind) -> Callable[[PartitionImage], bool]:
    """Of which partitions the broker lacks records after such a start."""
    damaged = {(replica.topic_id, replica.partition) for replica in request.damaged}
    return lambda each: not keeps_replica(start, each) or (each.topic_id, each.partition) in damaged


def _check_registration(image: MetadataImage, request: RegisterBrokerRequest) -> None:
    if request.broker_id < 0:
        raise InvalidRequest(f"{request.broker_id} is no broker id", broker_id=request.broker_id)
    for field in ("incarnation_id", "directory_id", "address"):
        if not getattr(request, field):
            raise InvalidRequest(f"the registration of broker {request.broker_id} lacks its {field}")
    if request.cluster_id not in ("", image.cluster_id):
        raise InvalidConfig(
            f"broker {request.broker_id} belongs to cluster {request.cluster_id}, and these are controllers "
            f"of cluster {image.cluster_id}: correct its cluster.id or its controller.voters; where its "
            "directory comes from the other cluster, give it an empty data.dir",
            broker_id=request.broker_id,
            broker_cluster_id=request.cluster_id,
            cluster_id=image.cluster_id,
        )
    if not request.feature_level_min <= image.feature_level <= request.feature_level_max:
        raise UnsupportedFeatureLevel(
            f"the cluster is on feature level {image.feature_level}, broker {request.broker_id} can run on "
            f"{request.feature_level_min} to {request.feature_level_max}",
            broker_id=request.broker_id,
            feature_level=image.feature_level,
        )


def _check_expectation(registered: BrokerImage | None, request: RegisterBrokerRequest) -> None:
    """Looked at before the session: whoever waits for its end should know by then what to expect."""
    current = _NO_REGISTRATION if registered is None else registered.broker_epoch
    if request.expected_broker_epoch != current:
        raise UnexpectedBrokerEpoch(
            f"broker {request.broker_id} expects to follow epoch {request.expected_broker_epoch}, "
            f"registered is {current or None}",
            broker_id=request.broker_id,
            expected_broker_epoch=request.expected_broker_epoch,
            current_broker_epoch=current,
        )


def _registration(image: MetadataImage, broker_epoch: BrokerEpoch) -> RegisterBrokerResponse:
    return RegisterBrokerResponse(broker_epoch=broker_epoch, cluster_id=image.cluster_id)
