"""Real controllers, brokers and clients on simulated time, disks and network, under faults from a seed.

Seeds are run in chunks, which spread over the workers. Each chunk also shows that its faults had effects: a
run in which nothing broke would prove nothing. What is rarer is shown kind by kind, in ``test_cluster_plan``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from quorate.chaos.campaign.evidence import read_records
from quorate.chaos.campaign.failing_seed import read_plan
from quorate.chaos.campaign.failure_report import replay_command
from quorate.chaos.campaign.outcome import OUT_OF_TIME
from quorate.chaos.campaign.world import load_world
from tests.seeds import run_seeds

SEEDS: Final = 300
SEEDS_PER_CHUNK: Final = 15

#: per seed, on average over a chunk
FLOORS: Final = {
    "records_acknowledged": 100.0,
    "records_read": 200.0,
    "event: restarts": 0.7,
    "event: frames_held": 1.0,
    "event: broker_fenced": 0.7,
    "event: session_lost": 0.7,
    "event: controller_active": 1.0,
    "event: elections": 0.7,
    "event: isr_shrinks": 1.0,
    "event: isr_expansions": 1.0,
    "event: process_crash start": 0.3,
    # A third of the plans have a group, and another third a topic that is compacted.
    "event: compactions": 2.0,
    "event: compactions_of_offsets": 0.5,
    "event: tombstones_removed": 0.7,
    "event: groups_loaded": 0.3,
    "event: group_partitions_given": 0.15,
    "event: group_commits": 1.0,
    "event: group_offsets_told": 7.0,
}

#: Plans that failed once: made as small as they fail without what mends them now. Their seeds draw other
#: plans whenever there is a new kind of fault.
REGRESSIONS: Final = {
    "log-kept-shut-by-a-failed-sync": "a log that a failed sync kept shut stayed so, as did the node",
    "log-kept-shut-among-other-faults": "the same, among other faults",
    "failed-sync-of-a-checkpoint": "a failed sync of a checkpoint, while it ran",
    "elr-voided-and-power-lost": "a change of MinISR voids the ELR; then the only one in the ISR lost power",
    "a-clock-that-has-drifted": "the simulated clock itself: a wait until a moment ended before it, for ever",
    "min-isr-changed-while-nobody-leads": "a change of MinISR voided the ELR, the last in the ISR was away",
    "min-isr-changed-when-the-quorum-is-back": "the same, asked for while the quorum was gone",
    "an-epoch-that-rotted": "after a power loss a batch's epoch that had rotted was believed",
    "an-epoch-that-rotted-to-one-that-there-is": "a follower kept it, and could not go on behind it",
    "power-lost-where-nothing-was-written-yet": "a tail of zeros was damage, and a synced partition offline",
    "a-log-start-that-went-back": "a new leader had not deleted yet what the one before it had",
    "a-write-later-than-its-timeout": "the simulator itself: a write still on its way when all was looked at",
    "a-topic-deleted-behind-the-back-of-its-brokers": "the same: writes to it went on until they heard of it",
    "an-earlier-attempt-that-was-given-up-last": "the checks: what was given up may stand where it first was",
    "a-deposed-leader-hears-of-a-copy-that-is-gone": "the observer: it was there when the follower said so",
    "a-log-start-that-a-crash-kept-from-memory": "the observer: a log start on the device alone went unseen",
    "a-commit-from-before-the-partition-was-lost": "a commit from a former life took a group back",
    "a-cleaned-segment-between-two-names": "the observer: one of them on the device is enough",
    "a-bit-that-rots-behind-what-is-in-memory": "the last look at all copies did not look at the file",
    "a-pass-that-begins-in-the-middle-of-a-cut": "what it had not cleaned counted as clean",
    "a-deposed-leader-hears-of-a-copy-that-was-given-up": "the observer: it had counted, and was gone",
    "a-member-that-learns-late-of-what-it-had": "the check of commits: it took this one for the next owner",
    "a-disk-that-fails-after-its-broker-is-in-sync": "the budget: this broker counted as restored by then",
    "a-min-isr-that-was-changed-and-changed-back": "the observer: both in one image, and no reason was seen",
}
REGRESSIONS_UNDER: Final = Path(__file__).parent / "regressions"
REPOSITORY: Final = Path(__file__).parents[2]


@pytest.mark.parametrize("first_seed", range(1, SEEDS + 1, SEEDS_PER_CHUNK))
def test_nothing_acknowledged_is_lost_whatever_fails(first_seed: int) -> None:
    total = run_seeds("cluster", range(first_seed, first_seed + SEEDS_PER_CHUNK))
    rare = {
        name: total[name] / SEEDS_PER_CHUNK
        for name, floor in FLOORS.items()
        if total[name] < floor * SEEDS_PER_CHUNK
    }
    assert rare == {}, "these hardly ever happened, per seed"


@pytest.mark.parametrize("name", REGRESSIONS)
def test_a_plan_that_failed_once_passes(name: str) -> None:
    path = REGRESSIONS_UNDER / f"{name}.json"
    failure = load_world("cluster").run(read_plan(path)).failure
    if failure is not None:
        command = replay_command(str(path), "cluster")
        pytest.fail(
            f"{REGRESSIONS[name]}, again: {failure.check}\n{failure.message}\n{command}", pytrace=False
        )


def test_every_plan_that_is_kept_is_run() -> None:
    assert {path.stem for path in REGRESSIONS_UNDER.iterdir()} == set(REGRESSIONS)


def test_the_plan_of_every_seed_that_failed_on_record_is_kept() -> None:
    """One that took too much real time says something of the machine alone."""
    failed = {
        int(seed)
        for record in read_records(REPOSITORY)
        if record.world == "cluster"
        for seed, check in record.failed.items()
        if check != OUT_OF_TIME
    }
    assert failed <= {read_plan(path)["seed"] for path in REGRESSIONS_UNDER.iterdir()}
