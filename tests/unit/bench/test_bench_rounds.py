"""A run that was interrupted goes on where it was, and its table goes where the page has a place for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cluster.comparison import Comparison, compare
from bench.cluster.peer import Latencies, Load, LonePeer
from bench.cluster.rounds import Rounds
from bench.cluster.table import markdown, write_into
from bench.cluster.turns import take_turns
from bench.cluster.works import chosen_works
from tests.unit.bench.test_bench_turns import NotedPeer

RATE = Comparison("rate", "MB/s", "ours", "theirs", "higher", 1.5, 2.5)
PAGE = (
    "before\n<!-- written by bench.cluster: begin -->\nold\n<!-- written by bench.cluster: end -->\nafter\n"
)


class Lone(LonePeer):
    async def __aenter__(self) -> Lone:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def start(self) -> float:
        return 1.0

    async def create_topic(self, topic: str, partitions: int) -> None: ...

    async def send_alone(self, load: Load) -> Latencies:
        return Latencies(load.value_bytes, load.records)


async def test_what_was_measured_before_is_not_measured_again(tmp_path: Path) -> None:
    journal: list[str] = []
    works = chosen_works(["send-alone", "memory"])
    sides = {"a": lambda: NotedPeer("a", journal)}
    first, _ = await take_turns(sides, works[:2], 1, Rounds(tmp_path / "rounds"))
    journal.clear()
    again, _ = await take_turns(sides, works, 1, Rounds(tmp_path / "rounds"))
    assert "a sends alone" not in journal
    assert again["a"]["send-alone: p50"] == first["a"]["send-alone: p50"] == [1.0]
    assert again["a"]["memory"] == [100.0, 300.0]
    assert again["a"]["start"] == [1.0], "of the life that was measured"
    journal.clear()
    assert (await take_turns(sides, works, 1, Rounds(tmp_path / "rounds")))[0] == again
    assert journal == [], "nothing is due, so nothing starts"


async def test_work_that_failed_is_due_again(tmp_path: Path) -> None:
    works = chosen_works(["one-per-batch"])
    for _ in range(2):
        _, failures = await take_turns(
            {"a": lambda: NotedPeer("a", [])}, works, 1, Rounds(tmp_path / "rounds")
        )
        assert failures == ["a, round 1, one-per-batch: it broke"]


async def test_system_that_only_sends_alone_is_asked_for_nothing_else() -> None:
    measured, failures = await take_turns({"a": Lone}, chosen_works(["send-alone", "cpu"]), 2)
    assert failures == []
    assert sorted(measured["a"]) == ["send-alone: p50", "send-alone: p99", "start"]


async def test_works_can_be_made_small() -> None:
    measured, _ = await take_turns({"a": Lone}, chosen_works(["send-alone"], 0.01), 1)
    assert measured["a"]["send-alone: p99"] == [30], "records, of three thousand"


def test_table_shows_medians_and_the_range_of_all_rounds() -> None:
    measured = {"quorate": {"ours": [10.0, 30.0, 20.0]}, "kafka": {"theirs": [10.0]}}
    table = markdown(
        "Title", compare([RATE], measured["quorate"], measured["kafka"]), "quorate", measured
    ).splitlines()
    assert table[0] == "Title:"
    assert table[-1] == "| rate | 20 MB/s (10 to 30) | 10 MB/s | 2.00x | 1.5x | 2.5x | met |"


def test_table_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    for _ in range(2):
        write_into(page, "new\n")
    assert page.read_text() == PAGE.replace("old", "\nnew\n")


def test_page_without_a_place_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing here\n")
    with pytest.raises(SystemExit, match="no place for the table"):
        write_into(page, "new\n")
    assert page.read_text() == "nothing here\n"
