"""What a leader knows of its followers, in one leader epoch.

A fetch says it all: its offset is the follower's log end, everything before it is stored there (rule 16), and
it names the process that stored it (rule 25). Nothing is carried over from an earlier leader epoch: a replica
may have been emptied, removed and added again in between (rule 7).

*Caught up* (rule 26) is a matter of time and not of bytes. A follower is caught up while its log ends where
the leader's ends. When it is behind, it was last caught up

- at the moment the leader's log grew past it, or
- at its previous fetch, if it has now reached what the log's end was then: it keeps pace, one exchange
  behind.

A follower that waits at the end of a quiet log does not fetch again and again; it stays caught up for as long
as nothing is appended. So the moment of the first append after it matters, and is noted (``log_grows``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from quorate.core.ids import BrokerEpoch, BrokerId, Offset
from quorate.errors import StaleBrokerEpoch

__all__ = ["Follower", "Followers"]

#: no fetch in this leader epoch yet
_UNKNOWN: Final = Offset(-1)
_NO_EPOCH: Final = BrokerEpoch(-1)
_NEVER: Final = float("-inf")
_BEYOND_ALL: Final = Offset((1 << 63) - 1)


class Follower:
    __slots__ = (
        "_fetched_at",
        "_log_end_at_fetch",
        "broker_epoch",
        "broker_id",
        "caught_up_at",
        "is_at_end",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: BrokerId, *, caught_up_at: float) -> None:
        self.broker_id = broker_id
        #: of the process that fetched last
        self.broker_epoch = _NO_EPOCH
        #: exclusive; -1 before its first fetch in this leader epoch
        self.log_end_offset = _UNKNOWN
        #: the first that it holds; -1 before its first fetch in this leader epoch
        self.log_start_offset = _UNKNOWN
        #: by the monotonic clock; out of date while ``is_at_end``
        self.caught_up_at = caught_up_at
        #: at its last fetch its log ended where the leader's ended
        self.is_at_end = False
        self._fetched_at = _NEVER
        self._log_end_at_fetch = _BEYOND_ALL

    @property
    def has_fetched(self) -> bool:
        """In this leader epoch (rule 7)."""
        return self.log_end_offset != _UNKNOWN

    def note(
        self,
        broker_epoch: BrokerEpoch,
        fetch_offset: Offset,
        log_start_offset: Offset,
        log_end_offset: Offset,
        now: float,
    ) -> None:
        """Its log reaches from ``log_start_offset`` to ``fetch_offset``. ``log_end_offset``: the leader's."""
        if broker_epoch < self.broker_epoch:
            raise StaleBrokerEpoch(
                f"broker {self.broker_id} fetched with epoch {self.broker_epoch} before, now {broker_epoch}",
                broker_id=self.broker_id,
                broker_epoch=broker_epoch,
            )
        self.broker_epoch = broker_epoch
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.is_at_end = fetch_offset >= log_end_offset
        if self.is_at_end:
            self.caught_up_at = now
        elif fetch_offset >= self._log_end_at_fetch:
            self.caught_up_at = max(self.caught_up_at, self._fetched_at)
        self._fetched_at = now
        self._log_end_at_fetch = log_end_offset

    def is_lagging(self, now: float, lag_s: float) -> bool:
        """Rule 26. At the end of the log nobody lags, however long ago that was."""
        return not self.is_at_end and now - self.caught_up_at > lag_s

    def is_silent(self, now: float, lag_s: float) -> bool:
        """It has not come for what the log holds beyond it."""
        return not self.is_at_end and now - self._fetched_at > lag_s

    def give_time(self, now: float) -> None:
        """About to be admitted: it has as long as any member to reach the end."""
        self.caught_up_at = max(self.caught_up_at, now)


class Followers:
    """Every other replica of the partition."""

    __slots__ = ("_at_end", "_by_id")

    def __init__(self) -> None:
        #: in the order of the replicas
        self._by_id: dict[BrokerId, Follower] = {}
        #: those that ``log_grows`` has to stamp
        self._at_end: list[Follower] = []

    def __iter__(self) -> Iterator[Follower]:
        return iter(self._by_id.values())

    def get(self, broker_id: BrokerId) -> Follower | None:
        return self._by_id.get(broker_id)

    def assign(self, broker_ids: Iterable[BrokerId], in_sync: Iterable[BrokerId], now: float) -> None:
        """The replicas as of now. A new one in the ISR gets time to make its first fetch."""
        members = frozenset(in_sync)
        before, self._by_id = self._by_id, {}
        for broker_id in broker_ids:
            known = before.get(broker_id)
            self._by_id[broker_id] = known or Follower(
                broker_id, caught_up_at=now if broker_id in members else _NEVER
            )
        self._at_end = [each for each in self if each.is_at_end]

    def note(
        self,
        follower: Follower,
        broker_epoch: BrokerEpoch,
        fetch_offset: Offset,
        log_start_offset: Offset,
        log_end_offset: Offset,
        now: float,
    ) -> None:
        was_at_end = follower.is_at_end
        follower.note(broker_epoch, fetch_offset, log_start_offset, log_end_offset, now)
        if follower.is_at_end != was_at_end:
            if was_at_end:
                self._at_end.remove(follower)
            else:
                self._at_end.append(follower)

    @property
    def is_anyone_at_end(self) -> bool:
        return bool(self._at_end)

    def log_grows(self, now: float) -> None:
        """Whoever was at the end is behind from now on."""
        for follower in self._at_end:
            follower.is_at_end = False
            follower.caught_up_at = now
        self._at_end.clear()
