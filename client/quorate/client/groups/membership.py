"""Who a consumer is in its group."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Membership"]


class Membership(NamedTuple):
    group: str
    #: as ``quorate group describe`` shows it; another one after every time that it joins
    member_id: str
    #: grows with what the group decides; commits are fenced by it
    epoch: int
