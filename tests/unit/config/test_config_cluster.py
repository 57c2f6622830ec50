"""A node's place in its cluster: roles, voters, addresses, and what cannot go together."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.core.config import (
    HostPort,
    NodeConfig,
    NodeRole,
    VoterAddress,
    load_node_config,
    parse_address,
)
from quorate.core.config.kinds import Choices, Flag, Kind, Name, Optional, ReachableAddress, VoterList
from quorate.errors import InvalidConfig

REQUIRED = ("node.id=1", "data.dir=/data")
VOTERS = "controller.voters=2@b:2,1@a:1,3@c:3"


def load(*set_options: str) -> NodeConfig:
    return load_node_config(None, set_options=(*REQUIRED, *set_options), environment={})


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (Choices(NodeRole), "broker, controller", (NodeRole.CONTROLLER, NodeRole.BROKER)),
        (Choices(NodeRole), ["broker"], (NodeRole.BROKER,)),
        (Flag(), True, True),
        (Flag(), "false", False),
        (Name(), "eu-west_1.a", "eu-west_1.a"),
        (Optional(Name()), "", None),
        (Optional(Name()), None, None),
        (ReachableAddress(), "[::1]:9", HostPort("::1", 9)),
        (VoterList(), "", ()),
        (
            VoterList(),
            "2@b:2, 1@[::1]:1",
            (VoterAddress(1, HostPort("::1", 1)), VoterAddress(2, HostPort("b", 2))),
        ),
        (VoterList(), [VoterAddress(1, HostPort("a", 1))], (VoterAddress(1, HostPort("a", 1)),)),
    ],
)
def test_value_is_accepted_and_survives_being_rendered(kind: Kind[Any], raw: object, value: object) -> None:
    assert kind.parse(raw) == value
    assert kind.parse(kind.render(value)) == value


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (Choices(NodeRole), ""),
        (Choices(NodeRole), []),
        (Choices(NodeRole), "broker,broker"),
        (Choices(NodeRole), "leader"),
        (Choices(NodeRole), [1]),
        (Flag(), 1),
        (Flag(), "yes"),
        (Name(), "a b"),
        (Name(), ""),
        (Name(4), "abcde"),
        (Name(), 5),
        (ReachableAddress(), "a:0"),
        (ReachableAddress(), "0.0.0.0:1"),
        (ReachableAddress(), "[::]:1"),
        (ReachableAddress(), 9),
        (VoterList(), "a:1"),
        (VoterList(), "1@a"),
        (VoterList(), "-1@a:1"),
        (VoterList(), "1@a:0"),
        (VoterList(), "1@a:1,1@b:1"),
        (VoterList(), "1@a:1,2@a:1"),
        (VoterList(), VoterAddress(1, HostPort("a", 1))),
        (VoterList(), 7),
    ],
)
def test_value_is_refused(kind: Kind[Any], raw: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        kind.parse(raw)


def test_node_without_voters_is_a_broker_by_itself() -> None:
    config = load()
    assert config.is_broker
    assert not config.is_controller
    assert config.controller_voters == ()


def test_voters_are_kept_in_the_order_of_their_ids() -> None:
    config = load("node.roles=controller,broker", VOTERS)
    assert [voter.node_id for voter in config.controller_voters] == [1, 2, 3]
    assert config.is_controller


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("node.roles=controller",), r"controller\.voters: node\.id=1 is a controller"),
        (("node.roles=controller", "controller.voters=2@b:2"), r"not among '2@b:2'"),
        ((VOTERS,), r"node\.roles: controller\.voters names this node \(1@a:1\)"),
        (("controller.voters=2@b:2", "listeners=0.0.0.0:9092"), r"advertised\.address: .* 0\.0\.0\.0:9092"),
        (("broker.heartbeat.interval.ms=2s",), r"third of broker\.session\.timeout\.ms=3000"),
        (("controller.quorum.heartbeat.interval.ms=167",), r"controller\.quorum\.election\.timeout\.ms=500"),
    ],
)
def test_settings_that_cannot_go_together_are_refused(options: tuple[str, ...], reason: str) -> None:
    with pytest.raises(InvalidConfig, match=reason):
        load(*options)


@pytest.mark.parametrize(
    ("listeners", "address", "is_refused"),
    [
        ("127.0.0.1:9092", "127.0.0.1:9092", True),
        ("127.0.0.1:9092", "0.0.0.0:9092", True),
        ("0.0.0.0:9092", "127.0.0.1:9092", True),
        ("a:1,127.0.0.1:9092", "127.0.0.1:9092", True),
        ("127.0.0.1:9092", "127.0.0.1:9644", False),
        ("127.0.0.1:9092", "127.0.0.2:9092", False),
        ("127.0.0.1:0", "127.0.0.1:0", False),
    ],
)
def test_metrics_need_an_address_of_their_own(listeners: str, address: str, is_refused: bool) -> None:
    options = (f"listeners={listeners}", f"metrics.address={address}")
    if is_refused:
        with pytest.raises(InvalidConfig, match=r"metrics\.address: .* is where the node listens already"):
            load(*options)
    else:
        assert load(*options).metrics.address == parse_address(address)


def test_nothing_listens_for_metrics_unless_it_is_asked_for() -> None:
    assert load().metrics.address is None
    assert load("metrics.address=").metrics.address is None


def test_broker_that_listens_everywhere_joins_with_an_advertised_address() -> None:
    config = load("controller.voters=2@b:2", "listeners=0.0.0.0:9092", "advertised.address=me:9092")
    assert config.advertised_address == HostPort("me", 9092)


@pytest.mark.parametrize(
    "options",
    [
        ("broker.lease.ms=2001",),
        ("broker.session.timeout.ms=2000",),
        # A deposed controller goes on renewing leases for twice that long.
        ("controller.quorum.election.timeout.ms=501",),
    ],
)
def test_a_lease_that_could_outlast_its_session_is_refused(options: tuple[str, ...]) -> None:
    """Rule 37."""
    with pytest.raises(InvalidConfig, match=r"broker\.lease\.ms"):
        load(*options)


def test_a_lag_that_a_lease_could_outlast_is_refused() -> None:
    """Rule 37: whoever lags leaves the ISR, and must not answer alone any more by then."""
    assert load("replica.lag.time.max.ms=3000").replica_lag_time_max_ms == 3_000
    with pytest.raises(InvalidConfig, match=r"replica\.lag\.time\.max\.ms"):
        load("replica.lag.time.max.ms=2999")


def test_a_lease_may_be_longer_where_sessions_are() -> None:
    assert load("broker.session.timeout.ms=9000", "broker.lease.ms=6000").broker_lease_ms == 6_000
