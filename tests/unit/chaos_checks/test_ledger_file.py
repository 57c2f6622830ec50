"""The ledger on disk: what was said comes back, also after kill -9 of its writer; damage is noticed."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.chaos.history.entries import Outcome
from quorate.chaos.history.history import History
from quorate.chaos.history.ledger_file import LedgerDamaged, LedgerFile, read_ledger
from quorate.core.ids import Offset, TopicName
from tests.unit.chaos_checks import ledger_writer
from tests.unit.chaos_checks.log_world import LogWorld, flagged
from tests.unit.chaos_checks.planted import PARTITION, Case, Ticking

REPOSITORY = Path(__file__).parents[3]


def entries_of(history: History) -> list[object]:
    return [
        history.sent,
        history.assignments,
        history.polls,
        history.watermarks,
        history.changes,
        history.faults,
        history.deletions,
    ]


def record(history: History, path: Path) -> None:
    """Write down a history that is over, as if it had been recorded while it happened."""
    everything = sorted(
        (entry for entries in entries_of(history) for entry in entries),  # type: ignore[attr-defined]
        key=lambda entry: entry.serial,
    )
    with LedgerFile.create(str(path)) as ledger:
        for entry in everything:
            ledger.begun(entry)
        for entry in everything:
            if getattr(entry, "ended_s", None) is not None and entry not in history.watermarks:
                ledger.ended(entry)
            if getattr(entry, "caught_up_s", None) is not None:
                ledger.ended(entry)


def test_everything_comes_back_as_it_was(tmp_path: Path) -> None:
    case = Case()
    case.history.topic_deleted(case.history.delete_topic(TopicName("other")))
    case.history.inflict("pause", "broker-2")
    case.read_values([(0, bytes(range(256)))], start=None)
    record(case.history, tmp_path / "ledger")
    assert entries_of(read_ledger(str(tmp_path / "ledger"))) == entries_of(case.history)


@settings(max_examples=10)
@given(seed=st.integers(0, 1 << 32))
def test_recorded_history_is_judged_like_the_one_in_memory(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("ledgers") / "ledger"
    world = LogWorld(random.Random(seed))
    world.live(150)
    record(world.history, path)
    read = read_ledger(str(path))
    assert entries_of(read) == entries_of(world.history)
    world.logs[PARTITION].append(b"from nowhere")
    assert flagged(read, world.final_state()) == flagged(world.history, world.final_state())


async def test_lines_of_one_turn_are_written_together_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with LedgerFile.create(str(path)) as ledger:
        history = History(Ticking(), recorder=ledger)
        head = path.read_bytes()
        first, second = (history.begin("producer", PARTITION) for _ in range(2))
        assert path.read_bytes() == head
        history.flush()
        assert len(path.read_bytes().splitlines()) == 3
        history.acknowledge(first, Offset(0))
        history.acknowledge(second, Offset(1))
        assert len(path.read_bytes().splitlines()) == 3
        await asyncio.sleep(0)
        assert len(path.read_bytes().splitlines()) == 5


def test_send_without_an_outcome_comes_back_as_unknown(tmp_path: Path) -> None:
    with LedgerFile.create(str(tmp_path / "ledger")) as ledger:
        History(Ticking(), recorder=ledger).begin("producer", PARTITION)
    (sent,) = read_ledger(str(tmp_path / "ledger")).sent
    assert (sent.outcome, sent.ended_s) == (Outcome.UNKNOWN, None)


def test_torn_last_line_is_cut_off_wherever_it_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    record(Case().history, path)
    content = path.read_bytes()
    whole, last = content[:-1].rsplit(b"\n", 1)
    for length in range(len(last) + 1):
        path.write_bytes(whole + b"\n" + last[:length])
        assert len(read_ledger(str(path)).sent) == len(Case().history.sent)
    for length in range(content.index(b"\n") + 1):
        path.write_bytes(content[:length])
        assert read_ledger(str(path)).sent == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"version":1', b'"version":2'),
        (b'"type":"send"', b'"type":"sand"'),
        (b'"serial":2,', b""),
        (b'"serial":3,', b'"serial":2,'),
        (b'{"type":"sent"', b'{"type":"healed"'),
        (b'"outcome":"acknowledged"', b'"outcome":"perhaps"'),
        (b'"partition":["t",0]', b'"partition":7'),
        (b"\n", b"\x00\n"),
    ],
)
def test_damage_anywhere_else_is_refused(tmp_path: Path, old: bytes, new: bytes) -> None:
    path = tmp_path / "ledger"
    record(Case().history, path)
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))
    with pytest.raises(LedgerDamaged, match="line "):
        read_ledger(str(path))


def test_second_outcome_of_a_record_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    record(Case().history, path)
    outcome = next(line for line in path.read_bytes().splitlines(keepends=True) if b'"sent"' in line)
    path.write_bytes(path.read_bytes() + outcome)
    with pytest.raises(LedgerDamaged, match="ends nothing"):
        read_ledger(str(path))


def test_file_of_another_run_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_bytes(b"")
    with pytest.raises(FileExistsError):
        LedgerFile.create(str(tmp_path / "ledger"))


def test_whatever_a_killed_process_has_done_is_on_record(tmp_path: Path) -> None:
    """kill -9 at any moment: every record that may be out there is known, and so is what was heard of it."""
    path = tmp_path / "ledger"
    for _ in range(3):
        path.unlink(missing_ok=True)
        command = [sys.executable, "-m", ledger_writer.__name__, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as writer:
            assert writer.stdout is not None
            told = [writer.stdout.readline() for _ in range(500)]
            writer.kill()
            told += writer.stdout.readlines()
        history = read_ledger(str(path))
        numbers = {sent.number for sent in history.sent}
        acknowledged = {sent.number for sent in history.acknowledged}
        for line in (each.split() for each in told if each.endswith(b"\n")):
            assert int(line[1]) in (numbers if line[0] == b"send" else acknowledged)
