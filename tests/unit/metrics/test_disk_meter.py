"""How much room is left is told of every volume that a node stands on, and of each once."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from quorate.chaos.sim.disk import SimDisk
from quorate.chaos.sim.disk_faults import fail_path
from quorate.core.disk import Disk
from quorate.core.os_disk import OsDisk
from quorate.node.metrics.disk import FREE, DiskMeter

DATA = "/data"
METADATA = "/data/quorum"


class TwoVolumes(SimDisk):
    """The metadata lie on a volume of their own."""

    def free_bytes(self, path: str) -> int:
        room = super().free_bytes(path)
        return 1_000 if path == METADATA else room

    def file_system_id(self, path: str) -> str:
        return super().file_system_id(path) + (" of the metadata" if path == METADATA else "")


def room_left(disk: Disk, data_dir: str = DATA) -> dict[tuple[str, ...], float]:
    meter = DiskMeter(data_dir)
    meter.attach(disk)
    [reading] = [each for each in meter.read() if each.metric is FREE]
    return {each.labels: each.value for each in reading.samples}


@pytest.fixture
def one() -> SimDisk:
    disk = SimDisk(capacity_bytes=5_000)
    disk.make_directory(METADATA)
    return disk


@pytest.fixture
def two() -> SimDisk:
    disk = TwoVolumes(capacity_bytes=5_000)
    disk.make_directory(METADATA)
    return disk


def test_room_of_one_volume_is_told_once_whatever_lies_on_it(one: SimDisk) -> None:
    """Told twice, an alert would be raised twice, and a sum be twice the room."""
    assert room_left(one) == {("data",): 5_000}


def test_room_of_the_metadata_is_told_where_it_is_another(two: SimDisk) -> None:
    assert room_left(two) == {("data",): 5_000, ("metadata",): 1_000}


def test_node_without_metadata_of_the_quorum_tells_of_its_data_alone(two: SimDisk) -> None:
    two.remove_directory(METADATA)
    assert room_left(two) == {("data",): 5_000}


def test_volume_that_cannot_say_hides_none_of_the_others(two: SimDisk) -> None:
    two.fault_hook = fail_path(METADATA, lambda: OSError(errno.EIO, "broken"))
    assert room_left(two) == {("data",): 5_000}


def test_directory_that_is_not_there_yet_is_no_room_of_zero() -> None:
    assert room_left(SimDisk()) == {}


def test_volumes_of_a_real_machine_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "quorum").mkdir()
    assert room_left(OsDisk(), str(tmp_path)).keys() == {("data",)}
    (tmp_path / "quorum").rmdir()
    # Another file system that everybody has; nothing fits on it.
    (tmp_path / "quorum").symlink_to("/proc")
    found = room_left(OsDisk(), str(tmp_path))
    assert found.keys() == {("data",), ("metadata",)}
    assert found["data",] > found["metadata",] == 0
