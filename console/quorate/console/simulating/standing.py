"""What the evidence amounts to for the sources as they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from quorate.console.output import print_json
from quorate.console.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from quorate.chaos.campaign.evidence import Standing

__all__ = ["print_standing", "write_page"]


def print_standing(session: Session, root: Path, *, world: str, target: int | None) -> int:
    from quorate.chaos.campaign.evidence import read_records, standing
    from quorate.chaos.evidence.sources import current_sources

    with _unreadable_told():
        records = read_records(root)
    found = standing(records, world=world, sources=current_sources(root))
    if session.json:
        print_json(_document(found))
    else:
        _print(found)
    is_enough = target is None or len(found.passed) >= target
    return 0 if is_enough and not found.failed else 1


def write_page(root: Path) -> None:
    """It follows from the records: to be written anew when two branches with records were merged."""
    from quorate.chaos.campaign.evidence_page import write_evidence_page

    with _unreadable_told():
        write_evidence_page(root)


@contextmanager
def _unreadable_told() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise click.ClickException(str(error)) from None


def _document(found: Standing) -> dict[str, object]:
    from quorate.chaos.campaign.seed_ranges import format_seeds

    return {
        "world": found.world,
        "sources": found.sources,
        "seeds_standing": len(found.passed),
        "seeds": format_seeds(found.passed),
        "failed": {str(seed): check for seed, check in sorted(found.failed.items())},
        "runs": found.runs,
        "seconds": round(found.seconds, 1),
    }


def _print(found: Standing) -> None:
    from quorate.chaos.campaign.seed_ranges import format_seeds

    seeds = f": {format_seeds(found.passed)}" if found.passed else ""
    click.echo(f"sources {found.sources}, {found.world} world")
    click.echo(f"{len(found.passed)} seeds stand{seeds}")
    for seed, check in sorted(found.failed.items()):
        click.echo(f"seed {seed} failed: {check}")
    if found.runs:
        click.echo(f"{found.runs} recorded runs, {found.seconds / 3600:.2f} hours")
