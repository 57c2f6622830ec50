"""What a member of a group says in place of an epoch when it has none: it comes, or it goes.

Epochs themselves are positive.
"""

from __future__ import annotations

from typing import Final

__all__ = ["AWAY_EPOCH", "JOIN_EPOCH", "LEAVE_EPOCH"]

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
#: of a static member that will be back
AWAY_EPOCH: Final = -2
