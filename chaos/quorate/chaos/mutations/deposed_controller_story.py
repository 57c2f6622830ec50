"""A controller that was deposed tells nobody how things were in its time (rule 39).

What it appended before the election may still be committed after it, by acknowledgements that were under way
all that time. It must not take that for a proof that it leads.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from google.protobuf.message import Message

from quorate.chaos.cluster.cluster import SimCluster
from quorate.chaos.cluster.machine import SimMachine
from quorate.chaos.cluster.view import active_controller
from quorate.core.transport import methods_of
from quorate.errors import QuorateError
from quorate.v1 import admin_pb2

__all__ = ["a_deposed_controller_answers_no_read"]

_ADMIN: Final = methods_of(admin_pb2.DESCRIPTOR.services_by_name["AdminService"])
_TIMEOUT_S: Final = 10.0
#: a message between two machines takes less
_ARRIVED_S: Final = 0.02
#: what brokers have said is put on record within less
_ON_RECORD_S: Final = 1.5
#: the others draw how long they wait, and must not wait until the one that is cut off has resigned
_ATTEMPTS_MAX: Final = 10


async def a_deposed_controller_answers_no_read(cluster: SimCluster) -> None:
    """A topic was acknowledged by the next controller before somebody asks the last one which there are."""
    for number in range(_ATTEMPTS_MAX):
        if await _were_two_at_once(cluster, f"under-way-{number}", f"acknowledged-{number}"):
            return
    raise AssertionError("nobody was elected in time, so nothing was seen")


async def _were_two_at_once(cluster: SimCluster, under_way: str, acknowledged: str) -> bool:
    """False: this time there were never two at once."""
    await cluster.until(lambda: active_controller(cluster) is not None)
    old = active_controller(cluster)
    assert old is not None
    others = [each for each in cluster.controllers if each is not old]
    # Else it would be on its way to put on record what they say, and that is never committed.
    for broker in cluster.brokers:
        cluster.network.block(broker.name, old.name)
    await cluster.clock.sleep(_ON_RECORD_S)
    for other in others:
        cluster.network.block(other.name, old.name)
    change = asyncio.create_task(_create(cluster, under_way, through=old))
    await cluster.clock.sleep(_ARRIVED_S)
    for other in others:
        cluster.network.block(old.name, other.name)
    await cluster.until(lambda: active_controller(cluster) is not old)
    new, read = active_controller(cluster), None
    if new is not None and _is_active(old):
        await _create(cluster, acknowledged, through=new)
        read = asyncio.create_task(_ask(cluster, "ListTopics", admin_pb2.ListTopicsRequest(), through=old))
        await cluster.clock.sleep(_ARRIVED_S)
    were_two = read is not None and _is_active(old)
    # First what the others have said: that they have what is under way.
    for other in others:
        cluster.network.unblock(other.name, old.name)
    await cluster.clock.sleep(_ARRIVED_S)
    cluster.network.heal()
    with suppress(QuorateError):
        await change
    if read is not None:
        await _what_was_acknowledged_is_seen(read, acknowledged)
    return were_two


async def _what_was_acknowledged_is_seen(read: asyncio.Task[Any], topic: str) -> None:
    try:
        names = [each.name for each in (await read).topics]
    except QuorateError:
        return  # to be told nothing is as good
    assert topic in names, f"{topic} was acknowledged before the read was asked for, which tells of {names}"


def _is_active(machine: SimMachine) -> bool:
    return machine.controller is not None and machine.controller.is_active


async def _create(cluster: SimCluster, topic: str, *, through: SimMachine) -> None:
    request = admin_pb2.CreateTopicRequest(name=topic, partition_count=1)
    await _ask(cluster, "CreateTopic", request, through=through)


async def _ask(cluster: SimCluster, method: str, request: Message, *, through: SimMachine) -> Any:
    """This very node, and none that knows better."""
    channel = cluster.client_transport().connect(through.address)
    try:
        return await channel.call(_ADMIN[method], request, timeout_s=_TIMEOUT_S)
    finally:
        await channel.close()
