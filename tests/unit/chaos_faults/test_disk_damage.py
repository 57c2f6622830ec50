"""Damage hits what it says, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from quorate.chaos.faults.damage import FileKind, Harm, damage, files_of
from quorate.chaos.faults.directories import OldCopy, swap_directories
from quorate.errors import InvalidRequest

FILES = {
    FileKind.SEGMENT: "orders-0.x/00000000000000000000.log",
    FileKind.OFFSET_INDEX: "orders-0.x/00000000000000000000.index",
    FileKind.TIME_INDEX: "orders-0.x/00000000000000000000.timeindex",
    FileKind.PRODUCER_SNAPSHOT: "orders-0.x/00000000000000000009.snapshot",
    FileKind.LOG_CHECKPOINT: "orders-0.x/log-checkpoint",
    FileKind.LEADER_EPOCHS: "orders-0.x/leader-epoch-checkpoint",
    FileKind.HIGH_WATERMARKS: "high-watermarks",
    FileKind.RUN_NOTES: "run-notes",
    FileKind.JOURNAL: "quorum/00000000000000000001.journal",
    FileKind.QUORUM_SNAPSHOT: "quorum/00000000000000000001-00000000000000000001.snapshot",
    FileKind.HARD_STATE: "quorum/hard-state",
}


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    for number, name in enumerate(FILES.values()):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes([number]) * 1500)
    (tmp_path / "data" / "orders-0.x" / "00000000000000000500.log").touch()
    return tmp_path / "data"


def contents(directory: Path) -> dict[str, bytes]:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


@pytest.mark.parametrize("kind", FileKind)
def test_each_kind_is_found_by_its_name_and_place(data_dir: Path, kind: FileKind) -> None:
    assert files_of(str(data_dir), kind) == [str(data_dir / FILES[kind])]


@pytest.mark.parametrize("harm", Harm)
@pytest.mark.parametrize("seed", range(5))
def test_damage_is_where_the_record_says_and_nowhere_else(data_dir: Path, harm: Harm, seed: int) -> None:
    before = contents(data_dir)
    done = damage(str(data_dir), FileKind.SEGMENT, harm, random.Random(seed), within="orders-0", end=1000)
    after = contents(data_dir)
    name = FILES[FileKind.SEGMENT]
    assert [each for each in before if before[each] != after[each]] == [name]
    old, new = before[name], after[name]
    assert done.position < 1000
    if harm is Harm.CUT:
        assert new == old[: done.position]
        assert done.count == len(old) - len(new) > 0
        return
    differing = [index for index in range(len(old)) if old[index] != new[index]]
    assert differing == list(range(done.position, done.position + done.count))


def test_nothing_to_damage_is_an_error_and_not_a_drill_without_a_fault(data_dir: Path) -> None:
    with pytest.raises(InvalidRequest):
        damage(str(data_dir), FileKind.SEGMENT, Harm.FLIP, random.Random(1), within="payments-0")


def test_swapped_directories_and_old_copies(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for path in (one, other):
        path.mkdir()
        (path / "name").write_text(path.name)
    swap_directories(str(one), str(other))
    assert ((one / "name").read_text(), (other / "name").read_text()) == ("other", "one")
    copy = OldCopy(str(one))
    (one / "later").touch()
    (one / "name").write_text("changed")
    for _ in range(2):
        copy.put_back()
        assert contents(one) == {"name": b"other"}
    copy.remove()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "other"]


@pytest.mark.parametrize("harm", list(Harm))
def test_damage_is_there_until_somebody_writes_over_it_cuts_it_off_or_deletes_the_file(
    data_dir: Path, harm: Harm
) -> None:
    done = damage(str(data_dir), FileKind.SEGMENT, harm, random.Random(1))
    path = Path(done.path)
    assert done.is_there()
    left = path.read_bytes()
    path.write_bytes(left[: done.position] + b"anew" * 200)
    assert not done.is_there()
    path.write_bytes(left)
    assert done.is_there()
    if done.position > 0:
        path.write_bytes(left[: done.position - 1])
        assert not done.is_there()
    path.unlink()
    assert not done.is_there()
