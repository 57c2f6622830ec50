"""The directory against a model: a list, and what of it is durable."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quorate.chaos.models.quorum.directory_harness import (
    DirectoryHarness,
    LogState,
    command,
    hard_state,
    snapshot_at,
)

T = TypeVar("T")

SIZES = st.sampled_from([0, 1, 17, 600])


class DirectoryMachine(RuleBasedStateMachine):
    @initialize(segment_bytes=st.sampled_from([1, 150, 2000]))
    def begin(self, segment_bytes: int) -> None:
        self.runner = asyncio.Runner()
        self.harness = DirectoryHarness(segment_bytes=segment_bytes)
        self.run(self.harness.begin())
        self.run(self.harness.write_hard_state(hard_state(1)))

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.harness.directory.close()
            assert self.harness.disk.open_paths == []
            self.runner.close()

    def run(self, step: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(step)

    @property
    def log(self) -> LogState:
        return self.harness.ledger.logs[-1]

    @property
    def last(self) -> int:
        if self.log.entries:
            return self.log.entries[-1].index
        return 0 if self.log.base is None else self.log.base.index

    @property
    def committed(self) -> int:
        snapshot = self.harness.directory.snapshot
        return 0 if snapshot is None else snapshot.id.index

    @property
    def term(self) -> int:
        return self.harness.directory.hard_state.term

    @rule(sizes=st.lists(SIZES, min_size=1, max_size=4))
    def append(self, sizes: list[int]) -> None:
        first = self.last + 1
        self.harness.append([command(first + n, self.term, b"x" * size) for n, size in enumerate(sizes)])

    @precondition(lambda self: self.last > self.committed)
    @rule(back=st.integers(0, 10), size=SIZES)
    def replace(self, back: int, size: int) -> None:
        self.vote()
        index = max(self.committed + 1, self.last - back)
        self.harness.append([command(index, self.term, b"y" * size)])

    @rule()
    def sync(self) -> None:
        self.run(self.harness.sync())

    @rule()
    def vote(self) -> None:
        self.run(self.harness.write_hard_state(hard_state(self.term + 1, voted_for=2)))

    @precondition(lambda self: self.last > self.committed)
    @rule(back=st.integers(0, 5))
    def save(self, back: int) -> None:
        self.sync()
        index = max(self.committed + 1, self.last - back)
        entry = next(each for each in self.log.entries if each.index == index)
        self.run(self.harness.save(snapshot_at(index, entry.term)))

    @rule(ahead=st.integers(1, 5))
    def install(self, ahead: int) -> None:
        self.run(self.harness.install(snapshot_at(self.last + ahead, self.term)))

    @precondition(lambda self: self.last > self.committed)
    @rule(back=st.integers(0, 5), agrees=st.booleans())
    def install_within(self, back: int, *, agrees: bool) -> None:
        index = max(self.committed + 1, self.last - back)
        entry = next(each for each in self.log.entries if each.index == index)
        if not agrees:
            self.vote()
        self.run(self.harness.install(snapshot_at(index, entry.term if agrees else self.term)))

    @rule()
    def stop_and_start(self) -> None:
        self.harness.directory.close()
        self.run(self.harness.begin())
        self.check()

    @rule(seed=st.none() | st.integers(0, 1000))
    def lose_power(self, seed: int | None) -> None:
        self.run(self.harness.power_loss(None if seed is None else random.Random(seed)))
        self.check()

    def check(self) -> None:
        self.harness.ledger.check(self.harness.directory)
        assert not self.harness.directory.hard_state.is_recovering
        self.harness.ledger.settle(self.harness.directory)

    @invariant()
    def files_are_bounded(self) -> None:
        if hasattr(self, "harness"):
            assert len(self.harness.names(".snapshot")) <= 2
            assert self.harness.names(".tmp") == []


DirectoryMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=25)
TestDirectoryModel = DirectoryMachine.TestCase
