"""The one runner: apply a mutation, try seed after seed, and say who noticed.

A mutation is applied anew for each seed, so that no seed knows of another one: whatever was found in the
thirtieth is found again when that seed runs alone. A seed that has found something runs once more without the
mutation. If it goes red then too, it has found something else (a bug, or a check that is wrong), and does not
count.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from quorate.chaos.cluster.trace import counting_events
from quorate.chaos.mutations.mutation import Catch, Mutation
from quorate.chaos.sim.patch import Patch

__all__ = ["HuntOutcome", "hunt", "hunt_all"]


@dataclass(frozen=True, slots=True)
class HuntOutcome:
    mutation: str
    #: how many were run, the last one included
    seeds: int
    #: None: it has survived all of them
    catch: Catch | None
    seconds: float
    #: the one that noticed
    seed: int | None = None
    #: seeds that are red without the mutation too
    red_anyway: tuple[int, ...] = ()


def hunt(mutation: Mutation, *, first_seed: int = 1, seeds_max: int | None = None) -> HuntOutcome:
    """Until the first violation."""
    if not __debug__:
        raise RuntimeError("mutations are noticed by assertions: run Python without -O")
    mutation.hunt.prepare()
    began = time.monotonic()
    count = mutation.hunt.seeds_max if seeds_max is None else min(seeds_max, mutation.hunt.seeds_max)
    red_anyway: list[int] = []
    for number in range(count):
        seed = first_seed + number
        catch = _trial(mutation, seed, is_applied=True)
        if catch is None:
            continue
        if _trial(mutation, seed, is_applied=False) is None:
            seconds = time.monotonic() - began
            return HuntOutcome(mutation.name, number + 1, catch, seconds, seed, tuple(red_anyway))
        red_anyway.append(seed)
    return HuntOutcome(mutation.name, count, None, time.monotonic() - began, None, tuple(red_anyway))


def _trial(mutation: Mutation, seed: int, *, is_applied: bool) -> Catch | None:
    # Nodes log what goes wrong, and here that is what they are there for.
    with counting_events(None), Patch() as patch:
        if is_applied:
            mutation.apply(patch)
        return mutation.hunt.trial(seed)


def hunt_all(
    mutations: Sequence[Mutation], *, jobs: int = 1, seeds_max: int | None = None
) -> Iterator[HuntOutcome]:
    """As they end."""
    if jobs == 1:
        for each in mutations:
            yield hunt(each, seeds_max=seeds_max)
        return
    with ProcessPoolExecutor(jobs) as executor:
        try:
            tasks = [executor.submit(_hunt_by_name, each.name, seeds_max) for each in mutations]
            for task in as_completed(tasks):
                yield task.result()
        finally:
            executor.shutdown(cancel_futures=True)


def _hunt_by_name(name: str, seeds_max: int | None) -> HuntOutcome:
    """In a process of its own: functions do not travel there, names do."""
    from quorate.chaos.mutations.registry import find_mutation

    return hunt(find_mutation(name), seeds_max=seeds_max)
