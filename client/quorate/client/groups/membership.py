"""Who a consumer is in its group."""

from __future__ import annotations

import os
import random
from typing import NamedTuple

from quorate.core.topic_names import topic_id_from

__all__ = ["Membership", "new_member_id"]


class Membership(NamedTuple):
    group: str
    #: as ``quorate group describe`` shows it; another one after every time that it joins
    member_id: str
    #: grows with what the group decides; commits are fenced by it
    epoch: int


def new_member_id(rng: random.Random | None) -> str:
    """Unique for ever: 128 random bits. ``rng``: of a simulation."""
    return topic_id_from(os.urandom(16) if rng is None else rng.randbytes(16))
