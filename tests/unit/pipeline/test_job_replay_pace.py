"""A limit of a replay holds at every moment, not only on average."""

from __future__ import annotations

import pytest

from quorate.pipeline.jobs.replay.pace import Pacing, tasks_for


class _Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def _passed(clock: _Clock, pacing: Pacing, rows: int) -> list[float]:
    """When each row did."""
    times = []
    for row in range(rows):
        assert pacing(row)
        times.append(clock.now_s)
    return times


@pytest.mark.parametrize("rate", [7, 200, 12_345])
def test_no_tenth_of_a_second_has_more_than_its_share(rate: int) -> None:
    clock = _Clock()
    times = _passed(clock, Pacing(rate, lambda: clock.now_s, clock.sleep), 3 * rate + 1)
    assert times[-1] - times[0] == pytest.approx(3, abs=0.06)
    within = first = 0
    for last, at in enumerate(times):
        while times[first] <= at - 0.1:
            first += 1
        within = max(within, last - first + 1)
    assert within <= rate * 0.2 + 2


def test_what_comes_late_is_not_made_up_for_in_a_burst() -> None:
    clock = _Clock()
    pacing = Pacing(100, lambda: clock.now_s, clock.sleep)
    _passed(clock, pacing, 50)
    clock.now_s += 60
    times = _passed(clock, pacing, 200)
    assert times[-1] - times[0] == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize(
    ("rate", "partitions", "tasks"), [(1, 6, 1), (50_000, 6, 1), (50_001, 6, 2), (10**9, 6, 6)]
)
def test_a_limit_takes_as_few_tasks_as_can_keep_it(rate: int, partitions: int, tasks: int) -> None:
    assert tasks_for(rate, partitions) == tasks
