"""What of a cluster can be looked at from here.

Files and metadata of a cluster on other machines may be out of reach; what cannot be seen is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from quorate.core.ids import BrokerId
from quorate.node.local_cluster import LocalCluster

__all__ = ["DataDirectory", "Reach"]


class DataDirectory(NamedTuple):
    #: of the broker, for people
    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    bootstrap: str
    #: by broker; one that is missing cannot be looked into
    data_dirs: Mapping[BrokerId, DataDirectory] = field(default_factory=dict)
    #: addresses; none: the metadata cannot be followed
    controllers: Sequence[str] = ()

    @staticmethod
    def of(cluster: LocalCluster) -> Reach:
        return Reach(
            bootstrap=cluster.bootstrap,
            data_dirs={
                BrokerId(node.id): DataDirectory(node.name, cluster.data_dir(node.name))
                for node in cluster.nodes
            },
            controllers=cluster.controller_addresses,
        )
