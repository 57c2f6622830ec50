"""Configuration: frozen dataclasses, read once from a file, the environment and ``--set``.

This package is the only place that reads the environment for settings. ``docs/configuration.md`` is
generated from the declarations in ``node``, ``groups``, ``metrics`` and ``topic``.
"""

from quorate.core.config.clients import rpc_transport_of_clients
from quorate.core.config.groups import GroupConfig
from quorate.core.config.kinds import HostPort, VoterAddress, parse_address
from quorate.core.config.metrics import MetricsConfig
from quorate.core.config.node import LoggingFormat, NodeConfig, NodeRole, RpcTransport, load_node_config
from quorate.core.config.topic import TOPIC_SETTINGS, CleanupPolicy, Durability, TopicConfig

__all__ = [
    "TOPIC_SETTINGS",
    "CleanupPolicy",
    "Durability",
    "GroupConfig",
    "HostPort",
    "LoggingFormat",
    "MetricsConfig",
    "NodeConfig",
    "NodeRole",
    "RpcTransport",
    "TopicConfig",
    "VoterAddress",
    "load_node_config",
    "parse_address",
    "rpc_transport_of_clients",
]
