"""What a registered broker asks for, with its name and epoch on it."""

from __future__ import annotations

import pytest

from quorate.broker.controller_link.calls import ControllerCalls
from quorate.core.ids import TopicId
from quorate.errors import ControllerMoved, IneligibleReplica, NotController, QuorateError, RequestTimedOut
from quorate.rpc.error_detail import detail_from_error
from quorate.v1.controller_pb2 import (
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ConfirmTopicsRemovedResponse,
    PartitionAlteration,
    PartitionAlterationResult,
)
from tests.unit.controller_link.scripted_controllers import REGISTERED, ScriptedWorld, run_scripted


def test_each_request_carries_the_epoch_of_this_run() -> None:
    async def scenario(world: ScriptedWorld) -> None:
        [controller] = world.controllers
        controller.reactions = [
            AlterPartitionResponse(),
            AllocateProducerIdsResponse(first_producer_id=3_000, count=1_000),
            ConfirmTopicsRemovedResponse(),
        ]
        calls = ControllerCalls(clock=world.clock, link=world.link, registered=REGISTERED)
        await calls.alter_partition(AlterPartitionRequest(partitions=[PartitionAlteration(topic_id="t")]))
        assert await calls.allocate_producer_ids() == range(3_000, 4_000)
        await calls.confirm_topics_removed([TopicId("gone")])
        assert {(each.broker_id, each.broker_epoch) for _, each in controller.calls} == {(7, 70)}
        assert list(controller.calls[-1][1].topic_ids) == ["gone"]

    run_scripted(scenario)


@pytest.mark.parametrize(
    ("method", "told"), [("ListTopics", NotController), ("DeleteTopic", ControllerMoved)]
)
def test_only_a_change_may_have_been_carried_out_before_it_was_refused(
    method: str, told: type[QuorateError]
) -> None:
    async def scenario(world: ScriptedWorld) -> None:
        [controller] = world.controllers
        controller.reactions = [ControllerMoved("perhaps"), *([NotController("not me")] * 1_000)]
        calls = ControllerCalls(clock=world.clock, link=world.link, registered=REGISTERED)
        with pytest.raises(told):
            await calls.administer(method, b"", world.clock.monotonic() + 5.0)

    run_scripted(scenario)


@pytest.mark.parametrize("unknown", [ControllerMoved("perhaps"), None])
def test_an_isr_is_not_asked_for_again_behind_the_leaders_back(unknown: ControllerMoved | None) -> None:
    """Rule 22: a refusal must not seem to speak for an earlier attempt that may yet be carried out."""

    async def scenario(world: ScriptedWorld) -> None:
        [controller] = world.controllers
        refused = PartitionAlterationResult(error=detail_from_error(IneligibleReplica("fenced")))
        controller.reactions = [unknown, AlterPartitionResponse(partitions=[refused])]
        calls = ControllerCalls(clock=world.clock, link=world.link, registered=REGISTERED)
        with pytest.raises((ControllerMoved, RequestTimedOut)):
            await calls.alter_partition(AlterPartitionRequest())
        assert len(controller.calls) == 1

    run_scripted(scenario)
