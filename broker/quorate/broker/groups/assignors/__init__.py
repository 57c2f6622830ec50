"""Who is to read what: pure functions from subscriptions and the last targets to new ones.

- ``uniform``: everybody gets as many partitions as everybody else, and keeps what it has;
- ``range``: partitions of the same number, of topics that have equally many, go to the same member.
"""

from typing import Final

from quorate.broker.groups.assignors.problem import (
    AssignableMember,
    AssignableTopic,
    Assignment,
    Assignor,
)
from quorate.broker.groups.assignors.range_assignor import assign_range
from quorate.broker.groups.assignors.uniform import assign_uniform

__all__ = ["ASSIGNORS", "DEFAULT_ASSIGNOR", "AssignableMember", "AssignableTopic", "Assignment", "Assignor"]

DEFAULT_ASSIGNOR: Final = "uniform"
ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}
