"""Checks of compacted topics: what compaction removes is not missed, and what it must keep is."""

from __future__ import annotations

from typing import Final

import pytest

from quorate.chaos.checks.check_all import check_all
from quorate.chaos.checks.final_state import CopyOfLog, FinalPartition, FinalState, SentKey
from quorate.chaos.history.entries import ReadRecord, Sent
from quorate.chaos.history.history import History
from quorate.core.ids import LeaderEpoch, Offset
from quorate.core.records import encode_values, filler, parse_header, stamped_prefix
from quorate.core.records.format import LEADER_EPOCH_END
from quorate.errors import DeliveryTimedOut
from tests.unit.chaos_checks.planted import PARTITION, Ticking

A, B = b"a", b"b"


class World:
    """One producer, and a log that some records are taken from."""

    def __init__(self) -> None:
        self.history = History(Ticking())
        self.history.saw_partition(
            "quorum",
            PARTITION,
            topic_id="A" * 22,  # type: ignore[arg-type]  # it is one
            leader=None,
            leader_epoch=LeaderEpoch(0),
            partition_epoch=0,
            isr=(),
            elr=(),
        )
        self.keys: dict[bytes, SentKey] = {}
        self.log: dict[Offset, bytes] = {}
        self.end = 0

    def put(self, key: bytes, *, is_tombstone: bool = False, is_known: bool = True) -> Sent:
        """At the next offset. Unless it ``is_known``, nobody is told so."""
        sent = self.history.begin("p", PARTITION)
        self.keys[sent.value] = SentKey(key, is_tombstone)
        self.log[Offset(self.end)] = sent.value
        if is_known:
            self.history.acknowledge(sent, Offset(self.end))
        else:
            self.history.fail(sent, DeliveryTimedOut("too late"))
        self.end += 1
        return sent

    def read(self, *, is_to_the_end: bool = False) -> None:
        """All that is there."""
        assignment = self.history.assign("r", {PARTITION: Offset(0)})
        records = [ReadRecord(offset, value) for offset, value in self.log.items()]
        self.history.read(assignment, PARTITION, records)
        if is_to_the_end:
            self.history.caught_up(assignment)

    def remove(self, *offsets: int) -> None:
        for offset in offsets:
            del self.log[Offset(offset)]

    def flagged(self) -> set[str]:
        final = FinalPartition(Offset(self.end), dict(self.log), keys=self.keys)
        verdicts = check_all(self.history, FinalState({PARTITION: final}))
        return {verdict.check for verdict in verdicts if not verdict.passed}


def test_what_has_been_replaced_is_not_missed() -> None:
    world = World()
    world.put(A)
    world.put(B)
    world.put(A)
    world.read()
    world.remove(0)
    world.read(is_to_the_end=True)
    assert world.flagged() == set()


@pytest.mark.parametrize("is_known", [True, False])
def test_the_last_word_on_a_key_is_missed(*, is_known: bool) -> None:
    """Also if only a reader knows of it."""
    world = World()
    world.put(A)
    world.put(A, is_known=is_known)
    world.put(B)
    world.read()
    world.remove(1)
    expected = {"last-word", "lost-write"} if is_known else {"last-word"}
    assert world.flagged() == expected | {"inconsistent-offsets"}


def test_a_deleted_key_may_leave_nothing() -> None:
    world = World()
    world.put(A)
    world.put(A, is_tombstone=True)
    world.put(B)
    world.remove(0, 1)
    world.read(is_to_the_end=True)
    assert world.flagged() == set()


def test_a_deleted_key_that_is_back_is_found() -> None:
    world = World()
    world.put(A)
    world.put(A, is_tombstone=True)
    world.put(B)
    world.remove(1)
    assert world.flagged() == {"last-word"}


def test_a_tombstone_of_which_nobody_knows_may_have_deleted_the_key() -> None:
    world = World()
    world.put(A)
    world.put(A, is_tombstone=True, is_known=False)
    world.put(B)
    world.remove(0, 1)
    assert world.flagged() == set()


def test_a_reader_that_ends_with_something_else_than_the_log_is_found() -> None:
    world = World()
    world.put(A)
    world.put(B)
    world.read(is_to_the_end=True)
    world.put(A, is_tombstone=True, is_known=False)
    assert world.flagged() == {"last-word"}


def test_a_gap_is_none_where_a_topic_is_compacted_and_a_step_back_is() -> None:
    world = World()
    for _ in range(3):
        world.put(A)
    world.remove(1)
    world.read()
    assert world.flagged() == set()
    assignment = world.history.assign("s", {PARTITION: Offset(0)})
    for offset in (2, 0):
        world.history.read(assignment, PARTITION, [ReadRecord(Offset(offset), world.log[Offset(offset)])])
    assert world.flagged() == {"nonmonotonic-poll"}


# -- replicas


def _stored(base: int, key: bytes, value: bytes | None) -> dict[Offset, bytes]:
    encoded = encode_values([value], keys=[key], timestamp_ms=1)
    prefix = stamped_prefix(parse_header(encoded), base_offset=Offset(base), leader_epoch=LeaderEpoch(0))
    return {Offset(base): bytes(prefix) + encoded[LEADER_EPOCH_END:]}


def _empty(base: int, last: int) -> dict[Offset, bytes]:
    batch = filler(
        base_offset=Offset(base), last_offset=Offset(last), leader_epoch=LeaderEpoch(0), max_timestamp=1
    )
    return {Offset(base): batch}


WRITTEN: Final = _stored(0, A, b"1") | _stored(1, A, b"2") | _stored(2, B, b"1") | _stored(3, B, None)


def _flagged(*copies: dict[Offset, bytes], keys: dict[bytes, SentKey] | None) -> set[str]:
    final = FinalPartition(
        Offset(4), {}, {f"b{number}": CopyOfLog(copy) for number, copy in enumerate(copies)}, keys=keys
    )
    verdicts = check_all(World().history, FinalState({PARTITION: final}))
    return {verdict.check for verdict in verdicts if not verdict.passed} - {"vacuous"}


def test_replicas_that_have_compacted_to_different_extents_say_the_same() -> None:
    some = _empty(0, 0) | _stored(1, A, b"2") | _stored(2, B, b"1") | _stored(3, B, None)
    more = _empty(0, 0) | _stored(1, A, b"2") | _empty(2, 3)
    assert _flagged(WRITTEN, some, more, keys={}) == set()
    assert _flagged(WRITTEN, some, keys=None) == {"replicas-differ"}


@pytest.mark.parametrize(
    "other",
    [
        _empty(0, 1) | _stored(2, B, b"1") | _stored(3, B, None),
        _empty(0, 0) | _stored(1, A, b"2") | _stored(2, B, b"1") | _empty(3, 3),
        _stored(0, A, b"x") | _stored(1, A, b"2") | _stored(2, B, b"1") | _stored(3, B, None),
        _stored(0, A, b"1") | _empty(1, 1) | _stored(2, B, b"1") | _stored(3, B, None),
    ],
    ids=["lost", "back", "changed", "older"],
)
def test_replicas_that_say_different_things_of_a_key_are_found(other: dict[Offset, bytes]) -> None:
    assert _flagged(WRITTEN, other, keys={}) == {"replicas-differ"}
