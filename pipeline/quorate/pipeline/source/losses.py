"""What a query goes on without, and what it is told where it does not.

Records that retention took leave a gap, and all that was read before stays right. After a log was cut off, or
a topic was deleted, what was read before is of records that are not there any more, and others will have
their offsets: who keeps records by offset must not go on then, whatever else may be missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quorate.core.ids import TopicPartition

__all__ = ["LossRules", "tell_of_lost"]

_JOB_SETTING: Final = "fail.on.data.loss=false, for a job that follows a topic"


@dataclass(frozen=True, slots=True)
class LossRules:
    #: `failOnDataLoss`: nothing may be missing
    is_strict: bool
    #: `dataLossAllowed`: what retention took is all that may be missing
    only_retention: bool = False

    @property
    def allows_gaps(self) -> bool:
        """What is missing is missing; what was read before stays right."""
        return not self.is_strict

    @property
    def allows_going_back(self) -> bool:
        """What was read before may be of records that are not there any more."""
        return not self.is_strict and not self.only_retention

    @property
    def advice_on_gaps(self) -> str:
        return (
            f"With failOnDataLoss=false ({_JOB_SETTING}) the query goes on with what there is, with a warning"
        )

    @property
    def advice_on_going_back(self) -> str:
        if self.only_retention:
            return (
                "What was read before is of records that are not there any more, so begin anew: with another "
                "checkpoint, and another path if there is one"
            )
        return "With failOnDataLoss=false the query goes on with what there is, with a warning"


def tell_of_lost(partition: TopicPartition, offset: int, resume: int, why: str) -> None:
    """Of the offsets from one to the other, which a query goes on without."""
    # Who loses nothing, as most processes of a query, does without it.
    from quorate.core.logging import get_logger

    get_logger(__name__).warning(
        "data_lost",
        partition=str(partition),
        from_offset=offset,
        to_offset=resume,
        offsets=resume - offset,
        why=why,
    )
