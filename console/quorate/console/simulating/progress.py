"""How far a campaign is: a bar on a terminal, a line now and then where there is none."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from quorate.console.session import Session

if TYPE_CHECKING:
    from rich.progress import Progress

    from quorate.chaos.campaign.campaign import CampaignObserver
    from quorate.chaos.campaign.failing_seed import FailingSeed
    from quorate.chaos.campaign.outcome import RunOutcome

__all__ = ["showing_progress"]

_LINE_EVERY_S: Final = 10.0


@contextmanager
def showing_progress(session: Session, total: int) -> Iterator[CampaignObserver]:
    """``total``: seeds that are to be run."""
    if not session.shows_progress:
        yield _Lines(session, total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _Bar(progress, total)


class _Bar:
    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("seeds", total=total)

    def seed_done(self, outcome: RunOutcome) -> None:
        self._progress.advance(self._task)
        if outcome.failure is not None:
            self._progress.console.print(_one_failed(outcome), markup=False, highlight=False)

    def shrinking(self, failing: FailingSeed) -> None:
        # How many tries it will take is not known before.
        self._progress.update(self._task, description=_shrinking(failing), total=None)

    def waiting(self) -> None:
        """The bar moves by itself."""


class _Lines:
    def __init__(self, session: Session, total: int) -> None:
        self._session = session
        self._total = total
        self._done = self._failed = 0
        self._last_s = self._began_s = time.monotonic()

    def seed_done(self, outcome: RunOutcome) -> None:
        self._done += 1
        self._failed += outcome.failure is not None
        if outcome.failure is not None:
            self._session.note(_one_failed(outcome))

    def shrinking(self, failing: FailingSeed) -> None:
        if self._is_time():
            self._session.note(_shrinking(failing))

    def waiting(self) -> None:
        if self._is_time():
            rate = self._done / (self._last_s - self._began_s)
            self._session.note(
                f"{self._done} of {self._total} seeds, {self._failed} failed, {rate:.1f} a second"
            )

    def _is_time(self) -> bool:
        now_s = time.monotonic()
        if now_s - self._last_s < _LINE_EVERY_S:
            return False
        self._last_s = now_s
        return True


def _one_failed(outcome: RunOutcome) -> str:
    assert outcome.failure is not None
    return f"seed {outcome.seed} failed: {outcome.failure.check}"


def _shrinking(failing: FailingSeed) -> str:
    shrinking = failing.shrinking
    return f"shrinking seed {failing.seed}: {len(shrinking.smallest)} events left, {shrinking.tries} tries"
