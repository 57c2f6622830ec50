"""Recorded runs: which sources they speak of, how they add up, and that the page says what the file says."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from quorate.chaos.campaign.campaign import CampaignResult
from quorate.chaos.campaign.evidence import RunRecord, append_record, read_records, standing
from quorate.chaos.campaign.evidence_page import EVIDENCE_PAGE, evidence_page
from quorate.chaos.campaign.outcome import Failure, RunOutcome
from quorate.chaos.campaign.recorder import CampaignRecorder, SourcesChanged
from quorate.chaos.campaign.seed_ranges import format_seeds, parse_seeds
from quorate.chaos.evidence.checkout import commit_of, find_checkout
from quorate.chaos.evidence.sources import SIMULATOR, SOURCES, SOURCES_LEFT_OUT, digest_of, source_files
from tests.unit.campaign.small_checkout import make_checkout

ROOT = Path(__file__).parents[3]

RECORD = RunRecord(
    recorded_at="2026-01-01T00:00Z",
    world="cluster",
    commit="0123456789abcdef",
    is_clean=True,
    sources="aaaa",
    simulator="bbbb",
    seeds="1..10",
    seeds_run=10,
    failed={},
    seconds=36.0,
    jobs=2,
    python="3.11.0",
    is_interrupted=False,
)


def record(seeds: str, *, sources: str = "aaaa", failed: dict[str, str] | None = None) -> RunRecord:
    count = len(parse_seeds(seeds))
    return dataclasses.replace(RECORD, seeds=seeds, seeds_run=count, sources=sources, failed=failed or {})


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return make_checkout(tmp_path)


# -- seeds


@pytest.mark.parametrize("text", ["", "1", "1..3", "1..3,5,7..8"])
def test_seeds_are_written_as_they_are_read(text: str) -> None:
    assert format_seeds(parse_seeds(text)) == text


@pytest.mark.parametrize("text", ["3..1", "many", "1-3", "-1", "1..", "1,,x"])
def test_what_is_no_range_of_seeds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"seeds|ends before"):
        parse_seeds(text)


# -- adding up


def test_overlapping_runs_count_each_seed_once() -> None:
    found = standing([record("1..10"), record("6..15"), record("3")], world="cluster", sources="aaaa")
    assert found.passed == set(range(1, 16))
    assert found.runs == 3


def test_a_change_to_the_sources_starts_the_count_again() -> None:
    records = [record("1..10"), record("1..4", sources="cccc")]
    assert len(standing(records, world="cluster", sources="cccc").passed) == 4
    assert len(standing(records, world="cluster", sources="dddd").passed) == 0


def test_another_world_is_another_count() -> None:
    assert standing([record("1..10")], world="quorum", sources="aaaa").passed == set()


def test_a_seed_that_failed_last_does_not_stand_and_stands_again_once_it_passed() -> None:
    records = [record("1..10"), record("5..6", failed={"5": "lost-write"})]
    found = standing(records, world="cluster", sources="aaaa")
    assert 5 not in found.passed
    assert found.failed == {5: "lost-write"}
    found = standing([*records, record("5")], world="cluster", sources="aaaa")
    assert 5 in found.passed
    assert found.failed == {}


def test_resuming_takes_the_first_seeds_that_do_not_stand() -> None:
    records = [record("1..3"), record("5..8", failed={"6": "stuck"})]
    found = standing(records, world="cluster", sources="aaaa")
    assert found.seeds_missing(10) == [4, 6, 9, 10]
    assert found.seeds_missing(8) == [4, 6]
    assert found.seeds_missing(3) == []


# -- the file


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    records = [record("1..10"), record("11..12", failed={"12": "stuck"})]
    for each in records:
        append_record(tmp_path, each)
    assert read_records(tmp_path) == records


def test_no_file_is_no_evidence(tmp_path: Path) -> None:
    assert read_records(tmp_path) == []


@pytest.mark.parametrize("line", ["nonsense", '{"seeds": "1..3"}', "[]"])
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: str) -> None:
    append_record(tmp_path, RECORD)
    with (tmp_path / "docs/evidence/simulation.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match="line 2"):
        read_records(tmp_path)


def test_a_record_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="10 seeds, not 11"):
        dataclasses.replace(RECORD, seeds_run=11)
    with pytest.raises(ValueError, match=r"only 1\.\.10 were run"):
        record("1..10", failed={"11": "stuck"})


# -- recording


def test_a_campaign_is_recorded_with_its_failures_and_the_page_follows(checkout: Path) -> None:
    recorder = CampaignRecorder(checkout, world="cluster", jobs=2)
    result = CampaignResult(is_interrupted=True)
    recorder.seed_done(RunOutcome(3))
    recorder.seed_done(RunOutcome(1, Failure("lost-write", "gone")))
    recorder.finish(result)
    (written,) = read_records(checkout)
    assert (written.seeds, written.seeds_run, written.failed) == ("1,3", 2, {"1": "lost-write"})
    assert written.is_interrupted
    assert written.sources == recorder.sources
    assert written.commit is None
    assert (checkout / EVIDENCE_PAGE).read_text() == evidence_page([written])


def test_a_long_campaign_is_recorded_on_its_way_and_each_seed_once(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.chaos.campaign.recorder._RECORD_EVERY_S", 0.0)
    recorder, result = CampaignRecorder(checkout, world="cluster", jobs=2), CampaignResult()
    for seed in (1, 2):
        recorder.seed_done(RunOutcome(seed))
        recorder.waiting()
    recorder.finish(result)
    assert [each.seeds for each in read_records(checkout)] == ["1", "2"]


def test_sources_that_change_under_a_campaign_void_it(checkout: Path) -> None:
    recorder, result = CampaignRecorder(checkout, world="cluster", jobs=2), CampaignResult()
    recorder.seed_done(RunOutcome(1))
    (checkout / "storage/quorate/storage/module.py").write_text("x = 2\n")
    with pytest.raises(SourcesChanged, match="1 seeds are not recorded"):
        recorder.finish(result)
    assert read_records(checkout) == []


# -- sources


def test_the_digest_follows_what_python_executes_and_nothing_else(checkout: Path) -> None:
    module = checkout / "broker/quorate/broker/module.py"

    def digest_with(text: str) -> str:
        module.write_text(text)
        return digest_of(checkout, SOURCES, SOURCES_LEFT_OUT)

    plain = digest_with("def f(x):\n    return x\n")
    assert digest_with('"""Essay."""\n\n# why\ndef f( x ):\n    """Doc."""\n    return x  # so\n') == plain
    assert digest_with("def f(x):\n    return -x\n") != plain
    assert digest_with("def f(x):\n    return 'x'\n") != plain


def test_what_a_setting_says_of_itself_does_not_count_and_its_bounds_do(checkout: Path) -> None:
    module = checkout / "core/quorate/core/config/node.py"

    def digest_with(text: str) -> str:
        module.write_text(text)
        return digest_of(checkout, SOURCES, SOURCES_LEFT_OUT)

    plain = digest_with("x = setting('x', Integer(1, 2), about='a', trade_off='b')\n")
    assert digest_with("x = setting('x', Integer(1, 2), about='c' 'd', trade_off='e')\n") == plain
    assert digest_with("x = setting('x', Integer(1, 3), about='a', trade_off='b')\n") != plain


def test_of_what_is_compiled_every_line_counts_that_is_no_comment(checkout: Path) -> None:
    module = checkout / "core/quorate/core/records/_cython/run.pxi"

    def digest_with(text: str) -> str:
        module.write_text(text)
        return digest_of(checkout, SOURCES, SOURCES_LEFT_OUT)

    plain = digest_with("cdef int f():\n    return 1\n")
    assert digest_with("# why\n\ncdef int f():\n    # so\n    return 1\n") == plain
    assert digest_with("cdef int f():\n    return 2\n") != plain


def test_a_source_that_is_new_or_gone_or_renamed_changes_the_digest(checkout: Path) -> None:
    digests = [digest_of(checkout, SOURCES)]
    new = checkout / "broker/quorate/broker/new.py"
    new.write_text("")
    digests.append(digest_of(checkout, SOURCES))
    new.rename(new.with_name("newer.py"))
    digests.append(digest_of(checkout, SOURCES))
    assert len(set(digests)) == 3


def test_what_only_describes_is_left_out(checkout: Path) -> None:
    before = digest_of(checkout, SOURCES, SOURCES_LEFT_OUT)
    (checkout / SOURCES_LEFT_OUT[0]).write_text("x = 2\n")
    assert digest_of(checkout, SOURCES, SOURCES_LEFT_OUT) == before


def test_a_listed_source_that_is_gone_is_an_error_and_not_less_to_digest(checkout: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        digest_of(checkout, ["broker/quorate/gone"])


@pytest.mark.parametrize(
    "name",
    [
        "metadata/quorate/metadata/raft/core.py",
        "broker/quorate/broker/replica/high_watermark.py",
        "broker/quorate/broker/replication/truncation.py",
        "broker/quorate/broker/directory/run_notes.py",
        "controller/quorate/controller/elections.py",
        "storage/quorate/storage/recovery.py",
        "core/quorate/core/records/_cython/run.pxi",
        "core/quorate/core/records/_pure/run.py",
        "core/quorate/core/config/node.py",
        "core/quorate/core/clock.py",
        "core/quorate/errors.py",
        "node/quorate/node/process.py",
    ],
)
def test_raft_replication_and_recovery_are_among_the_sources(name: str) -> None:
    assert ROOT / name in source_files(ROOT, SOURCES, SOURCES_LEFT_OUT)


# -- this repository


@pytest.mark.parametrize("world", ["cluster.run", "raft.simulation"])
def test_all_that_a_simulated_run_imports_is_among_the_sources_of_the_simulator(world: str) -> None:
    program = (
        f"import quorate.chaos.{world}, sys; "
        "print(*(each.__file__ for name, each in sys.modules.items() if name.startswith('quorate.chaos.')))"
    )
    imported = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.split()
    assert len(imported) > 10
    assert set(map(Path, imported)) <= set(source_files(ROOT, SIMULATOR))


def test_the_checkout_is_found_from_the_code_that_runs() -> None:
    assert find_checkout() == ROOT


def test_a_tree_that_nobody_versions_has_no_commit(tmp_path: Path) -> None:
    assert commit_of(tmp_path).name is None


def test_the_page_in_this_repository_says_what_its_records_say() -> None:
    page = (ROOT / EVIDENCE_PAGE).read_text(encoding="utf-8")
    assert page == evidence_page(read_records(ROOT)), "run: quorate sim status --write"


def test_the_page_has_the_newest_sources_first_and_what_failed() -> None:
    page = evidence_page([record("1..3"), record("4", sources="cccc", failed={"4": "stuck"}), record("5")])
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == ["aaaa", "cccc"]
    assert "| 4 | 1..3, 5 | none |" in rows[0]
    assert "4 (stuck)" in rows[1]
