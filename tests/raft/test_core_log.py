"""The log in memory, against a plain list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.metadata.raft.entries import NO_INDEX, Entry, Index, SnapshotId, Term
from quorate.metadata.raft.raft_log import RaftLog
from tests.raft.core_harness import entry, log, snapshot, voters, voters_entry

TERMS = st.lists(st.integers(1, 5), max_size=12).map(sorted)


def raft_log(*terms: int, base: tuple[int, int] | None = None) -> RaftLog:
    start = SnapshotId(Index(base[0]), Term(base[1])) if base is not None else None
    return RaftLog(start, voters(1, 2, 3), log(*terms, after=base[0] if base is not None else 0))


def terms_of(held: RaftLog) -> list[int]:
    return [entry.term for entry in held.entries_between(held.first_index, held.last_index)]


def test_terms_are_known_from_the_base_to_the_end() -> None:
    held = raft_log(2, 3, base=(5, 2))
    assert [held.term_at(Index(index)) for index in range(4, 9)] == [None, 2, 2, 3, None]
    assert (held.first_index, held.last_index, held.last_term) == (6, 7, 3)


@given(TERMS, st.integers(0, 15), st.integers(0, 6))
def test_the_meeting_point_is_the_last_entry_that_may_be_common(
    terms: list[int], index: int, term: int
) -> None:
    held = raft_log(*terms)
    candidates = [i for i, t in enumerate([0, *terms]) if i <= index and t <= term]
    assert held.meeting_point(Index(index), Term(term)) == max(candidates)


@given(TERMS, st.data())
def test_terms_survive_any_truncation_and_compaction(terms: list[int], data: st.DataObject) -> None:
    held = raft_log(*terms)
    cut = data.draw(st.integers(1, len(terms) + 1))
    if cut <= len(terms):
        held.truncate_from(Index(cut))
    remaining = terms[: cut - 1]
    to = data.draw(st.integers(0, len(remaining)))
    held.commit(Index(to))
    held.take_committed()
    if to:
        held.trim(snapshot(to, remaining[to - 1]), entries_kept=0)
    held.append(entry(len(remaining) + 1, 6))
    model = dict(enumerate([0, *remaining, 6]))
    assert terms_of(held) == [*remaining[to:], 6]
    for index in range(len(model) + 2):
        assert held.term_at(Index(index)) == (model.get(index) if index >= to else None)
        point = held.meeting_point(Index(index), Term(3))
        expected = [i for i, t in model.items() if to <= i <= index and t <= 3]
        assert point == max(expected, default=NO_INDEX)


@pytest.mark.parametrize(
    ("held", "sent", "conflict"),
    [
        ((1, 1, 1), (1, 1), None),  # all here already
        ((1, 1, 1), (1, 1, 1), None),
        ((1, 1), (1, 1, 1), 3),  # new
        ((), (1,), 1),
        ((1, 1, 1), (1, 2), 2),  # another term
        ((1, 2, 2), (1, 1, 3), 2),
    ],
)
def test_a_conflict_is_the_first_entry_that_is_missing_or_of_another_term(
    held: tuple[int, ...], sent: tuple[int, ...], conflict: int | None
) -> None:
    assert raft_log(*held).find_conflict(log(*sent)) == conflict


def test_a_batch_ends_before_it_is_too_large_but_is_never_empty() -> None:
    held = raft_log()
    for index, size in enumerate((10, 10, 500, 10), 1):
        held.append(entry(index, 1, b"x" * size))
    assert [e.index for e in held.entries_from(Index(1), 100)] == [1, 2]
    assert [e.index for e in held.entries_from(Index(3), 100)] == [3]
    assert [e.index for e in held.entries_from(Index(4), 100)] == [4]
    assert held.entries_from(Index(5), 100) == ()


def test_unsaved_entries_are_given_once_and_again_from_where_they_were_replaced() -> None:
    held = raft_log(1, 1)
    assert held.take_unsaved() == ()
    held.append(entry(3, 1))
    assert held.take_unsaved() == (entry(3, 1),)
    held.truncate_from(Index(2))
    held.append(entry(2, 2))
    held.append(entry(3, 2))
    assert held.take_unsaved() == (entry(2, 2), entry(3, 2))


def test_a_write_makes_durable_what_it_held_unless_that_is_gone() -> None:
    held = raft_log(1, 1)
    held.append(entry(3, 1))
    held.writing(10)
    held.append(entry(4, 1))
    held.writing(11)
    held.written(10)
    assert held.durable_index == 3
    held.truncate_from(Index(4))
    held.written(11)
    assert held.durable_index == 3
    held.truncate_from(Index(2))
    assert held.durable_index == 1


def test_voters_change_with_their_entries_and_back() -> None:
    held = raft_log(1)
    held.append(voters_entry(2, 1, 1, 2))
    held.append(voters_entry(3, 1, 1))
    assert (held.voters, held.voters_index) == (voters(1), 3)
    held.truncate_from(Index(3))
    assert (held.voters, held.voters_index) == (voters(1, 2), 2)
    assert held.voters_at(Index(1)) == voters(1, 2, 3)
    held.truncate_from(Index(2))
    assert held.voters == voters(1, 2, 3)


def test_a_gap_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="gap"):
        RaftLog(None, voters(1), (Entry(Index(2), Term(1), entry(1, 1).kind, b""),))
