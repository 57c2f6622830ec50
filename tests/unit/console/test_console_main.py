"""Exit statuses, error texts, global options."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import IO

import click
import pytest

from quorate.console.advice import describe
from quorate.console.command_line import cli
from quorate.console.connecting import Clients, with_clients
from quorate.console.main import main
from quorate.console.session import QuorateCommand, Session, pass_session
from quorate.core.config import NodeConfig
from quorate.core.records import CODEC
from quorate.errors import ERRORS_BY_CODE, DiskFull, QuorateError, StorageFailed
from quorate.node import process


def failing_command(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command(cls=QuorateCommand)
    def fail() -> None:
        raise error

    monkeypatch.setitem(cli.commands, "fail", fail)


def test_version_names_version_python_and_codec(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    line = capsys.readouterr().out
    assert line.startswith("quorate ")
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in line
    assert line.rstrip().endswith(f"codec {CODEC}")


def test_version_needs_neither_grpc_nor_rich() -> None:
    code = (
        "import sys; from quorate.console.main import main; status = main(['--version']); "
        "heavy = {'grpc', 'rich', 'google.protobuf', 'structlog', 'asyncio', 'quorate.node', "
        "'quorate.storage', 'quorate.client'} & sys.modules.keys(); "
        "assert not heavy, heavy; sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_error_is_told_by_code_and_advice_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_command(DiskFull("no room for 5 bytes"), monkeypatch)
    assert main(["fail"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    first, second = captured.err.splitlines()
    assert first == "error: DISK_FULL: no room for 5 bytes"
    assert second.startswith("  what to do: free some space")


#: code -> why the command line has nothing to advise
WITHOUT_ADVICE = {
    "QUORATE_ERROR": "only its children are raised",
    "CLIENT_ERROR": "only its children are raised",
    "CONTROLLER_ERROR": "only its children are raised",
    "GROUP_ERROR": "only its children are raised",
    "PRODUCER_ERROR": "only its children are raised",
    "STORAGE_ERROR": "only its children are raised",
    "CLIENT_CLOSED": "the command line does not use what it has closed",
    "MISSING_EXTRA": "its message says what to install",
    "OUT_OF_ORDER_SEQUENCE_NUMBER": "produce is not idempotent",
    "DUPLICATE_SEQUENCE_NUMBER": "produce is not idempotent",
    "UNKNOWN_PRODUCER_ID": "produce is not idempotent",
    "INVALID_PRODUCER_EPOCH": "produce is not idempotent",
}


@pytest.mark.parametrize("kind", ERRORS_BY_CODE.values(), ids=lambda kind: kind.code)
def test_every_error_has_a_description(kind: type[QuorateError]) -> None:
    text = describe(kind("what happened"))
    assert text.startswith(f"error: {kind.code}: what happened")
    assert ("what to do" in text) == (kind.code not in WITHOUT_ADVICE)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_interruption_exits_with_130(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_command(error, monkeypatch)
    assert main(["fail"]) == 130


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["topic", "create"],
        ["topic", "list", "--output", "xml"],
        ["topic", "list", "--bootstrap", "127.0.0.1"],
        ["consume", "t", "--max", "0"],
        ["produce", "t", "--key-separator", ""],
        ["node", "run", "--set", "node.id"],
        ["node", "run", "--set", "=1"],
        ["node", "run", "--config", "/absent/node.toml"],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "Usage:" in capsys.readouterr().err


HUGE = "99999999999999999999"


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "create", "t", "--partitions", HUGE],
        ["topic", "create", "t", "--replication-factor", HUGE],
        ["topic", "create", "t", "--assignment", f"1:{HUGE}"],
        ["topic", "create", "t", "--assignment", "1:" + "9" * 5_000],
        ["topic", "alter", "t", "--partitions", HUGE],
        ["broker", "drain", HUGE],
        ["broker", "safe-to-restart", HUGE],
        ["broker", "decommission", HUGE],
        ["partition", "reassign", "--topic", "t", "--partition", HUGE, "--replicas", "1,2"],
        ["partition", "reassign", "--topic", "t", "--partition", "0", "--replicas", f"1,{HUGE}"],
        ["partition", "elect", f"t:{HUGE}"],
        ["partition", "recover", f"t:{HUGE}", "--yes"],
        ["partition", "recover", "t:0", "--leader", HUGE, "--yes"],
        ["bench", "produce", "--partitions", HUGE],
        ["bench", "produce", "--replication-factor", HUGE],
        ["cluster", "transfer-controller", HUGE],
        ["cluster", "add-voter", HUGE, "127.0.0.1:1"],
        ["cluster", "remove-voter", HUGE],
        ["cluster", "raise-feature-level", HUGE],
        ["consume", "t", "--partition", HUGE],
        ["consume", "t", "--from", "9" * 5_000],
        ["consume", "t", "--from", "0001-01-01T00:00:00"],
        ["produce", "t", "--partition", HUGE],
    ],
    ids=lambda arguments: " ".join(arguments)[:60],
)
def test_number_that_no_request_can_hold_is_wrong_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--bootstrap", "127.0.0.1:1", *arguments]) == 2
    assert "Invalid value" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["nan", "inf"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["produce", "t", "--timeout"],
        ["broker", "drain", "1", "--timeout"],
        ["bench", "produce", "--linger-ms"],
        ["bench", "latency", "--rate"],
        ["bench", "failover", "--seconds"],
        ["drill", "run", "leader-kill", "--rate"],
        ["drill", "run", "leader-kill", "--minutes"],
        ["sim", "run", "--seed-seconds-max"],
        ["sim", "run", "--shrink-seconds-max"],
    ],
    ids=" ".join,
)
def test_number_that_cannot_be_computed_with_is_wrong_usage(
    arguments: list[str], number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, number]) == 2
    assert f"{number} is not a finite number" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bootstrap", "\udcff:1", "topic", "list"],
        ["topic", "list", "--bootstrap", "\udcff:1"],
        ["topic", "create", "\udcff"],
        ["topic", "describe", "\udcff"],
        ["topic", "alter", "t", "--config", "retention.ms=\udcff"],
        ["produce", "\udcff"],
        ["produce", "t", "--key-separator", "\udcff"],
        ["consume", "\udcff"],
        ["partition", "elect", "\udcff:0"],
        ["up", "--set", "num.partitions=\udcff"],
    ],
)
def test_argument_that_is_not_utf8_is_wrong_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "is not UTF-8" in capsys.readouterr().err


def test_path_need_not_be_utf8(tmp_path: Path) -> None:
    directory = tmp_path / "\udcff"
    directory.mkdir()
    (directory / "00000000000000000000.log").touch()
    assert run_as_process("log", "verify", str(directory), stdout=subprocess.DEVNULL) == (0, "")


def test_mistake_of_ours_is_told_as_one_and_says_how_to_see_its_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QUORATE_TRACEBACK", raising=False)
    failing_command(ZeroDivisionError("by\nzero"), monkeypatch)
    assert main(["fail"]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first == "error: INTERNAL: ZeroDivisionError: by zero"
    assert "QUORATE_TRACEBACK=1" in second
    assert main(["fail", "--output", "json"]) == 1
    told = json.loads(capsys.readouterr().err)["error"]
    assert (told["code"], told["message"]) == ("INTERNAL", "ZeroDivisionError: by zero")


def test_whoever_asks_for_the_traceback_of_a_mistake_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUORATE_TRACEBACK", "1")
    failing_command(ZeroDivisionError(), monkeypatch)
    with pytest.raises(ZeroDivisionError):
        main(["fail"])


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        (["show"], {}, ("127.0.0.1:9092", "table", False)),
        (["--bootstrap", "a:1", "--output", "json", "--quiet", "show"], {}, ("a:1", "json", True)),
        (["show", "--bootstrap", "a:1", "--output", "json", "--quiet"], {}, ("a:1", "json", True)),
        (["--bootstrap", "a:1", "show", "--bootstrap", "b:2"], {}, ("b:2", "table", False)),
        (["show"], {"QUORATE_BOOTSTRAP": "c:3"}, ("c:3", "table", False)),
        (["--bootstrap", "a:1", "show"], {"QUORATE_BOOTSTRAP": "c:3"}, ("a:1", "table", False)),
        (["show", "--bootstrap", "b:2"], {"QUORATE_BOOTSTRAP": "c:3"}, ("b:2", "table", False)),
    ],
)
def test_global_options_stand_before_or_after_the_command(
    arguments: list[str],
    environment: dict[str, str],
    expected: tuple[str, str, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []

    @click.command(cls=QuorateCommand)
    @pass_session
    def show(session: Session) -> None:
        seen.append((session.bootstrap, session.output, session.quiet))

    monkeypatch.setitem(cli.commands, "show", show)
    monkeypatch.delenv("QUORATE_BOOTSTRAP", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(arguments) == 0
    assert seen == [expected]


def test_bootstrap_that_is_no_address_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bootstrap", "nonsense", "topic", "list"]) == 2
    assert "bootstrap: 'nonsense' is not HOST:PORT" in capsys.readouterr().err


def test_nobody_at_the_address_is_told_with_what_to_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--bootstrap", "127.0.0.1:1", "topic", "list"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: UNAVAILABLE:")
    assert "--bootstrap" in error


def test_configuration_of_a_node_is_checked_before_it_starts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "node.toml"
    file.write_text("node.id = 1\ndata.dirr = '/tmp/x'\n")
    assert main(["node", "run", "--config", str(file)]) == 1
    error = capsys.readouterr().err
    assert f"{file}:2: unknown key data.dirr; did you mean data.dir?" in error


def test_wait_that_took_too_long_is_not_taken_for_trouble_with_the_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_command(TimeoutError("not delivered within 30 s"), monkeypatch)
    assert main(["fail"]) == 1
    assert "REQUEST_TIMED_OUT: not delivered within 30 s" in capsys.readouterr().err


def run_as_process(*arguments: str, stdout: int | IO[bytes]) -> tuple[int, str]:
    command = [sys.executable, "-m", "quorate.console.main", *arguments]
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]])
def test_output_that_cannot_be_written_is_told_without_a_traceback(arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        status, told = run_as_process(*arguments, stdout=full)
    assert status == 1
    assert told.startswith(
        "error: CANNOT_WRITE_OUTPUT: standard output: No space left on device\n  what to do: "
    )
    assert "may end in the middle of a line: append nothing to it" in told


@pytest.mark.parametrize(
    "arguments", [["--help"], ["log", "dump", "{file}"], ["log", "verify", "{file.parent}"]]
)
def test_reader_that_has_seen_enough_is_no_error(tmp_path: Path, arguments: list[str]) -> None:
    file = tmp_path / "00000000000000000000.log"
    file.touch()
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert run_as_process(*(each.format(file=file) for each in arguments), stdout=writer) == (0, "")
    finally:
        os.close(writer)


def test_file_that_is_opened_never_takes_the_place_of_a_stream_that_was_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node's log would be written into it."""
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert main(["--version"]) == 0
    for stream in (sys.stdout, sys.stderr):
        assert stream.name == os.devnull
        stream.close()


def test_interruption_while_modules_are_imported_exits_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_name: str) -> object:
        raise KeyboardInterrupt

    module = ModuleType("quorate.console.command_line")
    monkeypatch.setattr(module, "__getattr__", interrupted, raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert main(["--version"]) == 130


def test_data_directory_that_cannot_be_used_is_told_with_what_to_check(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_config: NodeConfig) -> int:
        raise StorageFailed("it is used by another process")

    monkeypatch.setattr(process, "run_node", refuse)
    assert main(["node", "run", "--set", "node.id=1", "--set", f"data.dir={tmp_path}"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: STORAGE_FAILED: it is used by another process\n")
    assert "no other node uses it" in told


def test_interruption_in_the_middle_of_a_task_leaves_no_trace(caplog: pytest.LogCaptureFixture) -> None:
    async def work(_clients: Clients) -> None:
        async def be_interrupted() -> None:
            raise KeyboardInterrupt

        task = asyncio.create_task(be_interrupted())
        await asyncio.wait([task])

    with pytest.raises(KeyboardInterrupt):
        with_clients("127.0.0.1:1", work)
    gc.collect()
    assert caplog.records == []
