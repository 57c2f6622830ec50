"""Whatever clients of a log that keeps its promises see is never flagged; whatever spoils it always is."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from quorate.chaos.history.entries import Poll, ReadRecord, Sent
from quorate.core.ids import Offset
from tests.unit.chaos_checks.log_world import LogWorld, flagged

#: spoils a world that has ended; False: there is nothing in it that could be spoilt so
Spoil = Callable[[LogWorld], bool]


def world_of(seed: int, steps: int) -> LogWorld:
    world = LogWorld(random.Random(seed))
    world.live(steps)
    return world


def promised(world: LogWorld) -> list[Sent]:
    return [sent for sent in world.history.sent if sent.is_promised]


def long_polls(world: LogWorld, records: int) -> list[Poll]:
    return [poll for poll in world.history.polls if len(poll.records) >= records]


def drop_a_record(world: LogWorld) -> bool:
    """The log closes up over it."""
    if not promised(world):
        return False
    victim = world.rng.choice(promised(world))
    world.logs[victim.partition].remove(victim.value)
    return True


def double_a_record(world: LogWorld) -> bool:
    if not promised(world):
        return False
    victim = world.rng.choice(promised(world))
    log = world.logs[victim.partition]
    log.insert(world.rng.randint(0, len(log)), victim.value)
    return True


def swap_two_records(world: LogWorld) -> bool:
    log = world.rng.choice(list(world.logs.values()))
    if len(log) < 2:
        return False
    one, other = world.rng.sample(range(len(log)), 2)
    log[one], log[other] = log[other], log[one]
    return True


def move_a_record_to_another_partition(world: LogWorld) -> bool:
    if not promised(world):
        return False
    victim = world.rng.choice(promised(world))
    world.logs[victim.partition].remove(victim.value)
    other = next(log for partition, log in world.logs.items() if partition != victim.partition)
    other.append(victim.value)
    return True


def change_an_offset(world: LogWorld) -> bool:
    if not promised(world):
        return False
    victim = world.rng.choice(promised(world))
    assert victim.offset is not None
    victim.offset = Offset(victim.offset + world.rng.choice([-1, 1]))
    return True


def write_what_was_refused(world: LogWorld) -> bool:
    refused = [sent for sent in world.history.sent if sent.is_refused]
    if not refused:
        return False
    victim = world.rng.choice(refused)
    world.logs[victim.partition].append(victim.value)
    return True


def write_what_nobody_sent(world: LogWorld) -> bool:
    world.rng.choice(list(world.logs.values())).append(b"from nowhere")
    return True


def skip_in_a_read(world: LogWorld) -> bool:
    polls = long_polls(world, 3)
    if not polls:
        return False
    poll = world.rng.choice(polls)
    middle = world.rng.randrange(1, len(poll.records) - 1)
    poll.records = poll.records[:middle] + poll.records[middle + 1 :]
    return True


def skip_a_poll(world: LogWorld) -> bool:
    """Another one follows it in its assignment."""
    polls = world.history.polls
    followed = [
        number
        for number, poll in enumerate(polls)
        if any(
            (poll.assignment, poll.partition) == (each.assignment, each.partition)
            for each in polls[number + 1 :]
        )
    ]
    if not followed:
        return False
    del polls[world.rng.choice(followed)]
    return True


def repeat_in_a_read(world: LogWorld) -> bool:
    polls = long_polls(world, 1)
    if not polls:
        return False
    poll = world.rng.choice(polls)
    place = world.rng.randrange(len(poll.records))
    poll.records = (*poll.records[: place + 1], *poll.records[place:])
    return True


def read_another_value(world: LogWorld) -> bool:
    polls = long_polls(world, 1)
    if not polls:
        return False
    poll = world.rng.choice(polls)
    place = world.rng.randrange(len(poll.records))
    changed = ReadRecord(poll.records[place].offset, poll.records[place].value + b"!")
    poll.records = (*poll.records[:place], changed, *poll.records[place + 1 :])
    return True


def see_a_lower_high_watermark(world: LogWorld) -> bool:
    partition, log = world.rng.choice(list(world.logs.items()))
    if not log:
        return False
    lower = Offset(world.rng.randrange(len(log)))
    world.history.saw_watermark(partition, lower, begun_s=world.clock())
    return True


SPOILS: Final[list[tuple[Spoil, set[str]]]] = [
    (drop_a_record, {"lost-write"}),
    (double_a_record, {"duplicate"}),
    (swap_two_records, {"inconsistent-offsets"}),
    (move_a_record_to_another_partition, {"lost-write", "phantom"}),
    (change_an_offset, {"inconsistent-offsets"}),
    (write_what_was_refused, {"aborted-read"}),
    (write_what_nobody_sent, {"phantom"}),
    (skip_in_a_read, {"int-poll-skip"}),
    (skip_a_poll, {"poll-skip"}),
    (repeat_in_a_read, {"int-nonmonotonic-poll"}),
    (read_another_value, {"inconsistent-offsets", "phantom"}),
    (see_a_lower_high_watermark, {"nonmonotonic-watermark"}),
]

SEEDS: Final = st.integers(0, 1 << 32)


@given(seed=SEEDS, steps=st.integers(20, 300))
def test_clean_history_is_never_flagged(seed: int, steps: int) -> None:
    world = world_of(seed, steps)
    assume(any(sent.is_acknowledged for sent in world.history.sent))
    assert flagged(world.history, world.final_state()) == set()


@pytest.mark.parametrize(("spoil", "checks"), SPOILS, ids=[spoil.__name__ for spoil, _ in SPOILS])
@settings(max_examples=25)
@given(seed=SEEDS, steps=st.integers(40, 200))
def test_spoilt_history_is_always_flagged(spoil: Spoil, checks: set[str], seed: int, steps: int) -> None:
    world = world_of(seed, steps)
    assume(spoil(world))
    assert checks <= flagged(world.history, world.final_state())
