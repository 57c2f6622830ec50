"""A campaign: seeds, run in several processes; then each that failed is made small and readable.

A seed that fails does not stop the others: one bug often hides in many seeds, and several show it from
several sides. After ``failures_max`` of them no more are begun, since what comes after is most likely the
same again. What it found is told as it goes to an observer, which shows it or records it.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from quorate.chaos.campaign.failing_seed import FailingSeed
from quorate.chaos.campaign.job import Job
from quorate.chaos.campaign.outcome import RunOutcome
from quorate.chaos.campaign.workforce import Workforce
from quorate.chaos.campaign.world import load_world, world_reference

__all__ = ["Campaign", "CampaignObserver", "CampaignResult", "CampaignSettings"]


@dataclass(frozen=True, slots=True)
class CampaignSettings:
    #: as ``load_world`` takes it
    world: str
    #: each once
    seeds: Sequence[int]
    jobs: int
    #: how many seeds may fail before no more are begun
    failures_max: int
    #: of real time, for one run
    seed_seconds_max: float
    #: of real time, for making the failing ones smaller, all together
    shrink_seconds_max: float
    #: gets a directory for each failing seed
    failures_dir: Path


@dataclass(slots=True)
class CampaignResult:
    passed: int = 0
    failing: list[FailingSeed] = field(default_factory=list)
    #: of all runs
    counters: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    is_interrupted: bool = False


class CampaignObserver(Protocol):
    def seed_done(self, outcome: RunOutcome) -> None:
        """A seed was run; in the order in which they end."""

    def shrinking(self, failing: FailingSeed) -> None:
        """One of its candidates was run."""

    def waiting(self) -> None:
        """About once a second."""


class Campaign:
    def __init__(self, settings: CampaignSettings, observers: Iterable[CampaignObserver]) -> None:
        self._settings = settings
        self._observers = tuple(observers)
        self._world = load_world(settings.world)
        self._result = CampaignResult()

    def run(self) -> CampaignResult:
        """Ends early, with what there is, on Ctrl-C."""
        settings, result = self._settings, self._result
        began = time.monotonic()
        size = min(settings.jobs, max(1, len(settings.seeds)))
        world = world_reference(settings.world)
        workforce = Workforce(world, size=size, seconds_max=settings.seed_seconds_max)
        try:
            with workforce:
                self._run_seeds(workforce)
                result.seconds = time.monotonic() - began
                self._make_small(workforce)
                self._make_readable(workforce)
        except KeyboardInterrupt:
            result.is_interrupted = True
            result.seconds = result.seconds or time.monotonic() - began
            for failing in result.failing:
                failing.keep_smallest()
        return result

    def _run_seeds(self, workforce: Workforce) -> None:
        seeds = iter(self._settings.seeds)
        while True:
            while workforce.has_room and len(self._result.failing) < self._settings.failures_max:
                seed = next(seeds, None)
                if seed is None:
                    break
                workforce.give(Job(seed))
            if not workforce.is_busy:
                return
            for _, outcome in workforce.wait():
                self._count(outcome)
            for observer in self._observers:
                observer.waiting()

    def _count(self, outcome: RunOutcome) -> None:
        result = self._result
        result.counters.update(outcome.counters)
        if outcome.failure is None:
            result.passed += 1
        else:
            name, under = self._settings.world, self._settings.failures_dir
            result.failing.append(FailingSeed(outcome, self._world, world_name=name, under=under))
        for observer in self._observers:
            observer.seed_done(outcome)

    def _make_small(self, workforce: Workforce) -> None:
        """All failing seeds in turn, so that none of them takes the time of the others."""
        deadline_s = time.monotonic() + self._settings.shrink_seconds_max
        waiting = deque(failing for failing in self._result.failing if failing.candidate is not None)
        under_way: dict[int, FailingSeed] = {}
        while True:
            while waiting and workforce.has_room and time.monotonic() < deadline_s:
                failing = waiting.popleft()
                workforce.give(Job(failing.seed, failing.candidate))
                under_way[failing.seed] = failing
            if not under_way:
                break
            for job, outcome in workforce.wait():
                failing = under_way.pop(job.seed)
                failing.judge(outcome)
                if failing.candidate is not None:
                    waiting.append(failing)
                for observer in self._observers:
                    observer.shrinking(failing)
        for failing in self._result.failing:
            failing.keep_smallest()

    def _make_readable(self, workforce: Workforce) -> None:
        """Run what is left of each once more, with a trace."""
        waiting = deque(self._result.failing)
        under_way: dict[int, FailingSeed] = {}
        while waiting or under_way:
            while waiting and workforce.has_room:
                failing = waiting.popleft()
                workforce.give(Job(failing.seed, failing.smallest, str(failing.trace_path)))
                under_way[failing.seed] = failing
            for job, outcome in workforce.wait():
                under_way.pop(job.seed).keep_trace(outcome)
