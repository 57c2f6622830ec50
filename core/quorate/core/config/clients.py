"""What clients take from the environment. Their other options are arguments, and they have no file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, cast

from quorate.core.config.loader import resolve
from quorate.core.config.node import NODE_SETTINGS, RpcTransport
from quorate.core.config.sources import RawValue

__all__ = ["rpc_transport_of_clients"]

_SETTING: Final = next(each for each in NODE_SETTINGS if each.key == "rpc.transport")


def rpc_transport_of_clients(environment: Mapping[str, str] | None = None) -> RpcTransport:
    """The same variable as for nodes, so that one word switches all processes of a machine."""
    variable = _SETTING.environment_name
    text = (os.environ if environment is None else environment).get(variable)
    given = [] if text is None else [RawValue(_SETTING.key, text, f"environment variable {variable}")]
    values = resolve((_SETTING,), [given])
    return cast(RpcTransport, values.get(_SETTING.key, _SETTING.default))
