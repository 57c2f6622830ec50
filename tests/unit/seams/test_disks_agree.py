"""Whatever is done to them, the simulated disk and the real one answer the same."""

from __future__ import annotations

import errno
import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.chaos.sim.disk import SimDisk
from quorate.core.disk import Disk, File
from quorate.core.os_disk import OsDisk

paths = st.sampled_from(["a", "b", "d", "d/a", "d/e", "d/e/a"])
numbers = st.integers(0, 40)
contents = st.binary(max_size=20)
steps = st.one_of(
    st.tuples(st.just("open"), paths, st.booleans()),
    st.tuples(st.sampled_from(["pread", "truncate"]), numbers, numbers),
    st.tuples(st.just("pwrite"), contents, numbers),
    st.tuples(st.just("pwritev"), st.lists(contents, max_size=3), numbers),
    st.tuples(st.sampled_from(["file_size", "close"])),
    st.tuples(
        st.sampled_from(
            ["exists", "size", "list", "make_directory", "remove_directory", "unlink", "read_file"],
        ),
        paths,
    ),
    st.tuples(st.just("rename"), paths, paths),
)


class Driver:
    """Carries out steps on one disk; positions of file steps refer to the file opened last."""

    def __init__(self, disk: Disk, base: str) -> None:
        self.disk = disk
        self.base = base
        self.files: list[File] = []

    def outcome(self, name: str, *arguments: object) -> object:
        try:
            return self._do(name, arguments)
        except OSError as error:
            return errno.errorcode[error.errno or 0]

    def _do(self, name: str, arguments: tuple[object, ...]) -> object:
        if name == "open":
            path, create = arguments
            self.files.append(self.disk.open(f"{self.base}/{path}", create=bool(create)))
            return "opened"
        if name in ("pread", "truncate", "pwrite", "pwritev", "file_size", "close"):
            if not self.files:
                return "no file"
            method = getattr(self.files[-1], name.removeprefix("file_"))
            return method(*arguments[:1] if name == "truncate" else arguments)
        if name == "size" and self._is_directory(f"{self.base}/{arguments[0]}"):
            return "the size of a directory means nothing"
        return getattr(self.disk, name)(*(f"{self.base}/{path}" for path in arguments))

    def _is_directory(self, path: str) -> bool:
        try:
            self.disk.list(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def everything(self, path: str = "") -> object:
        try:
            names = self.disk.list(self.base + path)
        except NotADirectoryError:
            return self.disk.read_file(self.base + path)
        return {name: self.everything(f"{path}/{name}") for name in names}


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=25))
def test_same_steps_give_the_same_answers_and_content(script: list[tuple[object, ...]]) -> None:
    sim_disk = SimDisk()
    sim_disk.make_directory("/base")
    os_disk = OsDisk(sync_threads=1)
    with tempfile.TemporaryDirectory() as directory:
        sim, real = Driver(sim_disk, "/base"), Driver(os_disk, directory)
        for name, *arguments in script:
            assert sim.outcome(str(name), *arguments) == real.outcome(str(name), *arguments), (
                name,
                *arguments,
            )
        assert sim.everything() == real.everything()
        for file in [*sim.files, *real.files]:
            file.close()
        held = sum(len(content) for content in sim_disk.snapshot().files.values())
        assert sim_disk.used_bytes == held
    os_disk.close()
