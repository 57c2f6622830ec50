"""What a voter is told at its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from quorate.core.config import NodeConfig, VoterAddress
from quorate.metadata.raft.journal import SEGMENT_BYTES
from quorate.metadata.raft.limits import Limits
from quorate.metadata.raft.ready import Timing
from quorate.metadata.raft.voters import NodeId

__all__ = ["QUORUM_DIRECTORY_NAME", "QuorumConfig", "quorum_config_of"]

QUORUM_DIRECTORY_NAME: Final = "quorum"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    node_id: NodeId
    #: where the voter keeps all that it must remember
    directory: str
    #: the controllers that found the quorum, this one among them
    voters: tuple[VoterAddress, ...]
    #: None: drawn by the founding voters
    cluster_id: str | None = None
    timing: Timing = field(default_factory=Timing)
    limits: Limits = field(default_factory=Limits)
    segment_bytes: int = SEGMENT_BYTES
    #: of entries after which a snapshot is taken
    snapshot_interval_bytes: int = 20 << 20
    #: largest snapshot that is taken from a leader
    snapshot_bytes_max: int = 1 << 30

    @property
    def own_address(self) -> str:
        """Where the other voters reach this one."""
        return next(str(voter.address) for voter in self.voters if voter.node_id == self.node_id)


def quorum_config_of(config: NodeConfig) -> QuorumConfig:
    election_timeout_s = config.controller_quorum_election_timeout_ms / 1000
    return QuorumConfig(
        node_id=NodeId(config.node_id),
        directory=f"{config.data_dir}/{QUORUM_DIRECTORY_NAME}",
        voters=config.controller_voters,
        cluster_id=config.cluster_id,
        timing=Timing(
            election_timeout_min_s=election_timeout_s,
            election_timeout_max_s=election_timeout_s * 2,
            heartbeat_s=config.controller_quorum_heartbeat_interval_ms / 1000,
        ),
        segment_bytes=config.metadata_log_segment_bytes,
        snapshot_interval_bytes=config.metadata_log_max_record_bytes_between_snapshots,
    )
