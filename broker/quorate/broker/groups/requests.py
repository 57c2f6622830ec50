"""What a member may say at all: sizes, names and patterns, before anybody looks at its group."""

from __future__ import annotations

from quorate.broker.groups.assignors import ASSIGNORS
from quorate.broker.groups.settings import GroupSettings
from quorate.broker.groups.topics import check_pattern
from quorate.core.group_names import has_control_characters
from quorate.core.member_epochs import AWAY_EPOCH, JOIN_EPOCH
from quorate.core.topic_names import check_topic_name
from quorate.errors import InvalidPattern, InvalidRequest
from quorate.v1.group_pb2 import GroupHeartbeatRequest, GroupSubscription

__all__ = ["check_group_name", "check_heartbeat", "check_new_group_name", "normalized"]


def check_group_name(group: str, settings: GroupSettings) -> None:
    _check_name("group", group, settings, may_be_empty=False)


def check_new_group_name(group: str, settings: GroupSettings) -> None:
    """Of one that may be made by the request. Those that are there can be looked at and deleted."""
    check_group_name(group, settings)
    if has_control_characters(group):
        raise InvalidRequest(f"group {group!r} has control characters in its name", group=group)


def check_heartbeat(request: GroupHeartbeatRequest, settings: GroupSettings) -> None:
    check_new_group_name(request.group, settings)
    _check_name("member_id", request.member_id, settings, may_be_empty=False)
    if request.member_epoch < AWAY_EPOCH:
        raise InvalidRequest(f"member_epoch {request.member_epoch}: {AWAY_EPOCH} is the least there is")
    if request.member_epoch == JOIN_EPOCH and request.owned:
        raise InvalidRequest(f"member {request.member_id} joins, and cannot own anything yet")
    if request.HasField("subscription"):
        _check_subscription(request.subscription, settings)


def normalized(subscription: GroupSubscription) -> GroupSubscription:
    """The same wish in the same words, so that it can be compared."""
    copy = GroupSubscription()
    copy.CopyFrom(subscription)
    del copy.topics[:]
    copy.topics.extend(sorted(set(subscription.topics)))
    return copy


def _check_subscription(subscription: GroupSubscription, settings: GroupSettings) -> None:
    if len(subscription.topics) > settings.subscription_topics_max:
        raise InvalidRequest(
            f"{len(subscription.topics)} topics in a subscription, {settings.subscription_topics_max} at "
            "most: a pattern may say the same",
            topics_max=settings.subscription_topics_max,
        )
    for name in subscription.topics:
        check_topic_name(name)
    if len(subscription.pattern) > settings.pattern_characters_max:
        raise InvalidPattern(
            f"a pattern of {len(subscription.pattern)} characters, {settings.pattern_characters_max} at most",
            characters_max=settings.pattern_characters_max,
        )
    if subscription.pattern:
        check_pattern(subscription.pattern)
    if subscription.assignor and subscription.assignor not in ASSIGNORS:
        raise InvalidRequest(f"assignor {subscription.assignor!r}: there are {', '.join(sorted(ASSIGNORS))}")
    if subscription.rebalance_timeout_ms < 0:
        raise InvalidRequest(f"rebalance_timeout_ms {subscription.rebalance_timeout_ms} is negative")
    for field in ("instance_id", "rack", "client_id", "host"):
        _check_name(field, getattr(subscription, field), settings, may_be_empty=True)


def _check_name(what: str, name: str, settings: GroupSettings, *, may_be_empty: bool) -> None:
    if len(name) > settings.name_characters_max or not (name or may_be_empty):
        raise InvalidRequest(
            f"{what} has {len(name)} characters: 1 to {settings.name_characters_max} are possible",
            characters_max=settings.name_characters_max,
        )
