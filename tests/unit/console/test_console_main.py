"""Exit statuses, error texts, global options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from quorate.console import main as console_main
from quorate.console.advice import describe
from quorate.console.main import cli, main
from quorate.console.session import QuorateCommand, Session, pass_session
from quorate.core.records import CODEC
from quorate.errors import ERRORS_BY_CODE, DiskFull, InvalidConfig, QuorateError, Unavailable


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
        "heavy = {'grpc', 'rich', 'google.protobuf', 'structlog', 'asyncio'} & sys.modules.keys(); "
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


@pytest.mark.parametrize("kind", ERRORS_BY_CODE.values(), ids=lambda kind: kind.code)
def test_every_error_has_a_description(kind: type[QuorateError]) -> None:
    text = describe(kind("what happened"))
    assert text.startswith(f"error: {kind.code}: what happened")
    if kind.retriable:
        assert "what to do" in text


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_interruption_exits_with_130(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_command(error, monkeypatch)
    assert main(["fail"]) == 130


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["topic", "create"], ["topic", "list", "--output", "xml"], ["consume", "t", "--max", "0"]],
)
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "Usage:" in capsys.readouterr().err


def test_bug_is_not_disguised_as_an_error_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert main(["--bootstrap", "nonsense", "topic", "list"]) == 1
    assert "INVALID_CONFIG: bootstrap: 'nonsense' is not HOST:PORT" in capsys.readouterr().err


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


def test_module_and_installed_script_are_the_same_program() -> None:
    assert console_main.main is main
    assert issubclass(InvalidConfig, QuorateError)
    assert Unavailable.retriable
