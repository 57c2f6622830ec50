"""What has to be done on the application's own thread, inside its poll, one thing at a time."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Self

from quorate.client.consumer.group.subscription import RebalanceCallback
from quorate.client.groups.partitions import GroupPartition
from quorate.errors import InvalidRequest

__all__ = ["Step", "StepKind"]


class StepKind(enum.Enum):
    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"
    #: a commit is over, and its callback is to be called
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class Step:
    """Call ``call``, wait for what it returns if it can be waited for, and then finish the step."""

    kind: StepKind
    partitions: list[GroupPartition]
    call: Callable[[], object]

    @classmethod
    def about(
        cls, kind: StepKind, partitions: list[GroupPartition], callback: RebalanceCallback | None
    ) -> Self:
        names = sorted(each.name for each in partitions)
        return cls(kind, partitions, _nothing if callback is None else partial(callback, names))

    def call_on_thread(self) -> None:
        returned = self.call()
        if inspect.isawaitable(returned):
            if inspect.iscoroutine(returned):
                returned.close()
            raise InvalidRequest("a callback returned a coroutine: AsyncConsumer takes those")


def _nothing() -> None:
    """Nobody wants to know."""
