"""A path that cannot be written is wrong usage, told before anything begins, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest

from quorate.chaos.drills.catalogue import find_story
from quorate.chaos.drills.engine import run_drill
from quorate.chaos.drills.local_agent import LocalAgent
from quorate.chaos.drills.options import DrillOptions
from quorate.console.main import main
from quorate.console.output_paths import check_directory
from quorate.errors import StorageFailed

Capsys = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a cluster of a drill's own would be."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["drill", "run", "leader-kill", "--report", "{}/x"], "--report"),
        (["sim", "run", "--seed", "3", "--failures-dir", "{}/x"], "--failures-dir"),
        (["sim", "replay", "3", "--trace", "{}/x/t.txt"], "--trace"),
    ],
)
@pytest.mark.parametrize("parent", ["/proc", "file"])
def test_output_that_cannot_be_written_is_wrong_usage_and_begins_nothing(
    tmp_path: Path, temporary: Path, capsys: Capsys, command: list[str], option: str, parent: str
) -> None:
    (tmp_path / "file").touch()
    place = str(tmp_path / parent)
    assert main([each.format(place) for each in command]) == 2
    told = capsys.readouterr().err
    assert option in told
    assert "cannot be written" in told
    assert not list(temporary.iterdir())


def test_directory_that_was_looked_at_is_not_there_afterwards(tmp_path: Path) -> None:
    check_directory(tmp_path / "a" / "b", option="--report")
    assert not (tmp_path / "a").exists()
    (tmp_path / "mine").mkdir()
    check_directory(tmp_path / "mine", option="--report")
    assert (tmp_path / "mine").is_dir()


def test_drill_that_cannot_write_leaves_no_cluster_behind(tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "file").touch()
    story = find_story("leader-kill")
    options = DrillOptions(seed=1, seconds=1.0, directory=str(tmp_path / "file" / "x"), command="")
    with pytest.raises(StorageFailed, match="Not a directory"):
        asyncio.run(run_drill(story, LocalAgent.create(story.layout, seed=1), options))
    assert not list(temporary.iterdir())
