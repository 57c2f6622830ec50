"""rpc.transport: which implementation a process speaks through."""

from __future__ import annotations

import pytest

from quorate.client.transport import client_transport
from quorate.core.config import RpcTransport, load_node_config
from quorate.errors import InvalidConfig
from quorate.node.child import node_environment
from quorate.rpc.choice import node_transport_of
from quorate.rpc.grpcio_transport import GrpcioTransport
from quorate.rpc.lean.transport import LeanTransport

VARIABLE = "QUORATE_RPC_TRANSPORT"
NODE = {"node.id": "1", "data.dir": "data"}
KINDS = {RpcTransport.GRPCIO: GrpcioTransport, RpcTransport.LEAN: LeanTransport}


def config(**settings: str) -> RpcTransport:
    chosen = [f"{key}={value}" for key, value in {**NODE, **settings}.items()]
    return load_node_config(None, set_options=chosen, environment={}).rpc_transport


def test_lean_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert config() is RpcTransport.LEAN
    assert isinstance(client_transport(), LeanTransport)


@pytest.mark.parametrize("kind", RpcTransport)
def test_one_variable_decides_for_nodes_and_clients(
    monkeypatch: pytest.MonkeyPatch, kind: RpcTransport
) -> None:
    monkeypatch.setenv(VARIABLE, kind.value)
    monkeypatch.setenv("QUORATE_NODE_ID", "7")
    chosen = [f"{key}={value}" for key, value in NODE.items()]
    handed_on = {key: value for key, value in node_environment().items() if key.startswith("QUORATE_")}
    assert load_node_config(None, set_options=chosen, environment=handed_on).rpc_transport is kind
    assert "QUORATE_NODE_ID" not in handed_on, "a node's own settings are not another's"
    assert type(client_transport()) is KINDS[kind]


def test_client_tells_where_a_word_comes_from_that_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "pigeons")
    with pytest.raises(InvalidConfig, match=f"environment variable {VARIABLE}: .*pigeons"):
        client_transport()


@pytest.mark.parametrize("kind", RpcTransport)
def test_setting_decides(kind: RpcTransport) -> None:
    assert config(**{"rpc.transport": kind.value}) is kind
    made = node_transport_of(
        kind,
        message_bytes_max=1 << 20,
        requests_max=1,
        arriving_bytes_max=1 << 20,
        untaken_bytes_max=1 << 20,
        internal_arriving_bytes_max=1 << 20,
        internal_untaken_bytes_max=1 << 20,
        connections_max=10,
        default_timeout_s=1.0,
    )
    assert type(made) is KINDS[kind]
    assert type(client_transport(kind)) is KINDS[kind]


def test_other_words_are_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"rpc\.transport"):
        config(**{"rpc.transport": "pigeons"})
