"""A roll passes only if everybody was seen to leave, alone, and somebody looked to the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from deploy.k8s.test import one_at_a_time as watching
from deploy.k8s.test.kubernetes import Kubernetes, Pod
from deploy.k8s.test.one_at_a_time import Roll, one_at_a_time
from deploy.test.commands import CannotTest
from tests.unit.deploy.fake_kubernetes import pod


def old(name: str, *, ready: bool = True, going: bool = False) -> Pod:
    return pod(name, f"old {name}", ready=ready, going=going)


def new(name: str, *, ready: bool = True, going: bool = False) -> Pod:
    return pod(name, f"new {name}", ready=ready, going=going)


COUNTS = {"a": 2, "b": 2}
BEFORE = [old(name) for name in ("a-1", "a-2", "b-1", "b-2")]
AFTER = [new(name) for name in ("a-1", "a-2", "b-1", "b-2")]
#: one of each set at a time, as the two roll beside each other
ROLLED = [
    [old("a-1"), old("a-2", going=True), old("b-1"), new("b-2", ready=False)],
    [new("a-2"), old("b-1", going=True), new("b-2")],
]


class Listed(Kubernetes):
    """Its lists come one after the other; the last one stays. An error is raised instead."""

    def __init__(self, *lists: Sequence[Pod] | Exception) -> None:
        super().__init__("no kubectl")
        self._lists = list(lists)
        self.are_over = asyncio.Event()

    async def pods(self, *_: str) -> list[Pod]:
        answer = self._lists.pop(0) if len(self._lists) > 1 else self._lists[0]
        if len(self._lists) == 1:
            self.are_over.set()
        if isinstance(answer, Exception):
            raise answer
        return list(answer)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_LOOK_S", 0.0)


async def watch(*lists: Sequence[Pod] | Exception) -> None:
    kubernetes = Listed(BEFORE, *lists)
    async with one_at_a_time(kubernetes, COUNTS):
        await kubernetes.are_over.wait()


async def test_roll_of_each_alone_passes() -> None:
    await watch(*ROLLED, AFTER)


@pytest.mark.parametrize(
    "look",
    [
        [old("a-1"), old("a-2"), old("b-1", going=True), new("b-2", ready=False)],
        [old("a-1"), old("a-2"), new("b-2", ready=False)],
        [old("a-1"), old("a-2")],
    ],
    ids=["both are there", "one is not in the list", "none is in the list"],
)
async def test_two_of_a_set_that_are_away_at_a_look_fail_it(look: list[Pod]) -> None:
    with pytest.raises(CannotTest, match="away at the same time: b-1, b-2"):
        await watch(*ROLLED, look, AFTER)


@pytest.mark.parametrize("error", [CannotTest("kubectl: exit status 1"), KeyError("metadata")], ids=repr)
async def test_look_that_fails_fails_the_roll(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        await watch(*ROLLED, error, AFTER)


async def test_pod_that_nobody_saw_leave_has_not_passed() -> None:
    with pytest.raises(CannotTest, match="replaced, and never seen away: a-1, b-1;"):
        await watch(ROLLED[0], AFTER)


async def test_pod_that_was_not_replaced_has_not_rolled() -> None:
    with pytest.raises(CannotTest, match=r"not replaced: b-1$"):
        await watch(*ROLLED, [*AFTER[:2], old("b-1"), AFTER[3]])


@pytest.mark.parametrize(
    "before", [BEFORE[:3], [*BEFORE[:3], old("b-2", ready=False)]], ids=["missing", "not ready"]
)
def test_roll_begins_with_everybody(before: list[Pod]) -> None:
    with pytest.raises(CannotTest, match=r"begins with 2 ready pods of b; there are: \['b-1'\]"):
        Roll(COUNTS, before)


async def test_what_ended_the_roll_itself_is_told() -> None:
    with pytest.raises(ZeroDivisionError):
        async with one_at_a_time(Listed(BEFORE), COUNTS):
            raise ZeroDivisionError
