"""A campaign from the command line: which seeds, what is recorded, and what is said in the end."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from quorate.console.output import print_json, print_table
from quorate.console.session import Session
from quorate.console.simulating.progress import showing_progress

if TYPE_CHECKING:
    from pathlib import Path

    from quorate.chaos.campaign.campaign import CampaignResult, CampaignSettings

__all__ = ["missing_seeds", "run_campaign"]


def missing_seeds(root: Path, *, world: str, target: int) -> Sequence[int]:
    """What has yet to be run until ``target`` seeds stand for the sources as they are."""
    from quorate.chaos.campaign.evidence import read_records, standing
    from quorate.chaos.evidence.sources import current_sources

    found = standing(read_records(root), world=world, sources=current_sources(root))
    return found.seeds_missing(target)


def run_campaign(session: Session, settings: CampaignSettings, *, record_to: Path | None) -> int:
    """Exit status. ``record_to``: the checkout whose evidence grows by this."""
    from quorate.chaos.campaign.campaign import Campaign, CampaignObserver
    from quorate.chaos.campaign.recorder import CampaignRecorder, SourcesChanged

    recorder = None
    if record_to is not None:
        recorder = CampaignRecorder(record_to, world=settings.world, jobs=settings.jobs)
    try:
        with _ended_by_signals(), showing_progress(session, len(settings.seeds)) as progress:
            observers: list[CampaignObserver] = [progress] if recorder is None else [progress, recorder]
            result = Campaign(settings, observers).run()
        if recorder is not None:
            recorder.finish(result)
    except SourcesChanged as error:
        raise click.ClickException(str(error)) from None
    _print_result(session, settings, result)
    if result.is_interrupted:
        return 130
    return 1 if result.failing else 0


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Also when a machine shuts down, or a terminal closes: what was done is worth recording."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_result(session: Session, settings: CampaignSettings, result: CampaignResult) -> None:
    if session.json:
        _print_document(settings, result)
        return
    if result.counters:
        print_table(("COUNTER", "TOTAL"), _rows(result.counters))
    ends = []
    if result.failing:
        ends.append("one failed" if len(result.failing) == 1 else f"{len(result.failing)} failed")
    if result.is_interrupted:
        ends.append("then it was interrupted")
    what = f"{result.passed} seeds of the {settings.world} world passed"
    click.echo(", ".join([what, *ends]) + f" ({result.seconds:.1f} s)")
    for failing in result.failing:
        click.echo("\n".join(failing.report()), err=True)


def _rows(counters: Mapping[str, int]) -> list[tuple[str, int]]:
    """Of the log events, of which there are dozens, only how many kinds; the document has them all."""
    events = [name for name in counters if name.startswith("event: ")]
    faults = sorted(name for name in counters if name.startswith("fault: "))
    others = [name for name in counters if name not in events and name not in faults]
    rows = [(name.replace("_", " "), counters[name]) for name in (*others, *faults)]
    return [*rows, ("kinds of log events", len(events))] if events else rows


def _print_document(settings: CampaignSettings, result: CampaignResult) -> None:
    failures = [
        {
            "seed": failing.seed,
            "check": failing.failure.check,
            "failure": failing.failure.message,
            "directory": str(failing.directory),
            "events_left": len(failing.shrinking.smallest),
        }
        for failing in result.failing
    ]
    print_json(
        {
            "world": settings.world,
            "seeds_passed": result.passed,
            # the first alone, under the name that it had before there could be more
            "failed": failures[0] if failures else None,
            "failures": failures,
            "interrupted": result.is_interrupted,
            "seconds": round(result.seconds, 1),
            "counters": dict(result.counters),
        }
    )
