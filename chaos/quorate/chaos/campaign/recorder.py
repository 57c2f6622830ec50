"""Writes down what a campaign has done, while it goes on."""

from __future__ import annotations

import platform
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from quorate.chaos.campaign.campaign import CampaignResult
from quorate.chaos.campaign.evidence import RunRecord, append_record
from quorate.chaos.campaign.evidence_page import write_evidence_page
from quorate.chaos.campaign.failing_seed import FailingSeed
from quorate.chaos.campaign.outcome import RunOutcome
from quorate.chaos.campaign.seed_ranges import format_seeds
from quorate.chaos.evidence.checkout import commit_of
from quorate.chaos.evidence.sources import SIMULATOR, current_sources, digest_of

__all__ = ["CampaignRecorder", "SourcesChanged"]

#: a campaign that is killed loses what it did since
_RECORD_EVERY_S: Final = 300.0


class SourcesChanged(Exception):
    """Somebody has edited what the campaign was testing: nobody can say which seeds ran on what."""


class CampaignRecorder:
    """An observer of a campaign; ``finish`` has to be called at its end."""

    def __init__(self, root: Path, *, world: str, jobs: int) -> None:
        self._root = root
        self._world = world
        self._jobs = jobs
        self._sources = current_sources(root)
        self._simulator = digest_of(root, SIMULATOR)
        self._commit = commit_of(root)
        self._seeds: list[int] = []
        self._failed: dict[int, str] = {}
        #: up to the last seed: making failing ones small and readable is no part of it
        self._since_s = self._last_seed_s = time.monotonic()

    @property
    def sources(self) -> str:
        return self._sources

    def seed_done(self, outcome: RunOutcome) -> None:
        self._last_seed_s = time.monotonic()
        self._seeds.append(outcome.seed)
        if outcome.failure is not None:
            self._failed[outcome.seed] = outcome.failure.check

    def shrinking(self, failing: FailingSeed) -> None:
        """Not evidence: it runs parts of plans."""

    def waiting(self) -> None:
        if time.monotonic() - self._since_s >= _RECORD_EVERY_S:
            # Whether it will be interrupted is not known yet; this much of it was not.
            self._write(is_interrupted=False)

    def finish(self, result: CampaignResult) -> None:
        self._write(is_interrupted=result.is_interrupted)

    def _write(self, *, is_interrupted: bool) -> None:
        """``SourcesChanged``: what was run since the last time is not recorded."""
        if not self._seeds:
            return
        self._check_sources()
        append_record(
            self._root,
            RunRecord(
                recorded_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
                world=self._world,
                commit=self._commit.name,
                is_clean=self._commit.is_clean,
                sources=self._sources,
                simulator=self._simulator,
                seeds=format_seeds(self._seeds),
                seeds_run=len(set(self._seeds)),
                failed={str(seed): check for seed, check in sorted(self._failed.items())},
                seconds=round(self._last_seed_s - self._since_s, 1),
                jobs=self._jobs,
                python=platform.python_version(),
                is_interrupted=is_interrupted,
            ),
        )
        write_evidence_page(self._root)
        self._seeds, self._failed, self._since_s = [], {}, self._last_seed_s

    def _check_sources(self) -> None:
        """Workers are started again and again, and each time they load what is there."""
        if (
            current_sources(self._root) != self._sources
            or digest_of(self._root, SIMULATOR) != self._simulator
        ):
            raise SourcesChanged(
                f"the sources were changed while they were tested: {len(self._seeds)} seeds are not recorded"
            )
