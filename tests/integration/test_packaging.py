"""What users install: built as they would build it, put into an environment with nothing else in it.

Everything starts from the source distribution, so a file missing there is noticed as well. Building
uses the tools of the development environment instead of fetching them again; everything else is as a user
does it.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

# One worker for all: what they share takes seconds to make.
pytestmark = pytest.mark.xdist_group("packaging")


class Installation:
    """An environment that holds one wheel of quorate and what it depends on."""

    def __init__(self, directory: Path) -> None:
        venv.create(directory, symlinks=True, with_pip=False)
        self._bin = directory / "bin"

    def install(self, wheel: Path) -> None:
        pip = [sys.executable, "-m", "pip", "--python", str(self._bin / "python"), "--quiet", "--no-input"]
        constraints = ["--constraint", str(ROOT / "constraints.txt")]
        # pip keeps an installed package of the same version; two wheels here have the same.
        succeed([*pip, "uninstall", "--yes", "quorate"])
        succeed([*pip, "install", "--no-compile", *constraints, str(wheel)])

    def run(self, program: str, *arguments: str) -> str:
        # Away from the source tree, which must not help.
        return succeed([str(self._bin / program), *arguments], cwd=self._bin)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packaging")


@pytest.fixture(scope="module")
def source_distribution(directory: Path) -> Path:
    return build("sdist", source=ROOT, output=directory)


@pytest.fixture(scope="module")
def source(source_distribution: Path, directory: Path) -> Path:
    """The unpacked source distribution."""
    succeed(["tar", "-xf", str(source_distribution)], cwd=directory)
    return directory / f"quorate-{VERSION}"


@pytest.fixture(scope="module")
def pure_wheel(source: Path, directory: Path) -> Path:
    return build("wheel", source=source, output=directory / "pure", codec="off")


@pytest.fixture(scope="module")
def compiled_wheel(source: Path, directory: Path) -> Path:
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler here, so only the pure wheel can be built")
    return build("wheel", source=source, output=directory / "compiled", codec="require")


@pytest.fixture(scope="module")
def installation(directory: Path) -> Installation:
    return Installation(directory / "environment")


def build(target: str, *, source: Path, output: Path, codec: str = "off") -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(output)]
    succeed(command, cwd=source, env={**os.environ, "QUORATE_BUILD_CODEC": codec})
    (built,) = output.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


def succeed(command: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    finished = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, f"{' '.join(command)}\n{finished.stdout}{finished.stderr}"
    return finished.stdout


def files_of(wheel: Path) -> set[str]:
    """Paths in the wheel, without its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def sources_in_tree(pattern: str) -> set[str]:
    """Paths below their source root, as the wheel should have them."""
    paths = (path.relative_to(ROOT) for path in ROOT.glob(f"*/quorate/**/{pattern}"))
    return {Path(*path.parts[1:]).as_posix() for path in paths}


def module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def assert_installed_package_works(installation: Installation, wheel: Path, *, codec: str) -> None:
    installation.install(wheel)
    modules = sorted(module_name(path) for path in files_of(wheel) if path.endswith(".py"))
    modules = [name for name in modules if not name.endswith(".__main__")]
    program = wheel.with_name("import_every_module.py")
    program.write_text("".join(f"import {name}\n" for name in modules))
    installation.run("python", "-I", "-W", "error", str(program))
    said = installation.run("quorate", "--version")
    assert VERSION in said
    assert platform.python_version() in said
    assert codec in said


def test_pure_wheel_fits_every_platform(pure_wheel: Path) -> None:
    assert pure_wheel.name == f"quorate-{VERSION}-py3-none-any.whl"
    assert not any(name.endswith(".so") for name in files_of(pure_wheel))


def test_compiled_wheel_is_for_this_platform_and_holds_the_codec(compiled_wheel: Path) -> None:
    assert "none-any" not in compiled_wheel.name
    assert [name for name in files_of(compiled_wheel) if name.endswith(".so")] != []


def test_wheel_holds_all_modules_and_type_markers_and_nothing_beside_the_package(pure_wheel: Path) -> None:
    held = files_of(pure_wheel)
    assert sources_in_tree("*.py") | sources_in_tree("py.typed") <= held
    assert {name.split("/")[0] for name in held} == {"quorate"}
    assert "quorate/__init__.py" not in held
    packages = {"/".join(name.split("/")[:2]) for name in held if name.count("/") > 1}
    assert {f"{package}/py.typed" for package in packages} <= held


def test_source_distribution_holds_what_a_developer_needs(source: Path) -> None:
    for name in (
        "LICENSE",
        "Makefile",
        "constraints.txt",
        "build_codec.py",
        "tests/conftest.py",
        "tools/check.py",
    ):
        assert (source / name).is_file(), name
    assert not (source / ".venv").exists()


def test_compiled_wheel_works_in_an_empty_environment(
    installation: Installation, compiled_wheel: Path
) -> None:
    assert_installed_package_works(installation, compiled_wheel, codec="compiled")


def test_pure_wheel_works_in_an_empty_environment(installation: Installation, pure_wheel: Path) -> None:
    assert_installed_package_works(installation, pure_wheel, codec="pure")


def test_development_environment_runs_the_source_tree() -> None:
    origin = distribution("quorate").read_text("direct_url.json")
    assert origin is not None
    assert json.loads(origin)["dir_info"] == {"editable": True}
    assert json.loads(origin)["url"] == ROOT.as_uri()
