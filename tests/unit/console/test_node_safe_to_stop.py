"""``quorate node safe-to-stop``: a node asks the cluster about itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quorate.console.main import main
from quorate.console.rolling import before_stop
from quorate.console.rolling.before_stop import StoppingNode, objections_to_stop
from quorate.core.config import load_node_config
from quorate.errors import NoController
from quorate.v1 import admin_pb2
from tests.unit.console.fake_administration import FakeAdministration

Capsys = pytest.CaptureFixture[str]

SAFE = admin_pb2.CheckBrokerRestartResponse(is_safe=True, reasons=["Brokers that are down as well: 7."])
UNSAFE = admin_pb2.CheckBrokerRestartResponse(is_safe=False, reasons=["Partition t:0 would have no leader."])


def quorum(*states: str) -> admin_pb2.DescribeQuorumResponse:
    voters = [admin_pb2.VoterDescription(node_id=101 + n, state=state) for n, state in enumerate(states)]
    return admin_pb2.DescribeQuorumResponse(leader=101, voters=voters)


SOUND = quorum("leader", "follower", "follower")


async def objections(node_id: int, role: str, **answers: Any) -> list[str]:
    node = StoppingNode(node_id, (role,), "b:1")
    return await objections_to_stop(node, FakeAdministration(**answers))  # type: ignore[arg-type]  # as told


async def test_broker_may_stop_when_its_partitions_can_do_without_it() -> None:
    assert await objections(1, "broker", check_broker_restart=SAFE, describe_quorum=SOUND) == []
    assert await objections(1, "broker", check_broker_restart=UNSAFE, describe_quorum=SOUND) == [
        "Partition t:0 would have no leader."
    ]


async def test_broker_does_not_ask_for_every_voter() -> None:
    away = quorum("leader", "unreachable", "follower")
    assert await objections(1, "broker", check_broker_restart=SAFE, describe_quorum=away) == []


@pytest.mark.parametrize("state", ["unreachable", "refused", "recovering", "catching up"])
async def test_voter_stays_while_another_one_is_needed_and_away(state: str) -> None:
    assert await objections(101, "controller", describe_quorum=SOUND) == []
    found = await objections(101, "controller", describe_quorum=quorum("leader", state, "follower"))
    who = f"voter 102 is {state}"
    assert found == [
        f"Of 3 voters no majority is left without node 101 ({who}): nothing is decided meanwhile."
    ]


async def test_voter_may_stop_where_a_majority_follows_without_it() -> None:
    one_away = quorum("leader", "follower", "unreachable", "follower", "follower")
    assert await objections(101, "controller", describe_quorum=one_away) == []
    assert await objections(103, "controller", describe_quorum=one_away) == []
    two_away = quorum("leader", "follower", "unreachable", "catching up", "follower")
    [found] = await objections(101, "controller", describe_quorum=two_away)
    assert "(voter 103 is unreachable, voter 104 is catching up)" in found


async def test_node_with_both_roles_is_asked_about_both() -> None:
    away = quorum("leader", "unreachable", "follower")
    found = await objections(101, "broker", check_broker_restart=UNSAFE, describe_quorum=away)
    assert len(found) == 2


async def test_only_controller_is_told_that_nobody_is_left() -> None:
    [found] = await objections(101, "controller", describe_quorum=quorum("leader"))
    assert found == "Of 1 voter no majority is left without node 101: nothing is decided meanwhile."


def test_node_is_asked_on_this_machine_whatever_it_advertises(tmp_path: Path) -> None:
    options = [
        *("node.id=1", f"data.dir={tmp_path}", "listeners=0.0.0.0:9092"),
        *("advertised.address=elsewhere:9092", "node.roles=broker", "controller.voters=101@c:9093"),
    ]
    config = load_node_config(None, set_options=options, environment={})
    assert StoppingNode.of(config) == StoppingNode(1, ("broker",), "127.0.0.1:9092")


def test_wait_ends_as_soon_as_it_is_safe_and_answers_by_its_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    answers: list[Any] = [UNSAFE, NoController("electing"), SAFE]
    cluster = FakeAdministration(check_broker_restart=answers, describe_quorum=SOUND)
    monkeypatch.setattr(before_stop, "connect", lambda _address: cluster)
    monkeypatch.setattr(before_stop, "_POLL_S", 0.0)
    node = ["--set", "node.id=1", "--set", f"data.dir={tmp_path}", "--output", "json"]
    assert main(["node", "safe-to-stop", *node, "--wait", "60"]) == 0
    assert json.loads(capsys.readouterr().out) == {"id": 1, "is_safe": True, "reasons": []}
    cluster.answers["check_broker_restart"] = UNSAFE
    monkeypatch.setattr(before_stop, "_POLL_S", 1.0)
    assert main(["node", "safe-to-stop", *node]) == 1
    assert json.loads(capsys.readouterr().out)["reasons"] == ["Partition t:0 would have no leader."]
