"""The mutations as a whole: every rule that is kept has one, and the product knows nothing of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from quorate.chaos.mutations.evidence import RunFacts, evidence_page
from quorate.chaos.mutations.hunting import HuntOutcome, hunt
from quorate.chaos.mutations.hunts import SeededHunt, StoryHunt
from quorate.chaos.mutations.in_models import IN_MODELS, is_in_production, patched_modules
from quorate.chaos.mutations.mutation import Catch, Mutation
from quorate.chaos.mutations.promise_hunts import TESTS, PromiseHunt
from quorate.chaos.mutations.registry import MUTATIONS, find_mutation, mutations_of_rule
from quorate.chaos.sim.patch import Patch, _held_by

ROOT = Path(__file__).parents[2]
#: what runs in production; the console starts simulations, so it may import them
PRODUCTION = ("proto", "core", "rpc", "storage", "metadata", "controller", "broker", "client", "node")

_STATUS = re.compile(r"^### Rule (\d+):.*?^\*\*Status:\*\* (enforced|partly|groundwork|not yet)", re.M | re.S)


def implemented_rules() -> list[int]:
    text = (ROOT / "docs" / "safety-rules.md").read_text(encoding="utf-8")
    return [int(number) for number, kind in _STATUS.findall(text) if kind in ("enforced", "partly")]


# -- the registry


def test_every_rule_that_is_kept_has_a_mutation() -> None:
    assert [rule for rule in implemented_rules() if not mutations_of_rule(rule)] == []


def test_no_mutation_speaks_of_a_rule_that_is_not_kept() -> None:
    assert {rule for each in MUTATIONS for rule in each.rules} <= set(implemented_rules())


def test_a_mutation_is_found_by_its_name_and_by_every_rule_that_it_breaks() -> None:
    for each in MUTATIONS:
        assert find_mutation(each.name) is each
        assert all(each in mutations_of_rule(rule) for rule in each.rules)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_what_a_mutation_replaces_exists_and_is_put_back(mutation: Mutation) -> None:
    with Patch() as patch:
        mutation.apply(patch)
        replaced = list(patch._replaced)
    assert replaced
    for owner, name, before in replaced:
        assert _held_by(owner, name) is before


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_is_made_to_the_product_or_there_is_a_reason_why_not(mutation: Mutation) -> None:
    modules = patched_modules(mutation)
    others = [each for each in modules if not is_in_production(each)]
    assert bool(others) == (mutation.name in IN_MODELS), others


def test_reasons_are_given_of_mutations_that_there_are() -> None:
    assert IN_MODELS.keys() <= {each.name for each in MUTATIONS}


# -- the product


def modules_of(part: str) -> Iterator[Path]:
    return (path for path in (ROOT / part).rglob("*.py") if "_pb2" not in path.name)


@pytest.mark.parametrize("part", PRODUCTION)
def test_production_imports_nothing_of_chaos(part: str) -> None:
    for path in modules_of(part):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            assert not any(name.startswith("quorate.chaos") for name in names), path


@pytest.mark.parametrize("part", PRODUCTION)
def test_production_has_no_word_for_a_mutation(part: str) -> None:
    """Neither a flag nor a setting nor a variable of the environment could switch a rule off."""
    for path in modules_of(part):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\bmutat(ion|ed|e_)|\bmutants?\b", text, re.IGNORECASE), path


# -- the runner


class Sample:
    value = 1


def a_mutation(hunt: SeededHunt | StoryHunt) -> Mutation:
    return Mutation("sample", (1,), "a sample", lambda patch: patch.setattr(Sample, "value", 2), hunt)


def notice_from(first_seed: int) -> SeededHunt:
    def run(seed: int) -> None:
        assert Sample.value == 1 or seed < first_seed, "the value has changed"

    return SeededHunt("here", run, seeds_max=5)


def test_seeds_are_counted_up_to_the_one_that_notices() -> None:
    outcome = hunt(a_mutation(notice_from(3)))
    assert (outcome.seeds, outcome.seed) == (3, 3)
    assert outcome.catch == Catch("notice_from", "the value has changed")
    assert Sample.value == 1


def test_one_that_nobody_notices_has_survived() -> None:
    outcome = hunt(a_mutation(notice_from(9)))
    assert (outcome.seeds, outcome.seed, outcome.catch) == (5, None, None)


def test_a_seed_that_is_red_anyway_does_not_count() -> None:
    def run(seed: int) -> None:
        assert seed == 4, "always"
        assert Sample.value == 1, "at last"

    outcome = hunt(a_mutation(SeededHunt("here", run, seeds_max=5)))
    assert outcome.red_anyway == (1, 2, 3)
    assert outcome.catch == Catch("test_a_seed_that_is_red_anyway_does_not_count", "at last")


def test_a_promise_is_looked_at_in_each_of_its_cases_and_has_its_name() -> None:
    promise = PromiseHunt("here", __name__, keep_to.__name__, ((1,), (2,)))
    outcome = hunt(replace(a_mutation(notice_from(1)), hunt=promise))
    assert outcome.catch is not None
    assert outcome.catch.check == "keep_to"
    kept = PromiseHunt("here", __name__, keep_to.__name__, ((2,),))
    assert hunt(replace(a_mutation(notice_from(1)), hunt=kept)).catch is None


def keep_to(value: int) -> None:
    assert Sample.value <= value


def test_what_hunts_is_there_before_the_mutation_is_applied() -> None:
    """What is imported under a mutation would keep it."""
    seen: list[str] = []

    class Hunt:
        where, seeds_max = "here", 1

        def prepare(self) -> None:
            seen.append("prepared")

        def trial(self, seed: int) -> None:
            seen.append("tried")

    sample = a_mutation(notice_from(1))
    hunt(replace(sample, hunt=Hunt(), apply=lambda patch: seen.append("applied")))
    assert seen == ["prepared", "applied", "tried"]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_tests_that_hunt_are_in_folders_that_a_record_is_about(mutation: Mutation) -> None:
    if isinstance(mutation.hunt, PromiseHunt):
        mutation.hunt.prepare()
        assert mutation.hunt.module.replace(".", "/").startswith(TESTS)


def test_what_no_longer_exists_cannot_be_mutated() -> None:
    with Patch() as patch, pytest.raises(AttributeError, match="has to follow the code"):
        patch.setattr(Sample, "gone", 2)


def test_an_inherited_attribute_is_inherited_again_afterwards() -> None:
    class Child(Sample):
        pass

    with Patch() as patch:
        patch.setattr(Child, "value", 3)
        assert Child.value == 3
    assert "value" not in vars(Child)


# -- the evidence


def test_the_page_says_who_caught_what_and_who_survived() -> None:
    caught = a_mutation(notice_from(2))
    survivor = Mutation("other", (2, 7), "another | sample", caught.apply, caught.hunt)
    outcomes = {
        "sample": HuntOutcome("sample", 2, Catch("lost-write", "gone"), 1.0, 2),
        "other": HuntOutcome("other", 5, None, 2.0),
    }
    page = evidence_page([caught, survivor], outcomes, RunFacts("abc", "def", "today"))
    assert (
        "1 of 2 mutations of 3 rules were noticed, in 3 s of runs. Commit abc, sources `def`, today." in page
    )
    assert "| 1 | `sample` | a sample | here | 2 | `lost-write` |" in page
    assert "in the model" not in page.partition("| rule |")[2].partition("##")[0]
    assert "| 2, 7 | `other` | another / sample | here | 5 | **nobody** |" in page


def test_the_page_says_what_was_made_to_a_stand_in_of_the_product() -> None:
    name, reason = next(iter(IN_MODELS.items()))
    sample = replace(a_mutation(notice_from(2)), name=name)
    outcomes = {name: HuntOutcome(name, 2, Catch("lost-write", "gone"), 1.0, 2)}
    page = evidence_page([sample], outcomes, RunFacts("abc", "def", "today"))
    assert f"| 1 | `{name}` | a sample | here, in the model | 2 | `lost-write` |" in page
    assert f"| `{name}` | {reason} |" in page
