"""Rules about the repository as a whole that no linter knows."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tools import check_namespace

ROOT = Path(__file__).parents[2]
ADR_DIRECTORY = ROOT / "docs" / "adr"
CODE_LINES_MAX = 600
CODE_SUFFIXES = {".py", ".pyi", ".pyx", ".proto"}

# Folders that exist on somebody's machine only, and addresses that packages were fetched from: both
# break for everyone else. Put together from pieces, so that this file keeps its own rule.
MACHINE_PATH = re.compile(r"(?<![\w./~-])/(?:" + "|".join(["home", "Users", "root", "work"]) + r")/\w")
PACKAGE_ADDRESS = re.compile(
    "|".join(
        ["--(?:extra-)?index" + "-url", "--find" + "-links", r"python" + r"hosted\.org", r"/simp" + "le/"]
    )
)


@cache
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@cache
def repository_files() -> list[Path]:
    """What is committed or about to be: everything that .gitignore does not leave out."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so there is no telling which files belong to the repository")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    paths = (ROOT / name for name in listed.split("\0") if name)
    return [path for path in paths if path.is_file()]


def requirements() -> set[str]:
    """Names of all packages that pyproject.toml asks for, to run, to develop or to build."""
    optional = project()["project"]["optional-dependencies"].values()
    texts = [
        *project()["project"]["dependencies"],
        *(text for group in optional for text in group),
        *project()["build-system"]["requires"],
    ]
    return {package_name(text) for text in texts} - {"quorate"}


def package_name(requirement: str) -> str:
    """``grpcio-tools`` for ``grpcio_Tools[extra] >= 1.70``."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def is_generated(path: Path) -> bool:
    return path.stem.endswith(("_pb2", "_pb2_grpc"))


def lines_matching(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for path in repository_files():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue  # no text
        name = path.relative_to(ROOT)
        found += [f"{name}:{number}: {line}" for number, line in enumerate(lines, 1) if pattern.search(line)]
    return found


def test_no_source_root_hides_the_namespace() -> None:
    assert check_namespace.stray_files(ROOT) == []


def test_a_stray_namespace_file_is_found(tmp_path: Path) -> None:
    stray = tmp_path / "core" / "quorate" / "__init__.py"
    stray.parent.mkdir(parents=True)
    stray.touch()
    assert check_namespace.stray_files(tmp_path) == [stray.relative_to(tmp_path)]


def test_no_file_names_a_folder_of_one_machine() -> None:
    assert lines_matching(MACHINE_PATH) == []


def test_no_file_names_an_address_that_packages_are_fetched_from() -> None:
    assert lines_matching(PACKAGE_ADDRESS) == []


def test_every_requirement_is_pinned() -> None:
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", pin) for pin in pins)
    pinned = {package_name(pin) for pin in pins}
    assert requirements() - pinned == set()


def test_every_requirement_has_its_reason_in_an_adr() -> None:
    text = "\n".join(path.read_text() for path in ADR_DIRECTORY.glob("[0-9]*.md")).lower()
    unexplained = {
        name for name in requirements() if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)
    }
    assert unexplained == set()


def test_the_index_of_adrs_lists_each_of_them() -> None:
    linked = set(re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (ADR_DIRECTORY / "README.md").read_text()))
    assert linked == {path.name for path in ADR_DIRECTORY.glob("[0-9]*.md")}


def test_every_source_root_is_built_and_checked() -> None:
    tools = project()["tool"]
    wheel = tools["hatch"]["build"]["targets"]["wheel"]
    roots = {path.parent.name for path in ROOT.glob("*/quorate")}
    assert roots == set(wheel["dev-mode-dirs"])
    # Beside them the name by which Spark finds the data source.
    packages = set(wheel["packages"]) - {"pipeline/pyspark_quorate"}
    assert roots == {package.removesuffix("/quorate") for package in packages}
    assert roots == set(tools["mypy"]["mypy_path"].split(":"))
    assert roots <= set(tools["mypy"]["files"])
    sdist = tools["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {f"/{root}" for root in roots} <= set(sdist)


def test_source_files_stay_short_enough_to_hold_one_concept() -> None:
    sources = [path for path in repository_files() if path.suffix in CODE_SUFFIXES and not is_generated(path)]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sources}
    assert {name: length for name, length in lengths.items() if length > CODE_LINES_MAX} == {}


def test_the_command_line_starts_without_loading_servers_or_grpc() -> None:
    program = "import quorate.console.command_line, sys; print('\\n'.join(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    heavy = {"grpc", "quorate.node", "quorate.storage", "quorate.chaos", "quorate.client"}
    assert heavy & set(loaded.split()) == set()
