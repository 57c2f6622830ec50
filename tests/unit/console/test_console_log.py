"""``quorate log`` on files that a real log wrote."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from quorate.broker.directory.broker_directory import BrokerDirectory
from quorate.console.main import main
from quorate.core.clock import SystemClock
from quorate.core.ids import BrokerId, LeaderEpoch, PartitionId, TopicId, TopicName
from quorate.core.os_disk import OsDisk
from quorate.core.records import Compression, Record, encode_batch
from quorate.storage import LogConfig, LogContext, OpenFiles, PartitionKey

KEY = PartitionKey(TopicName("orders"), PartitionId(0), TopicId("x" * 22))


def _fatal(reason: str) -> NoReturn:
    raise AssertionError(reason)


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Two batches of a topic, closed cleanly."""

    async def write() -> None:
        disk = OsDisk()
        context = LogContext(disk, SystemClock(), OpenFiles(disk, files_max=10), _fatal)
        directory = await BrokerDirectory.open(
            context, str(tmp_path), node_id=BrokerId(1), cluster_id=None, random_bytes=os.urandom
        )
        log = await directory.logs.create(KEY, LogConfig())
        log.become_leader(LeaderEpoch(3))
        first = Record(0, 1_700_000_000_000, b"k", b"v", (("h", b"\xff"), ("n", None)))
        log.append_as_leader(encode_batch([first]), leader_epoch=LeaderEpoch(3))
        plain = [Record(0, -1, None, None), Record(0, 5, None, b"x" * 100)]
        batch = encode_batch(plain, compression=Compression.ZSTD)
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(3))
        assert await directory.logs.close()
        disk.close()

    asyncio.run(write())
    return tmp_path / KEY.directory_name / "00000000000000000000.log"


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    assert main([*arguments, "--output", "json"]) == status
    return json.loads(capsys.readouterr().out)


def test_dump_prints_a_line_for_each_batch(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", str(segment)]) == 0
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split()[0] == "POSITION"
    assert first.split() == [
        "0",
        "0..0",
        "1",
        first.split()[3],
        "3",
        "none",
        "2023-11-14T22:13:20.000Z",
        "-",
        "-",
    ]
    assert second.split()[1:3] == ["1..2", "2"]
    assert "zstd" in second


def test_dump_prints_records_where_asked(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", str(segment), "--records"]) == 0
    out = capsys.readouterr().out
    assert "key=b'k' value=b'v' h=b'\\xff' n=None" in out
    assert "key=None value=None" in out


def test_dump_as_json_is_one_document(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = run_json(capsys, "log", "dump", str(segment), "--records")
    assert document["file"] == str(segment)
    first, second = document["batches"]
    assert (first["base_offset"], first["leader_epoch"], first["problem"]) == (0, 3, None)
    assert second["compression"] == "zstd"
    [record] = first["records"]
    assert (record["key"], record["value"], record["timestamp"]) == ("k", "v", 1_700_000_000_000)
    assert record["headers"] == [
        {"key": "h", "value": "/w==", "value_encoding": "base64"},
        {"key": "n", "value": None, "value_encoding": None},
    ]


def test_dump_of_an_empty_segment_is_an_empty_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "00000000000000000000.log"
    file.touch()
    assert run_json(capsys, "log", "dump", str(file))["batches"] == []


def test_dump_marks_a_damaged_batch_and_exits_with_1(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = bytearray(segment.read_bytes())
    content[65] ^= 1
    segment.write_bytes(content)
    document = run_json(capsys, "log", "dump", str(segment), status=1)
    assert document["batches"][0]["problem"]
    assert document["batches"][1]["problem"] is None


def test_dump_of_what_is_no_segment_asks_whether_it_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a batch " * 10)
    assert main(["log", "dump", str(file)]) == 1
    assert "is this a segment file?" in capsys.readouterr().err


def test_dump_of_what_is_not_there_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path / "absent.log", tmp_path):
        assert main(["log", "dump", str(path)]) == 1
        printed, told = capsys.readouterr()
        assert printed == ""
        assert f"error: STORAGE_FAILED: cannot read {path}: " in told
        assert "restart" not in told


def test_verify_names_the_file_that_cannot_be_read(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = segment.parent / "leader-epoch-checkpoint"
    checkpoint.unlink(missing_ok=True)
    checkpoint.mkdir()
    assert main(["log", "verify", str(segment.parent)]) == 1
    told = capsys.readouterr().err
    assert f"error: STORAGE_FAILED: cannot read {checkpoint}: " in told
    assert "restart" not in told


def test_dump_and_verify_open_files_for_reading_only(segment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    real_open = os.open

    def watched_open(path: str, flags: int, *more: int) -> int:
        opened.append(flags & os.O_ACCMODE)
        return real_open(path, flags, *more)

    monkeypatch.setattr(os, "open", watched_open)
    assert main(["log", "dump", str(segment)]) == 0
    assert main(["log", "verify", str(segment.parent)]) == 0
    assert set(opened) == {os.O_RDONLY}


@pytest.mark.parametrize("of_one_partition", [True, False])
def test_verify_finds_a_sound_log_sound(
    segment: Path, capsys: pytest.CaptureFixture[str], of_one_partition: bool
) -> None:
    directory = segment.parent if of_one_partition else segment.parent.parent
    document = run_json(capsys, "log", "verify", str(directory))
    assert document["damaged"] is False
    [log] = document["logs"]
    assert (log["batches"], log["records"], log["log_end_offset"]) == (2, 3, 3)
    assert log["problems"] == []
    assert main(["log", "verify", str(directory)]) == 0
    assert "sound" in capsys.readouterr().out


def test_verify_names_file_and_place_of_damage_and_exits_with_1(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    document = run_json(capsys, "log", "verify", str(segment.parent), status=1)
    assert document["damaged"] is True
    [problem] = document["logs"][0]["problems"]
    assert (problem["kind"], problem["path"], problem["offset"]) == ("damage", str(segment), 1)
    assert main(["log", "verify", str(segment.parent)]) == 1
    assert f"damage: {segment}" in capsys.readouterr().out


def test_verify_of_a_directory_that_is_none_of_ours_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", "verify", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert "error: INVALID_REQUEST" in told
    assert "a quorum's journal is checked when its controller starts" in told


def test_verify_that_finds_no_log_does_not_call_it_sound(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(segment.parent)
    data_dir = segment.parent.parent
    assert main(["log", "verify", str(data_dir)]) == 1
    assert capsys.readouterr().err.startswith(f"no partition logs in {data_dir}; ")


def test_tables_are_not_folded_where_nobody_looks(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not sys.stdout.isatty()
    assert main(["log", "verify", str(segment.parent)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
