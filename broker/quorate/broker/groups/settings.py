"""What decisions about groups depend on beside the state and the request: times and bounds.

Every bound is here for memory or for time: what a client may make a coordinator keep, and what it may make it
compute in one turn of the loop. Those that an operator may want to change have a key (``GroupConfig``);
the rest are as large as nobody should ever need.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.core.config.groups import GroupConfig
from quorate.core.limits import GROUP_NAME_CHARACTERS_MAX

__all__ = ["GroupSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    #: a member that is not heard of for so long is removed
    session_timeout_ms: int
    #: a heartbeat waits for news no longer than this
    heartbeat_interval_ms: int
    #: a member whose waiting call broke off is removed after this; static members are not
    reconnect_grace_ms: int
    #: members of one group
    members_max: int
    #: groups that one broker coordinates
    groups_max: int
    #: UTF-8 bytes of what is committed with one offset
    offset_metadata_bytes_max: int
    #: offsets of a group without members are kept for so long
    offsets_retention_ms: int
    #: how long a member may take to give up partitions, where it does not say
    rebalance_timeout_default_ms: int = 300_000
    #: the longest that it may say
    rebalance_timeout_max_ms: int = 3_600_000
    #: names of topics in one subscription
    subscription_topics_max: int = 1_000
    #: of groups, members, instances, racks, clients and hosts
    name_characters_max: int = GROUP_NAME_CHARACTERS_MAX
    #: of a regular expression
    pattern_characters_max: int = 1_000

    @classmethod
    def of(cls, config: GroupConfig) -> GroupSettings:
        return cls(
            session_timeout_ms=config.session_timeout_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            reconnect_grace_ms=config.reconnect_grace_ms,
            members_max=config.members_max,
            groups_max=config.groups_max,
            offset_metadata_bytes_max=config.offset_metadata_bytes_max,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        )
