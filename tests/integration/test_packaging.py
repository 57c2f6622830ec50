"""What users install: built as they would build it, put into an environment with nothing else in it.

Everything starts from the source distribution, so a file missing there is noticed as well. Building
uses the tools of the development environment instead of fetching them again; everything else is as a user
does it. The compiled wheel takes long to build, so one test has it to itself: two tests that shared it might
run in two processes, and build it twice.
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


#: pytest imports it, where there is one
_FOR_PYTEST_ALONE = "quorate.testing.pytest_plugin"
#: what is imported with an extra: `spark`, under the name by which Spark finds it too, and `otel`
_WITH_AN_EXTRA = ("quorate.pipeline", "pyspark_quorate", "quorate.client.tracing")


def modules_of(wheel: Path) -> list[str]:
    """Names to import; not ``__main__``, which would run something."""
    paths = {path.removesuffix(".py") for path in files_of(wheel) if path.endswith(".py")}
    names = {path.removesuffix("/__init__").replace("/", ".") for path in paths}
    names -= {_FOR_PYTEST_ALONE, *(name for name in names if name.startswith(_WITH_AN_EXTRA))}
    return sorted(name for name in names if not name.endswith(".__main__"))


def assert_works_in_an_empty_environment(wheel: Path, environment: Path, *, codec: str) -> None:
    venv.create(environment, symlinks=True, with_pip=False)
    python = str(environment / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "--quiet", "--no-input"]
    succeed([*pip, "install", "--no-compile", "--constraint", str(ROOT / "constraints.txt"), str(wheel)])
    program = environment / "import_every_module.py"
    program.write_text("".join(f"import {name}\n" for name in modules_of(wheel)))
    # Isolated, and away from the source tree, which must not help.
    succeed([python, "-I", "-W", "error", str(program)], cwd=environment)
    said = succeed([str(environment / "bin" / "quorate"), "--version"], cwd=environment)
    assert VERSION in said
    assert platform.python_version() in said
    assert codec in said


def test_pure_wheel_fits_every_platform(pure_wheel: Path) -> None:
    assert pure_wheel.name == f"quorate-{VERSION}-py3-none-any.whl"
    assert not any(name.endswith(".so") for name in files_of(pure_wheel))


def test_wheel_holds_all_modules_and_type_markers_and_nothing_beside_the_package(pure_wheel: Path) -> None:
    held = files_of(pure_wheel)
    assert sources_in_tree("*.py") | sources_in_tree("py.typed") <= held
    assert {name.split("/")[0] for name in held} == {"quorate", "pyspark_quorate"}
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


def test_compiled_wheel_is_for_this_platform_and_works_in_an_empty_environment(
    compiled_wheel: Path, tmp_path: Path
) -> None:
    assert "none-any" not in compiled_wheel.name
    assert any(name.endswith(".so") for name in files_of(compiled_wheel))
    assert_works_in_an_empty_environment(compiled_wheel, tmp_path, codec="compiled")


def test_pure_wheel_works_in_an_empty_environment(pure_wheel: Path, tmp_path: Path) -> None:
    assert_works_in_an_empty_environment(pure_wheel, tmp_path, codec="pure")


def test_development_environment_runs_the_source_tree() -> None:
    origin = distribution("quorate").read_text("direct_url.json")
    assert origin is not None
    assert json.loads(origin)["dir_info"] == {"editable": True}
    assert json.loads(origin)["url"] == ROOT.as_uri()
