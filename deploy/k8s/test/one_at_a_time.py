"""Watches a roll: never are two pods of a set away, and each that leaves finds all the others ready.

Away is whoever was there at the beginning and is not ready at a look, also who is not listed at all: between
its deletion and its successor a pod does not exist. A look that fails ends the watch, and with it the step:
what was not seen has not passed. Neither has a pod that was replaced without having been seen away, as looks
were too far apart then to have seen two.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from deploy.k8s.test.kubernetes import Kubernetes, Pod
from deploy.test.commands import CannotTest

__all__ = ["Roll", "one_at_a_time"]

_LOOK_S: Final = 0.5


@asynccontextmanager
async def one_at_a_time(kubernetes: Kubernetes, counts: Mapping[str, int]) -> AsyncIterator[None]:
    """Inside, every pod of these sets, of which there are so many, is replaced."""
    roll = Roll(counts, await kubernetes.pods())
    watch = asyncio.create_task(_watch(kubernetes, roll), name="watch-pods")
    try:
        yield
    finally:
        watch.cancel()
        await asyncio.wait([watch])
    if not watch.cancelled():
        watch.result()
    roll.conclude(await kubernetes.pods())


async def _watch(kubernetes: Kubernetes, roll: Roll) -> None:
    while True:
        roll.look(await kubernetes.pods())
        await asyncio.sleep(_LOOK_S)


class Roll:
    def __init__(self, counts: Mapping[str, int], before: Sequence[Pod]) -> None:
        self._before = {name: [pod for pod in before if _set_of(pod) == name] for name in counts}
        self._seen_away: set[str] = set()
        for name, count in counts.items():
            ready = [pod.name for pod in self._before[name] if pod.is_ready]
            if len(ready) != count:
                raise CannotTest(f"a roll begins with {count} ready pods of {name}; there are: {ready}")

    def look(self, pods: Sequence[Pod]) -> None:
        ready = {pod.name for pod in pods if pod.is_ready}
        for members in self._before.values():
            away = [pod.name for pod in members if pod.name not in ready]
            if len(away) > 1:
                raise CannotTest(f"away at the same time: {', '.join(away)}")
            self._seen_away.update(away)

    def conclude(self, pods: Sequence[Pod]) -> None:
        self.look(pods)
        members = [pod for some in self._before.values() for pod in some]
        old = {pod.uid for pod in pods}
        if stayed := [pod.name for pod in members if pod.uid in old]:
            raise CannotTest(f"not replaced: {', '.join(stayed)}")
        if unseen := [pod.name for pod in members if pod.name not in self._seen_away]:
            raise CannotTest(
                f"replaced, and never seen away: {', '.join(unseen)}; pods were looked at too seldom"
            )


def _set_of(pod: Pod) -> str:
    return pod.name.rpartition("-")[0]
