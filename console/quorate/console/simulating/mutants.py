"""Hunts mutations and shows how far it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import click

from quorate.console.output import print_json, print_table
from quorate.console.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from quorate.chaos.mutations.evidence import RunFacts
    from quorate.chaos.mutations.hunting import HuntOutcome
    from quorate.chaos.mutations.mutation import Mutation
    from quorate.chaos.mutations.recorded_hunts import RecordedHunts

__all__ = ["choose_mutations", "list_mutations", "record_by_themselves", "run_mutations"]


def choose_mutations(session: Session, *, rule: int | None, names: Sequence[str]) -> list[Mutation]:
    from quorate.chaos.mutations import of_control
    from quorate.chaos.mutations.promise_hunts import PromiseHunt, has_tests
    from quorate.chaos.mutations.registry import MUTATIONS
    from quorate.chaos.raft_control.pysyncobj_package import load_pysyncobj
    from quorate.errors import MissingExtra

    unknown = [name for name in names if name not in {each.name for each in MUTATIONS}]
    if unknown:
        raise click.UsageError(f"there is no mutation {unknown[0]!r}: see quorate sim mutants --list")
    chosen = [
        each
        for each in MUTATIONS
        if (not names or each.name in names) and (rule is None or rule in each.rules)
    ]
    if not chosen:
        raise click.UsageError(f"rule {rule} has no mutation: it is not implemented")
    try:
        load_pysyncobj()
    except MissingExtra as error:
        session.note(f"left out: {error.message}")
        chosen = [each for each in chosen if each not in of_control.MUTATIONS]
    if not has_tests():
        session.note("left out: mutations that are hunted by tests, which only a source checkout has")
        chosen = [each for each in chosen if not isinstance(each.hunt, PromiseHunt)]
    return chosen


def list_mutations(session: Session, mutations: Sequence[Mutation]) -> int:
    if session.json:
        print_json([_described(each) for each in mutations])
    else:
        rows = [(", ".join(map(str, each.rules)), each.name, each.hunt.where) for each in mutations]
        print_table(("RULE", "MUTATION", "HUNTED IN"), rows)
    return 0


def run_mutations(
    session: Session,
    mutations: Sequence[Mutation],
    *,
    jobs: int,
    seeds_max: int | None,
    record_to: Path | None,
    is_resumed: bool = False,
) -> int:
    """Exit status. ``record_to``: the checkout whose evidence this is."""
    from quorate.chaos.mutations.recorded_hunts import RecordedHunts

    outcomes: dict[str, HuntOutcome] = {}
    recorded = None if record_to is None else RecordedHunts(record_to)
    if recorded is not None:
        if is_resumed:
            outcomes |= recorded.standing()
            session.note(f"{len(outcomes)} of {len(mutations)} mutations were noticed before")
        recorded.begin(outcomes.values())
    missing = [each for each in mutations if each.name not in outcomes]
    try:
        _hunt(session, missing, outcomes, jobs=jobs, seeds_max=seeds_max, recorded=recorded)
    except KeyboardInterrupt:
        _print_outcomes(session, mutations, outcomes)
        return 130
    if record_to is not None:
        _record(record_to, mutations, outcomes)
    _print_outcomes(session, mutations, outcomes)
    return 1 if any(outcome.catch is None for outcome in outcomes.values()) else 0


def record_by_themselves(session: Session, mutations: Sequence[Mutation], *, jobs: int, root: Path) -> int:
    """Exit status. What was recorded of all others stays."""
    from quorate.chaos.mutations.evidence import facts_on_page, write_evidence_page
    from quorate.chaos.mutations.recorded_hunts import CodeChanged, RecordedHunts
    from quorate.chaos.mutations.registry import MUTATIONS

    recorded = RecordedHunts(root)
    facts, before = _facts_of(root), facts_on_page(root)
    outcomes: dict[str, HuntOutcome] = {}
    _hunt(session, mutations, outcomes, jobs=jobs, seeds_max=None, recorded=None)
    try:
        recorded.put(list(outcomes.values()), facts)
    except CodeChanged as error:
        raise click.ClickException(str(error)) from None
    lines = {line.outcome.mutation: line for line in recorded.lines()}
    listed = [each for each in MUTATIONS if each.name in lines]
    write_evidence_page(
        root,
        listed,
        {each.name: lines[each.name].outcome for each in listed},
        before,
        {each.name: found for each in listed if (found := lines[each.name].by_itself) is not None},
    )
    _print_outcomes(session, mutations, outcomes)
    return 1 if any(outcome.catch is None for outcome in outcomes.values()) else 0


def _hunt(
    session: Session,
    mutations: Sequence[Mutation],
    outcomes: dict[str, HuntOutcome],
    *,
    jobs: int,
    seeds_max: int | None,
    recorded: RecordedHunts | None,
) -> None:
    """Adds to ``outcomes``, as hunts end."""
    from quorate.chaos.mutations.hunting import hunt_all
    from quorate.chaos.mutations.recorded_hunts import CodeChanged

    if not mutations:
        return
    with _showing_progress(session, len(mutations)) as progress:
        for outcome in hunt_all(mutations, jobs=min(jobs, len(mutations)), seeds_max=seeds_max):
            if recorded is not None:
                try:
                    recorded.add(outcome)
                except CodeChanged as error:
                    raise click.ClickException(str(error)) from None
            outcomes[outcome.mutation] = outcome
            progress.done(outcome)


def _record(root: Path, mutations: Sequence[Mutation], outcomes: dict[str, HuntOutcome]) -> None:
    from quorate.chaos.mutations.evidence import write_evidence_page

    write_evidence_page(root, mutations, outcomes, _facts_of(root))


def _facts_of(root: Path) -> RunFacts:
    """As of now."""
    from quorate.chaos.evidence.checkout import commit_of, commit_words
    from quorate.chaos.evidence.sources import current_sources
    from quorate.chaos.mutations.evidence import RunFacts

    commit = commit_of(root)
    name = commit_words(commit.name, is_clean=commit.is_clean)
    return RunFacts(name, current_sources(root), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))


def _print_outcomes(
    session: Session, mutations: Sequence[Mutation], outcomes: dict[str, HuntOutcome]
) -> None:
    run = [(each, outcomes[each.name]) for each in mutations if each.name in outcomes]
    if session.json:
        print_json([{**_described(each), **_result(outcome)} for each, outcome in run])
        return
    rows = [
        (
            ", ".join(map(str, each.rules)),
            each.name,
            each.hunt.where,
            str(outcome.seeds),
            "NOBODY" if outcome.catch is None else outcome.catch.check,
        )
        for each, outcome in run
    ]
    print_table(("RULE", "MUTATION", "HUNTED IN", "SEEDS", "CAUGHT BY"), rows)
    caught = sum(outcome.catch is not None for _, outcome in run)
    click.echo(f"{caught} of {len(run)} mutations were noticed")


def _described(mutation: Mutation) -> dict[str, object]:
    return {
        "name": mutation.name,
        "rules": list(mutation.rules),
        "what": mutation.what,
        "hunted_in": mutation.hunt.where,
    }


def _result(outcome: HuntOutcome) -> dict[str, object]:
    catch = outcome.catch
    return {
        "seeds": outcome.seeds,
        "seconds": round(outcome.seconds, 2),
        "caught_by": None if catch is None else catch.check,
        "finding": None if catch is None else catch.finding,
    }


class _Progress(Protocol):
    def done(self, outcome: HuntOutcome) -> None: ...


class _Lines:
    """Where there is no terminal: a line for each."""

    def __init__(self, session: Session, total: int) -> None:
        self._session = session
        self._total = total
        self._count = 0

    def done(self, outcome: HuntOutcome) -> None:
        self._count += 1
        self._session.note(f"{self._count} of {self._total}: {_told(outcome)}")


@contextmanager
def _showing_progress(session: Session, total: int) -> Iterator[_Progress]:
    if not session.shows_progress:
        yield _Lines(session, total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("mutations"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("mutations", total=total)

        class Bar:
            def done(self, outcome: HuntOutcome) -> None:
                progress.advance(task)
                if outcome.catch is None:
                    progress.console.print(_told(outcome), markup=False, highlight=False)

        yield Bar()


def _told(outcome: HuntOutcome) -> str:
    if outcome.catch is None:
        return f"{outcome.mutation}: not noticed in {outcome.seeds} seeds"
    return f"{outcome.mutation}: seed {outcome.seed}, {outcome.catch.check}"
