"""A copy of a cluster's directory has no say over the nodes that run from the original."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from quorate.console.main import main
from quorate.errors import CannotListen, InvalidRequest
from quorate.node.cluster_file import ClusterFile
from quorate.node.local_cluster import LocalCluster
from quorate.node.process_identity import ProcessIdentity

Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Stands in for a node."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def _runs_as(directory: Path, name: str, process: subprocess.Popen[bytes] | None) -> None:
    file = ClusterFile(str(directory))
    identity = None if process is None else ProcessIdentity.of(process.pid)
    with file.locked():
        state = file.read()
        file.write(state.with_node(replace(state.node(name), process=identity, is_wanted=True)))


@pytest.fixture
def original(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> Path:
    directory = tmp_path / "original"
    LocalCluster.create(str(directory), brokers=3, is_combined=True)
    _runs_as(directory, "node-1", sleeper)
    return directory


@pytest.mark.parametrize("command", [["down"], ["stop", "node-1"], ["restart", "node-3"], ["up"]])
def test_copy_of_a_cluster_that_runs_signals_and_starts_nothing(
    tmp_path: Path, original: Path, sleeper: subprocess.Popen[bytes], capsys: Capsys, command: list[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    before = (copy / "cluster.json").read_text()
    assert main([*command, "--dir", str(copy)]) == 1
    told = capsys.readouterr().err
    assert f"node-1 (pid {sleeper.pid}) runs from {original}" in told
    assert sleeper.poll() is None
    assert not (copy / "node-3").exists()
    assert (copy / "cluster.json").read_text() == before


def test_copy_made_while_nothing_ran_starts_nothing_while_the_original_runs(
    tmp_path: Path, original: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    """One node of the original may be down just then: its port is free, and its place in the quorum too."""
    _runs_as(original, "node-1", None)
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    _runs_as(original, "node-2", sleeper)
    with pytest.raises(InvalidRequest, match=f"node-2 .* runs from {original}"):
        LocalCluster(str(copy))


def test_copy_is_a_cluster_of_its_own_once_the_original_is_down(tmp_path: Path, original: Path) -> None:
    _runs_as(original, "node-1", None)
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    assert LocalCluster(str(copy)).data_dir("node-1") == f"{copy}/node-1/data"


def test_another_cluster_where_the_original_was_is_none_of_its_business(
    tmp_path: Path, original: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    _runs_as(original, "node-1", None)
    moved = tmp_path / "moved"
    original.rename(moved)
    LocalCluster.create(str(original), brokers=3, is_combined=True)
    _runs_as(original, "node-1", sleeper)
    assert LocalCluster(str(moved)).names == ["node-1", "node-2", "node-3"]


def test_directory_may_be_reached_by_another_name_while_it_runs(tmp_path: Path, original: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(original)
    assert LocalCluster(str(link)).is_running("node-1")


def test_directory_that_was_moved_while_it_ran_is_told_apart_from_a_cluster_that_is_down(
    tmp_path: Path, original: Path
) -> None:
    moved = tmp_path / "moved"
    original.rename(moved)
    with pytest.raises(InvalidRequest, match="move it back"):
        LocalCluster(str(moved))


def test_node_is_not_started_while_somebody_else_is_in_another_voters_place(tmp_path: Path) -> None:
    """Both copies were started once, so neither knows the other any more; only the ports tell."""
    cluster = LocalCluster.create(str(tmp_path), brokers=3, is_combined=True)
    host, _, port = cluster.node("node-2").address.rpartition(":")
    with socket.socket() as listener:
        listener.bind((host, int(port)))
        listener.listen()
        with pytest.raises(CannotListen, match="node-2"):
            cluster.spawn(["node-3"])
    assert not cluster.is_running("node-3")
