"""rpc.transport: which implementation a process speaks through."""

from __future__ import annotations

import pytest

from quorate.client.transport import client_transport
from quorate.core.config import RpcTransport, load_node_config
from quorate.errors import InvalidConfig
from quorate.rpc.choice import node_transport_of
from quorate.rpc.grpcio_transport import GrpcioTransport
from quorate.rpc.lean.transport import LeanTransport

NODE = {"node.id": "1", "data.dir": "data"}
KINDS = {RpcTransport.GRPCIO: GrpcioTransport, RpcTransport.LEAN: LeanTransport}


def config(**settings: str) -> RpcTransport:
    chosen = [f"{key}={value}" for key, value in {**NODE, **settings}.items()]
    return load_node_config(None, set_options=chosen, environment={}).rpc_transport


def test_grpcio_is_the_default() -> None:
    assert config() is RpcTransport.GRPCIO
    assert isinstance(client_transport(), GrpcioTransport)


@pytest.mark.parametrize("kind", RpcTransport)
def test_setting_decides(kind: RpcTransport) -> None:
    assert config(**{"rpc.transport": kind.value}) is kind
    made = node_transport_of(
        kind, message_bytes_max=1 << 20, requests_max=1, arriving_bytes_max=1 << 20, default_timeout_s=1.0
    )
    assert type(made) is KINDS[kind]
    assert type(client_transport(kind)) is KINDS[kind]


def test_other_words_are_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"rpc\.transport"):
        config(**{"rpc.transport": "pigeons"})
