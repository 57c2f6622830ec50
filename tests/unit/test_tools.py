"""The repository's own scripts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import check, generate_protos, set_up

PYPROJECT = """
[build-system]
requires = []
[project]
dependencies = ["one"]
[tool.hatch]
[tool.ruff]
line-length = 110
"""


def test_make_alone_lists_every_target_that_says_what_it_does() -> None:
    root = Path(__file__).parents[2]
    text = (root / "Makefile").read_text()
    described = re.findall(r"^([^\s:]+):.*? ## ", text, re.MULTILINE)
    run = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=root, capture_output=True, text=True, check=True
    )
    assert [line.split()[1] for line in run.stdout.splitlines()] == described
    assert "k8s-test" in described


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project that asks for something, without an environment."""
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "constraints.txt").write_text("one==1\n")
    return tmp_path


@pytest.fixture
def commands(tree: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that set-up takes; nothing is really installed, but .venv appears."""
    recorded: list[str] = []

    def run(command: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
        step = "create" if "venv" in command else "install"
        recorded.append(step)
        if step == "create":
            pretend_environment(tree)

    monkeypatch.setattr(set_up, "run", run)
    return recorded


def pretend_environment(tree: Path) -> None:
    """A .venv whose python claims to succeed at everything."""
    (tree / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
    (tree / ".venv" / ".set-up-unfinished").unlink(missing_ok=True)
    python = tree / ".venv" / "bin" / "python"
    python.write_text("#!/bin/sh\nexit 0\n")
    python.chmod(0o755)


def test_set_up_from_nothing_creates_and_installs_once(tree: Path, commands: list[str]) -> None:
    environment = set_up.Environment(tree)
    assert not environment.is_current()
    environment.install()
    assert commands == ["create", "install"]
    assert environment.is_current()


def test_set_up_after_a_new_requirement_keeps_the_environment(tree: Path, commands: list[str]) -> None:
    environment = set_up.Environment(tree)
    environment.install()
    (tree / "constraints.txt").write_text("one==2\n")
    assert not environment.is_current()
    environment.install()
    assert commands == ["create", "install", "install"]


def test_set_up_that_did_not_finish_is_started_from_nothing(
    tree: Path, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise set_up.SetUpFailed("no network")

    environment = set_up.Environment(tree)
    pretend_environment(tree)
    with monkeypatch.context() as broken:
        broken.setattr(set_up, "run", fail)
        with pytest.raises(set_up.SetUpFailed):
            environment.install()
    assert not environment.is_current()
    environment.install()
    assert commands == ["create", "install"]
    assert environment.is_current()


def test_environment_without_a_working_python_is_not_used(tree: Path, commands: list[str]) -> None:
    environment = set_up.Environment(tree)
    environment.install()
    python = tree / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("gone")
    assert not environment.is_current()


def test_environment_copied_with_its_tree_is_made_anew(
    tree: Path, commands: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    set_up.Environment(tree).install()
    elsewhere = set_up.Environment(tree.rename(tmp_path_factory.mktemp("other") / "tree"))
    assert not elsewhere.is_current()
    elsewhere.install()
    assert commands == ["create", "install"] * 2


def test_settings_of_a_linter_do_not_ask_for_set_up(tree: Path) -> None:
    before = set_up.fingerprint(tree)
    (tree / "pyproject.toml").write_text(PYPROJECT.replace("110", "100"))
    assert set_up.fingerprint(tree) == before
    (tree / "pyproject.toml").write_text(PYPROJECT.replace("one", "two"))
    assert set_up.fingerprint(tree) != before


def test_set_up_shows_what_a_failed_command_said() -> None:
    with pytest.raises(set_up.SetUpFailed, match="what went wrong"):
        set_up.run([sys.executable, "-c", "import sys; sys.exit('what went wrong')"])


def test_check_names_what_failed_and_the_command_that_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    good = check.Part("good", "good things", (sys.executable, "-c", ""))
    bad = check.Part("bad", "bad things", (sys.executable, "-c", "import sys; sys.exit('the reason')"))
    outcomes = check.run_all([good, bad])
    assert check.conclude(outcomes, seconds=1.0) == 1
    said = capsys.readouterr().out
    assert "the reason" in said
    assert f"to see this again: {' '.join(bad.command)}" in said
    assert said.endswith("check failed: bad things (1 s of 60 s)\n")


def test_check_over_its_budget_says_so_and_fails_at_twice_as_much(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = check.Outcome(check.PARTS[0], passed=True, output="", seconds=0.0)
    assert check.conclude([outcome], seconds=check.BUDGET_SECONDS) == 0
    assert "over its budget" not in capsys.readouterr().out
    assert check.conclude([outcome], seconds=check.BUDGET_SECONDS + 1) == 0
    assert "over its budget" in capsys.readouterr().out
    assert check.conclude([outcome], seconds=2 * check.BUDGET_SECONDS + 1) == 1
    assert "check failed: every part passed, but over its budget" in capsys.readouterr().out


def test_check_refuses_a_part_that_does_not_exist() -> None:
    with pytest.raises(SystemExit, match="2"):
        check.main(["tpyes"])


def test_stubs_that_differ_are_missing_or_left_over_are_all_found() -> None:
    expected = {Path("same"): b"1", Path("changed"): b"2", Path("missing"): b"3"}
    present = {Path("same"): b"1", Path("changed"): b"-", Path("left over"): b"4"}
    assert generate_protos.differences(expected, present) == [
        Path("changed"),
        Path("left over"),
        Path("missing"),
    ]


def test_writing_stubs_makes_the_folder_equal_to_what_was_generated(tmp_path: Path) -> None:
    (tmp_path / "old_pb2.py").write_bytes(b"old")
    (tmp_path / "kept_pb2.pyi").write_bytes(b"wrong")
    (tmp_path / "kept.proto").write_bytes(b"source")
    expected = {Path("kept_pb2.pyi"): b"right", Path("new_pb2_grpc.py"): b"new"}
    outdated = generate_protos.differences(expected, generate_protos.stubs(tmp_path))
    generate_protos.write(expected, tmp_path, outdated)
    assert generate_protos.stubs(tmp_path) == expected
    assert (tmp_path / "kept.proto").exists()


NO_TOOL = check.Part(
    "tool",
    "some tool",
    (sys.executable, "-c", f"print('skipped: no such tool'); raise SystemExit({check.SKIPPED})"),
)


@pytest.mark.parametrize("value", ["true", "1"])
def test_check_that_was_skipped_fails_where_nobody_reads_what_was_left_out(
    value: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", value)
    outcome = check.run(NO_TOOL)
    check.report(outcome)
    assert check.conclude([outcome], 1.0) == 1
    out = capsys.readouterr().out
    assert "FAILED" in out
    assert "skipped: no such tool" in out
    assert "check failed: some tool" in out


@pytest.mark.parametrize("value", [None, "", "false", "0"])
def test_check_that_was_skipped_passes_and_is_told_apart(
    value: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    if value is not None:
        monkeypatch.setenv("CI", value)
    outcome = check.run(NO_TOOL)
    check.report(outcome)
    assert check.conclude([outcome], 1.0) == 0
    out = capsys.readouterr().out
    assert "skipped: no such tool" in out
    assert "skipped: some tool" in out
