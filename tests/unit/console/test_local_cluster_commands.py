"""``quorate up``, ``down``, ``status`` and ``restart``: what is refused before any process is started."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from quorate.console.advice import describe
from quorate.console.commands.restart import _start_the_others
from quorate.console.main import main
from quorate.errors import Unavailable
from quorate.node.local_cluster import LocalCluster

Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("retention.mss=1", "unknown key retention.mss"),
        ("broker.session.timeout.ms=never", "broker.session.timeout.ms"),
        ("node.id=7", "node.id: the cluster gives each node a value of its own"),
    ],
)
def test_setting_that_no_node_would_accept_is_refused_at_once(
    tmp_path: Path, capsys: Capsys, option: str, told: str
) -> None:
    assert main(["up", "--dir", str(tmp_path / "c"), "--port", "0", "--set", option]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: INVALID_CONFIG: ")
    assert told in error
    assert not (tmp_path / "c").exists()


def test_port_that_is_taken_is_told_before_anything_is_made(
    tmp_path: Path, capsys: Capsys, taken_port: int
) -> None:
    assert main(["up", "--dir", str(tmp_path / "c"), "--port", str(taken_port), "--controllers", "1"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: CANNOT_LISTEN: broker-1 has to listen on ")
    assert "--port" in error
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("option", "told"), [("--controllers", "--controllers 3, not 5"), ("--port", "not 5")]
)
def test_cluster_that_exists_keeps_its_shape(tmp_path: Path, capsys: Capsys, option: str, told: str) -> None:
    LocalCluster.create(str(tmp_path))
    assert main(["up", "--dir", str(tmp_path), option, "5"]) == 1
    assert told in capsys.readouterr().err


def test_directory_that_cannot_be_made_is_told_with_advice(tmp_path: Path, capsys: Capsys) -> None:
    (tmp_path / "file").touch()
    assert main(["up", "--dir", str(tmp_path / "file" / "c"), "--port", "0"]) == 1
    error, advice = capsys.readouterr().err.splitlines()
    assert error.startswith("error: STORAGE_FAILED: no cluster can be made in ")
    assert "--dir" in advice


def test_brokers_are_added_to_a_cluster_that_exists(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(_cluster: LocalCluster) -> None:
        raise Unavailable("enough for this test")

    monkeypatch.setattr(LocalCluster, "start", start)
    cluster = LocalCluster.create(str(tmp_path), controllers=1, brokers=2)
    assert main(["up", "--dir", str(tmp_path), "--brokers", "4"]) == 1
    assert cluster.names == ["broker-1", "broker-2", "controller-101", "broker-3", "broker-4"]
    assert main(["up", "--dir", str(tmp_path), "--brokers", "3"]) == 1
    assert "`quorate broker decommission ID`" in capsys.readouterr().err


def test_broker_that_is_added_listens_on_the_next_port_that_is_free(tmp_path: Path, taken_port: int) -> None:
    cluster = LocalCluster.create(str(tmp_path), controllers=1, brokers=1)
    cluster.place("controller-101", address=f"127.0.0.1:{taken_port - 2}")
    cluster.place("broker-1", address=f"127.0.0.1:{taken_port - 3}")
    ports = [int(cluster.node(cluster.add_broker()).address.rpartition(":")[2]) for _ in range(2)]
    assert ports[0] >= taken_port - 1
    assert taken_port not in ports
    assert ports[0] < ports[1] < taken_port + 100


@pytest.mark.parametrize("name", ["broker-2", "2"])
def test_node_that_was_stopped_by_itself_is_left_out_until_it_is_restarted(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    started: list[str] = []

    def spawn(_cluster: LocalCluster, names: Iterable[str]) -> dict[str, int]:
        started.extend(names)
        raise Unavailable("enough for this test")

    cluster = LocalCluster.create(str(tmp_path), controllers=1, brokers=2)
    assert main(["stop", "--dir", str(tmp_path), name]) == 0
    monkeypatch.setattr(LocalCluster, "spawn", spawn)
    capsys.readouterr()
    assert main(["up", "--dir", str(tmp_path)]) == 1
    assert started == ["broker-1", "controller-101"]
    assert "left out, as `quorate stop` stopped them: broker-2" in capsys.readouterr().err
    assert cluster.bootstrap == cluster.node("broker-1").address
    assert main(["status", "--dir", str(tmp_path), "--output", "json"]) == 0
    states = {node["name"]: node["state"] for node in json.loads(capsys.readouterr().out)["nodes"]}
    assert states["broker-2"] == "stopped"
    started.clear()
    assert main(["restart", "--dir", str(tmp_path), name]) == 1
    assert started == ["broker-2"]


def test_directory_with_other_files_is_remarked_upon(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(_cluster: LocalCluster) -> None:
        raise Unavailable("enough for this test")

    monkeypatch.setattr(LocalCluster, "start", start)
    (tmp_path / "thesis.tex").touch()
    assert main(["up", "--dir", str(tmp_path), "--port", "0"]) == 1
    assert "has other files in it (thesis.tex, say)" in capsys.readouterr().err
    assert main(["up", "--dir", str(tmp_path)]) == 1
    assert "other files" not in capsys.readouterr().err, "now there is a cluster in it"


def test_data_of_a_cluster_whose_file_is_gone_is_recognised_before_anything_is_written(
    tmp_path: Path, capsys: Capsys
) -> None:
    directory = tmp_path / "c"
    LocalCluster.create(str(directory), is_combined=True)
    for name in ("node-1", "node-2"):
        (directory / name / "data" / "quorum").mkdir(parents=True)
    (directory / "cluster.json").unlink()
    assert main(["up", "--combined", "--port", "0", "--dir", str(directory)]) == 1
    [told] = capsys.readouterr().err.splitlines()
    assert told.startswith(f"error: INVALID_REQUEST: {directory} holds the data of node-1, node-2, and no ")
    assert not (directory / "cluster.json").exists()


@pytest.mark.parametrize("broken", [None, "{}"])
@pytest.mark.parametrize("command", [["down"], ["status"], ["stop", "n"], ["restart", "n"], ["up"]])
def test_what_is_wrong_with_a_directory_is_not_blamed_on_the_options(
    tmp_path: Path, capsys: Capsys, command: list[str], broken: str | None
) -> None:
    LocalCluster.create(str(tmp_path))
    with LocalCluster(str(tmp_path)).watched():
        if broken is not None:
            (tmp_path / "cluster.json").write_text(broken)
        elif command != ["up"]:
            (tmp_path / "cluster.json").unlink()
        assert main([*command, "--dir", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: INVALID_REQUEST: ")
    assert "--help" not in told


@pytest.mark.parametrize("command", [["up"], ["status"], ["log", "dump"], ["sim", "run"], ["node", "run"]])
def test_help_names_no_bootstrap_where_it_means_nothing(capsys: Capsys, command: list[str]) -> None:
    assert main([*command, "--help"]) == 0
    told = capsys.readouterr().out
    assert "--bootstrap" not in told
    assert "--output" in told


def test_whoever_waits_for_a_node_hears_what_it_waits_for(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait_in_vain(_cluster: LocalCluster, _name: str) -> None:
        await asyncio.sleep(0.1)
        raise Unavailable("node-1 runs, but is not ready after 60 s")

    monkeypatch.setattr(LocalCluster, "restart", wait_in_vain)
    monkeypatch.setattr(LocalCluster, "is_running", lambda _cluster, _name: True)
    monkeypatch.setattr("quorate.console.commands.restart._SILENCE_S", 0.01)
    LocalCluster.create(str(tmp_path), is_combined=True)
    assert main(["restart", "--dir", str(tmp_path), "node-1"]) == 1
    waits, error, advice = capsys.readouterr().err.splitlines()
    others = f"stopped: node-2, node-3; `quorate up --dir {tmp_path}` starts all"
    assert waits == f"node-1 is started, and waits for a quorum; {others}"
    assert "did not start" not in error
    assert others in advice


def test_quorum_lacks_no_broker_and_who_was_stopped_by_name_is_started_by_name(tmp_path: Path) -> None:
    cluster = LocalCluster.create(str(tmp_path), controllers=1, brokers=2)
    assert _start_the_others(cluster, "controller-101") is None
    missing = "stopped: controller-101; `quorate {} starts {}"
    assert _start_the_others(cluster, "broker-1") == missing.format(f"up --dir {tmp_path}`", "all")
    asyncio.run(cluster.stop_one("controller-101"))
    assert _start_the_others(cluster, "broker-1") == missing.format(f"restart --dir {tmp_path} NODE`", "one")


def test_cluster_that_somebody_runs_is_not_run_twice(tmp_path: Path, capsys: Capsys) -> None:
    with LocalCluster.create(str(tmp_path)).watched() as is_ours:
        assert is_ours
        assert main(["up", "--dir", str(tmp_path)]) == 1
    assert "another `quorate up` runs the cluster" in capsys.readouterr().err


def test_cluster_file_names_every_node(tmp_path: Path, capsys: Capsys) -> None:
    cluster = LocalCluster.create(str(tmp_path), controllers=3, brokers=2)
    written = json.loads((tmp_path / "cluster.json").read_text())["nodes"]
    for node in written:
        assert node.keys() >= {
            "name", "id", "roles", "address", "metrics_address", "pid", "data_dir", "log_file"
        }  # fmt: skip
    assert [node["roles"] for node in written] == [["broker"]] * 2 + [["controller"]] * 3
    assert [node["pid"] for node in written] == [None] * 5
    assert len({node["address"] for node in written}) == 5
    assert main(["status", "--dir", str(tmp_path), "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["bootstrap"] == cluster.bootstrap
    assert {node["state"] for node in document["nodes"]} == {"stopped"}
    addresses = {node["metrics_address"] for node in document["nodes"]}
    assert addresses == {node["metrics_address"] for node in written}
    assert len(addresses | {node["address"] for node in written}) == 10
    assert all(address.startswith("127.0.0.1:") for address in addresses)


def test_cluster_that_does_not_run_is_down_already(tmp_path: Path, capsys: Capsys) -> None:
    LocalCluster.create(str(tmp_path))
    assert main(["down", "--dir", str(tmp_path)]) == 0
    assert capsys.readouterr().err == "nothing was running\n"


@pytest.mark.parametrize("command", [["down"], ["status"], ["restart", "n"]])
def test_directory_without_a_cluster_is_told(tmp_path: Path, capsys: Capsys, command: list[str]) -> None:
    assert main([*command, "--dir", str(tmp_path)]) == 1
    assert "holds no local cluster" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "it is no JSON"),
        ("[]", "something in it is of another kind"),
        ("{}", "there is no cluster_id"),
        ('{"cluster_id": "c", "nodes": [{}]}', "there is no name"),
    ],
)
def test_cluster_file_that_somebody_broke_is_told(
    tmp_path: Path, capsys: Capsys, content: str, why: str
) -> None:
    (tmp_path / "cluster.json").write_text(content)
    assert main(["status", "--dir", str(tmp_path)]) == 1
    assert f"is not what `quorate up` writes: {why}" in capsys.readouterr().err


def test_unknown_node_is_told_with_those_there_are(tmp_path: Path, capsys: Capsys) -> None:
    LocalCluster.create(str(tmp_path), controllers=1, brokers=1)
    assert main(["restart", "--dir", str(tmp_path), "nonsense"]) == 1
    assert "there is no node nonsense; there are broker-1, controller-101" in capsys.readouterr().err


def test_node_is_restarted_by_name_or_id(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def restart(_cluster: LocalCluster, name: str) -> None:
        asked.append(name)

    monkeypatch.setattr(LocalCluster, "restart", restart)
    LocalCluster.create(str(tmp_path), controllers=1)
    for node in ("controller-101", "101"):
        assert main(["restart", "--dir", str(tmp_path), node]) == 0
    assert asked == ["controller-101", "controller-101"]


def test_advice_of_the_node_itself_is_not_followed_by_another() -> None:
    quoted = Unavailable("the end of its log:\nerror: X: y\n  what to do: this")
    assert describe(quoted, "look into the log").count("what to do") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["up", "--detach", "--restart"],
        ["up", "--set", "retention.ms"],
        ["up", "--controllers", "0"],
        ["up", "--combined", "--controllers", "3"],
        ["up", "--brokers", "0"],
        ["up", "--brokers", "-1"],
        ["up", "--brokers", "1000000", "--port", "0"],
        ["up", "--combined", "--brokers", "0"],
        ["down"],
        ["restart", "--dir", "."],
    ],
)
def test_wrong_usage_of_local_cluster_commands_exits_with_2(capsys: Capsys, arguments: list[str]) -> None:
    assert main(arguments) == 2
    assert "Usage:" in capsys.readouterr().err
