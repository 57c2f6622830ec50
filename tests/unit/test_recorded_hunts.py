"""What a recorded run of all mutations leaves, and what of it stands for the next one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quorate.chaos.mutations import registry
from quorate.chaos.mutations.evidence import EVIDENCE_PAGE, RunFacts, facts_on_page, write_evidence_page
from quorate.chaos.mutations.hunting import HuntOutcome
from quorate.chaos.mutations.mutation import Catch
from quorate.chaos.mutations.recorded_hunts import HUNTED_IN, CodeChanged, RecordedHunts
from quorate.chaos.mutations.registry import MUTATIONS, find_mutation
from quorate.console.main import main
from tests.unit.campaign.small_checkout import make_checkout

ROOT = Path(__file__).parents[2]

NOTICED = HuntOutcome("noticed", 3, Catch("lost-write", "record 7 is gone"), 1.5, seed=3, red_anyway=(1,))
SURVIVOR = HuntOutcome("survivor", 5, None, 2.0)

#: hunted in no time
QUICK = ("duplicate-is-called-out-of-order", "followers-are-carried-over")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """With something at every place that is hunted in."""
    (tmp_path / "docs").mkdir()
    for name in HUNTED_IN:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "module.py").write_text("x = 1\n")
    return make_checkout(tmp_path)


def recorded(checkout: Path, *outcomes: HuntOutcome) -> RecordedHunts:
    hunts = RecordedHunts(checkout)
    hunts.begin()
    for outcome in outcomes:
        hunts.add(outcome)
    return hunts


# -- what stands


def test_a_mutation_that_was_noticed_stands_and_one_that_survived_does_not(checkout: Path) -> None:
    recorded(checkout, NOTICED, SURVIVOR)
    assert RecordedHunts(checkout).standing() == {"noticed": NOTICED}


@pytest.mark.parametrize("name", HUNTED_IN)
def test_nothing_stands_for_other_code(checkout: Path, name: str) -> None:
    recorded(checkout, NOTICED)
    (checkout / name / "module.py").write_text("x = 2\n")
    assert RecordedHunts(checkout).standing() == {}


def test_comments_are_no_other_code(checkout: Path) -> None:
    hunts = recorded(checkout, NOTICED)
    (checkout / HUNTED_IN[0] / "module.py").write_text("x = 1  # one\n")
    hunts.add(SURVIVOR)
    assert RecordedHunts(checkout).standing() == {"noticed": NOTICED}


def test_a_run_keeps_no_line_but_what_it_begins_with(checkout: Path) -> None:
    recorded(checkout, NOTICED, SURVIVOR)
    RecordedHunts(checkout).begin([NOTICED])
    [line] = (checkout / "docs/evidence/mutations.jsonl").read_text().splitlines()
    assert '"noticed"' in line


def test_a_hunt_in_code_that_was_edited_meanwhile_is_not_recorded(checkout: Path) -> None:
    hunts = recorded(checkout, NOTICED)
    (checkout / HUNTED_IN[0] / "module.py").write_text("x = 2\n")
    with pytest.raises(CodeChanged):
        hunts.add(SURVIVOR)


# -- the command


def test_a_run_that_is_resumed_hunts_what_does_not_stand(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("quorate.chaos.evidence.checkout.find_checkout", lambda: checkout)
    monkeypatch.setattr(registry, "MUTATIONS", tuple(find_mutation(name) for name in QUICK))
    first, second = QUICK
    standing = HuntOutcome(first, 1, Catch("as-it-was-found-before", ""), 1.0, seed=1)
    recorded(checkout, standing)

    assert main(["sim", "mutants", "--record", "--resume", "--jobs", "1"]) == 0

    assert "2 of 2 mutations were noticed" in capsys.readouterr().out
    found = RecordedHunts(checkout).standing()
    assert found[first] == standing
    assert found[second].catch is not None
    page = (checkout / EVIDENCE_PAGE).read_text()
    assert "`as-it-was-found-before`" in page
    assert f"`{second}`" in page


def test_one_that_is_hunted_by_itself_is_recorded_beside_the_others_with_its_own_commit(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.chaos.evidence.checkout.find_checkout", lambda: checkout)
    first, second = QUICK
    other = HuntOutcome(first, 1, Catch("as-it-was-found-before", ""), 1.0, seed=1)
    recorded(checkout, other, HuntOutcome(second, 5, None, 2.0))
    facts = RunFacts("of-the-run-of-all", "abc", "long ago")
    write_evidence_page(checkout, [find_mutation(first)], {first: other}, facts)

    assert main(["sim", "mutants", "--record", "--name", second, "--jobs", "1"]) == 0

    lines = {each.outcome.mutation: each for each in RecordedHunts(checkout).lines()}
    assert lines[first].outcome == other
    assert lines[first].by_itself is None
    assert lines[second].outcome.catch is not None
    own = lines[second].by_itself
    assert own is not None
    page = (checkout / EVIDENCE_PAGE).read_text()
    assert facts_on_page(checkout) == facts
    assert f"- commit {own.commit}, sources `{own.sources}`, {own.recorded_at}: `{second}`" in page
    assert "`as-it-was-found-before`" in page


# -- the page of this repository


def test_the_page_lists_every_mutation_and_none_survives() -> None:
    """`quorate sim mutants --record --resume` hunts those that are missing; `--record --name` a new one."""
    page = (ROOT / EVIDENCE_PAGE).read_text(encoding="utf-8")
    rows = re.findall(r"^\| [\d, ]+ \| `([^`]+)` \|.*\| ([^|]+) \|$", page, re.M)
    assert sorted(name for name, _ in rows) == sorted(each.name for each in MUTATIONS)
    assert [name for name, caught_by in rows if caught_by == "**nobody**"] == []
