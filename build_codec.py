"""Builds the compiled record codec: as a hook of the wheel's build, and by hand while developing.

    python build_codec.py            build in place, unless what is there is up to date
    python build_codec.py --force    build in place

As a hook (pyproject.toml names it) it compiles for the wheel, or in place for an editable install.
Where that cannot be done, for want of a C compiler say, it warns and the wheel is pure Python: the
package works everywhere, slower. ``QUORATE_BUILD_CODEC`` decides otherwise: ``off`` does not try,
``require`` makes a failure fatal.

Generated C stays in a temporary directory. The compiler runs in a process of its own, so that
whatever goes wrong there has one shape here: an exit code and what it wrote.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
PACKAGE = "quorate.core.records"
SOURCE = ROOT / "core" / "quorate" / "core" / "records" / "_compiled.pyx"
FILE_NAME = f"_compiled{sysconfig.get_config_var('EXT_SUFFIX')}"
IN_PLACE = SOURCE.with_name(FILE_NAME)
SWITCH = "QUORATE_BUILD_CODEC"


class CodecNotBuilt(Exception):
    """The compiler, or Cython, could not do it; the message is what they said."""


class CodecBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # its configuration is of no interest
    """Hatchling calls `initialize` before it collects files, and `finalize` after the wheel is there."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        choice = os.environ.get(SWITCH, "auto")
        if choice not in ("auto", "off", "require"):
            raise ValueError(f"{SWITCH} is {choice!r}; known are auto, off and require")
        editable = version == "editable"
        if choice == "off":
            if editable:
                IN_PLACE.unlink(missing_ok=True)
            return
        try:
            if editable:
                build_in_place()
                return
            self._include(build_data)
        except CodecNotBuilt as error:
            if choice == "require":
                raise
            reason = str(error).splitlines()[-1]
            self.app.display_warning(f"The record codec stays pure Python, and slower: {reason}")

    def _include(self, build_data: dict[str, Any]) -> None:
        """Put a freshly built module into the wheel, which is for this interpreter and machine then."""
        self._output = tempfile.TemporaryDirectory(prefix="quorate-codec-")
        built = build(Path(self._output.name))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"][str(built)] = f"{PACKAGE.replace('.', '/')}/{FILE_NAME}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        del version, build_data, artifact_path
        if hasattr(self, "_output"):
            self._output.cleanup()


def build(output: Path) -> Path:
    """Compile into the directory `output`."""
    done = subprocess.run(  # noqa: S603  # this file, run by this interpreter
        [sys.executable, __file__, "--output", str(output)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CodecNotBuilt((done.stderr or done.stdout).strip() or f"exit code {done.returncode}")
    return output / FILE_NAME


def build_in_place(*, force: bool = False) -> bool:
    """Compile next to the source if that is newer; whether anything was done."""
    if not force and is_up_to_date():
        return False
    fresh = IN_PLACE.with_suffix(".new")
    with tempfile.TemporaryDirectory(prefix="quorate-codec-") as output:
        try:
            shutil.copy(build(Path(output)), fresh)
        except CodecNotBuilt:
            # The old module must not go on to stand for a new source.
            IN_PLACE.unlink(missing_ok=True)
            raise
    fresh.replace(IN_PLACE)  # whoever imports it meanwhile gets the old one or the new one, whole
    return True


def is_up_to_date() -> bool:
    if not IN_PLACE.exists():
        return False
    sources = [Path(__file__), SOURCE, *SOURCE.parent.glob("_cython/*.pxi")]
    return IN_PLACE.stat().st_mtime > max(source.stat().st_mtime for source in sources)


def compile_module(output: Path) -> None:
    """What runs in the compiler's process: Cython to C, C to a module in `output`."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension  # type: ignore[import-untyped]  # no types

    with tempfile.TemporaryDirectory(prefix="quorate-codec-") as scratch:
        flags = [] if sys.platform == "win32" else ["-O3", "-g0"]
        extension = Extension(f"{PACKAGE}._compiled", [str(SOURCE)], extra_compile_args=flags)
        generated = cythonize([extension], build_dir=scratch, quiet=True)  # type: ignore[no-untyped-call]  # nor here
        command = Distribution({"ext_modules": generated}).get_command_obj("build_ext")
        command.build_lib = command.build_temp = scratch
        command.ensure_finalized()
        command.run()
        shutil.copy(command.get_outputs()[0], output / FILE_NAME)


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the compiled record codec in place.")
    parser.add_argument("--force", action="store_true", help="even if it is up to date")
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.output is not None:
        compile_module(arguments.output)
        return
    try:
        done = build_in_place(force=arguments.force)
    except CodecNotBuilt as error:
        sys.exit(f"The codec was not built; the pure Python one is used.\n{error}")
    if done:
        sys.stdout.write(f"{IN_PLACE.relative_to(ROOT)}: built\n")


if __name__ == "__main__":
    main()
