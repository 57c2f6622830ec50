"""What leaders, followers and the controller send each other in the model of replicas."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from quorate.broker.replica.divergence import Divergence
from quorate.broker.replica.leadership import Leadership
from quorate.chaos.models.replica_set.plain_log import Entry, PlainLog
from quorate.core.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from quorate.v1.controller_pb2 import AlterPartitionRequest, PartitionAlterationResult

__all__ = ["Answer", "Ask", "Fetch", "Message", "Reset", "Update"]


class Fetch(NamedTuple):
    """A follower's position, on its way to the leader."""

    follower: BrokerId
    broker_epoch: BrokerEpoch
    leader: BrokerId
    leader_epoch: LeaderEpoch
    offset: Offset
    last_epoch: LeaderEpoch
    log_start: Offset


class Update(NamedTuple):
    """The leader's answer, on its way to the follower."""

    fetch: Fetch
    answer: Divergence | list[Entry]
    high_watermark: Offset
    log_start: Offset
    leader_log: PlainLog


class Reset(NamedTuple):
    """What comes next is deleted at the leader: begin where it begins (rule 12)."""

    fetch: Fetch
    leader_log: PlainLog


class Ask(NamedTuple):
    """An AlterPartition on its way to the controller. A copy that nobody waits for has no ``asked_by``."""

    request: AlterPartitionRequest
    asked_by: Leadership | None


class Answer(NamedTuple):
    asked_by: Leadership
    result: PartitionAlterationResult


Message: TypeAlias = Fetch | Update | Reset | Ask | Answer
