"""Builds what is compiled: as a hook of the wheel's build, and by hand while developing.

    python build_codec.py            build in place whatever is not up to date
    python build_codec.py --force    build all of it in place

The record codec has a source of its own (``_compiled.pyx``). The hot path of the lean transport is compiled
from its Python modules, with the types that ``.pxd`` files beside them add; Python finds a compiled module
before its source.

As a hook (pyproject.toml names it) it compiles for the wheel, or in place for an editable install.
Where that cannot be done, for want of a C compiler say, it warns and the wheel is pure Python: the
package works everywhere, slower. ``QUORATE_BUILD_CODEC`` decides otherwise: ``off`` does not try,
``require`` makes a failure fatal.

Generated C stays in a temporary directory. The compiler runs in a process of its own, so that
whatever goes wrong there has one shape here: an exit code and what it wrote.

Compiled modules of the transport know the layout of each other's objects: all of them are there, or none.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
SUFFIX: Final = sysconfig.get_config_var("EXT_SUFFIX")
SWITCH: Final = "QUORATE_BUILD_CODEC"
#: compilers at once
JOBS: Final = 2


class Module(NamedTuple):
    """One that is compiled."""

    #: the folder that its packages begin in
    root: str
    name: str
    source_suffix: str
    #: beside its source: what else it is made of
    also_of: str
    optimization: str

    @property
    def file_name(self) -> str:
        return f"{self.name.replace('.', '/')}{SUFFIX}"

    @property
    def source(self) -> Path:
        return ROOT / self.root / f"{self.name.replace('.', '/')}{self.source_suffix}"

    @property
    def in_place(self) -> Path:
        return ROOT / self.root / self.file_name

    def is_up_to_date(self) -> bool:
        if not self.in_place.exists():
            return False
        sources = [Path(__file__), self.source, *self.source.parent.glob(self.also_of)]
        return self.in_place.stat().st_mtime > max(source.stat().st_mtime for source in sources)


CODEC: Final = Module("core", "quorate.core.records._compiled", ".pyx", "_cython/*.pxi", "-O3")
#: Calls between objects, which more optimization would make larger and no faster.
TRANSPORT: Final = [
    Module("rpc", f"quorate.rpc.lean.{name}", ".py", "*.pxd", "-O1")
    for name in (
        "messages",
        "connection",
        "stream",
        "incoming_data",
        "receiver",
        "link",
        "server_call",
        "streamed_requests",
        "exchange_call",
        "unary_call",
        "client_call",
        "client_exchange",
    )
]
MODULES: Final = [CODEC, *TRANSPORT]


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
                remove_all()
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
            self.app.display_warning(f"Everything stays pure Python, and slower: {reason}")

    def _include(self, build_data: dict[str, Any]) -> None:
        """Put freshly built modules into the wheel, which is for this interpreter and machine then."""
        self._output = tempfile.TemporaryDirectory(prefix="quorate-codec-")
        output = Path(self._output.name)
        build(MODULES, output)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for module in MODULES:
            build_data["force_include"][str(output / module.file_name)] = module.file_name

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        del version, build_data, artifact_path
        if hasattr(self, "_output"):
            self._output.cleanup()


def build(modules: list[Module], output: Path) -> None:
    """Compile into the directory `output`."""
    names = [module.name for module in modules]
    done = subprocess.run(  # noqa: S603  # this file, run by this interpreter
        [sys.executable, __file__, "--output", str(output), *names],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise CodecNotBuilt((done.stderr or done.stdout).strip() or f"exit code {done.returncode}")


def build_in_place(*, force: bool = False) -> list[Module]:
    """Compile next to the sources where these are newer; which ones."""
    late = [module for module in MODULES if force or not module.is_up_to_date()]
    if not late:
        return []
    began = time.time()
    with tempfile.TemporaryDirectory(prefix="quorate-codec-") as output:
        try:
            build(late, Path(output))
        except CodecNotBuilt:
            # The old modules must not go on to stand for new sources.
            remove_all()
            raise
        for module in late:
            fresh = module.in_place.with_suffix(".new")
            shutil.copy(Path(output) / module.file_name, fresh)
            # Who edits a source while it is compiled would else have a module that passes for newer.
            os.utime(fresh, (began, began))
            fresh.replace(module.in_place)  # whoever imports it meanwhile gets one of the two, whole
    return late


def remove_all() -> None:
    for module in MODULES:
        module.in_place.unlink(missing_ok=True)


def compile_modules(modules: list[Module], output: Path) -> None:
    """What runs in the compiler's process: Cython to C, C to modules in `output`."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension  # type: ignore[import-untyped]  # no types

    flagged = sys.platform != "win32"
    with tempfile.TemporaryDirectory(prefix="quorate-codec-") as scratch:
        extensions = [
            Extension(
                module.name,
                [str(module.source)],
                extra_compile_args=[module.optimization, "-g0"] if flagged else [],
            )
            for module in modules
        ]
        generated = cythonize(  # type: ignore[no-untyped-call]  # nor here
            extensions,
            include_path=sorted({str(ROOT / module.root) for module in modules}),
            build_dir=scratch,
            nthreads=JOBS,
            quiet=True,
            # Types are for mypy; those that count for C are in the .pxd files.
            compiler_directives={"annotation_typing": False, "language_level": 3},
        )
        command = Distribution({"ext_modules": generated}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(output), scratch
        command.parallel = JOBS
        command.ensure_finalized()
        command.run()


def main() -> None:
    parser = argparse.ArgumentParser(description="Build what is compiled, in place.")
    parser.add_argument("--force", action="store_true", help="even if it is up to date")
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.output is not None:
        compile_modules([module for module in MODULES if module.name in arguments.names], arguments.output)
        return
    try:
        done = build_in_place(force=arguments.force)
    except CodecNotBuilt as error:
        sys.exit(f"Nothing was compiled; pure Python is used.\n{error}")
    for module in done:
        sys.stdout.write(f"{module.in_place.relative_to(ROOT)}: built\n")


if __name__ == "__main__":
    main()
