"""A node that also coordinates groups, for ``group`` and for ``consume --group``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorate.core.transport import Call
from quorate.v1 import group_pb2
from tests.unit.client.fake_coordinator import Committed, FakeCoordinator, FakeMember, GroupState
from tests.unit.console.direct_transport import DirectTransport
from tests.unit.console.fake_node import FakeNode

__all__ = ["FakeGroupNode"]


class FakeGroupNode(FakeNode, GroupState):
    def __init__(self, *, partitions: int = 1) -> None:
        super().__init__(partitions=partitions)
        self.start_groups()
        #: called before it answers how far a group has come
        self.when_asked: Callable[[], None] = lambda: None

    def install(self, monkeypatch: pytest.MonkeyPatch) -> FakeGroupNode:
        coordinator = _Coordinator(1, self).service()
        DirectTransport(self._broker_service(), self._admin_service(), coordinator).install(monkeypatch)
        return self

    def offsets(self, group: str = "g") -> dict[int, int]:
        """What is committed in each partition of the topic."""
        found: dict[tuple[str, int], Committed] = self.group(group).offsets
        return {partition: committed.offset for (_, partition), committed in sorted(found.items())}

    def add_member(self, member_id: str, group: str = "g") -> FakeMember:
        """One that is silent, and has nothing."""
        member = self.group(group).members[member_id] = FakeMember(group_pb2.GroupSubscription(), epoch=1)
        return member


class _Coordinator(FakeCoordinator):
    _state: FakeGroupNode

    async def fetch(
        self, request: group_pb2.FetchOffsetsRequest, call: Call
    ) -> group_pb2.FetchOffsetsResponse:
        self._state.when_asked()
        return await super().fetch(request, call)
