"""docs/evidence/mutations.md: who misses which rule when it is gone, as found by a run of all mutations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from quorate.chaos.evidence.markdown import table, write_page
from quorate.chaos.evidence.record_lines import EVIDENCE_DIRECTORY
from quorate.chaos.mutations.hunting import HuntOutcome
from quorate.chaos.mutations.in_models import IN_MODELS
from quorate.chaos.mutations.missed import MISSED
from quorate.chaos.mutations.mutation import Mutation

__all__ = ["EVIDENCE_PAGE", "RunFacts", "evidence_page", "facts_on_page", "write_evidence_page"]

EVIDENCE_PAGE: Final = f"{EVIDENCE_DIRECTORY}/mutations.md"

_HEAD: Final = """\
# Evidence: mutations

Written by `quorate sim mutants --record` from [mutations.jsonl](mutations.jsonl), which has a line for every
hunt, with what was found and how long it took. Do not edit.

Each row is one safety rule ([safety-rules.md](../safety-rules.md)) switched off in the real code, in a way in
which somebody might really get it wrong, and what noticed: an invariant, or a check of what clients saw.
Where it says *in the model*, it was not the product's code: see below.
*Seeds* is how many seeds it took, counted from 1; a story without chance takes one. Their
sources:
[chaos/quorate/chaos/mutations](../../chaos/quorate/chaos/mutations). To see one again:
`quorate sim mutants --name NAME`.

"""

_IN_MODELS_HEAD: Final = """
## Made in the model

These are not made to the product, but to what stands in for it where they are hunted. They say that it would
be noticed there, and nothing about the product.

"""

_MISSED_HEAD: Final = """
## What the whole cluster did not notice

The table has mutations where somebody notices them. These were tried in the whole cluster as well, and it did
not notice within the seeds given, which are few.

"""

_COLUMNS: Final = ("rule", "mutation", "more about it", "hunted in", "seeds", "caught by")
_IN_MODELS_COLUMNS: Final = ("mutation", "why")
_MISSED_COLUMNS: Final = ("rule", "what was switched off", "seeds", "why", "where it is noticed instead")


#: as the page says them of the run of all
_FACTS: Final = re.compile(r"Commit (?P<commit>.+?), sources `(?P<sources>\w+)`, (?P<recorded_at>.+?)\.\n")


class RunFacts(NamedTuple):
    """What the page says about the run as a whole."""

    commit: str
    #: digest of what raft, replication and recovery consist of
    sources: str
    recorded_at: str


def facts_on_page(root: Path) -> RunFacts:
    """Of the last run of all mutations."""
    found = _FACTS.search((root / EVIDENCE_PAGE).read_text(encoding="utf-8"))
    assert found is not None, "no recorded run has written this page"
    return RunFacts(**found.groupdict())


def write_evidence_page(
    root: Path,
    mutations: Sequence[Mutation],
    outcomes: Mapping[str, HuntOutcome],
    facts: RunFacts,
    by_themselves: Mapping[str, RunFacts] | None = None,
) -> None:
    write_page(root, EVIDENCE_PAGE, evidence_page(mutations, outcomes, facts, by_themselves))


def evidence_page(
    mutations: Sequence[Mutation],
    outcomes: Mapping[str, HuntOutcome],
    facts: RunFacts,
    by_themselves: Mapping[str, RunFacts] | None = None,
) -> str:
    """``by_themselves``: mutations that were hunted after the run that ``facts`` tells of."""
    found = [each for each in mutations if outcomes[each.name].catch is not None]
    rules = {rule for each in mutations for rule in each.rules}
    seconds = sum(outcome.seconds for outcome in outcomes.values())
    summary = (
        f"{len(found)} of {len(mutations)} mutations of {len(rules)} rules were noticed, "
        f"in {seconds:,.0f} s of runs. Commit {facts.commit}, sources `{facts.sources}`, "
        f"{facts.recorded_at}.\n\n"
    )
    rows = (_row(each, outcomes[each.name]) for each in mutations)
    missed = (tuple(map(str, each)) for each in MISSED)
    summary += _hunted_since(by_themselves or {})
    models = ((f"`{each.name}`", IN_MODELS[each.name]) for each in mutations if each.name in IN_MODELS)
    in_models = _IN_MODELS_HEAD + table(_IN_MODELS_COLUMNS, models)
    return _HEAD + summary + table(_COLUMNS, rows) + in_models + _MISSED_HEAD + table(_MISSED_COLUMNS, missed)


def _hunted_since(by_themselves: Mapping[str, RunFacts]) -> str:
    names: dict[RunFacts, list[str]] = {}
    for name, facts in by_themselves.items():
        names.setdefault(facts, []).append(f"`{name}`")
    told = [
        f"- commit {facts.commit}, sources `{facts.sources}`, {facts.recorded_at}: {', '.join(found)}\n"
        for facts, found in names.items()
    ]
    return f"Hunted since then, by themselves:\n\n{''.join(told)}\n" if told else ""


def _row(mutation: Mutation, outcome: HuntOutcome) -> tuple[str, ...]:
    caught_by = "**nobody**" if outcome.catch is None else f"`{outcome.catch.check}`"
    return (
        ", ".join(map(str, mutation.rules)),
        f"`{mutation.name}`",
        mutation.what,
        mutation.hunt.where + (", in the model" if mutation.name in IN_MODELS else ""),
        str(outcome.seeds),
        caught_by,
    )
