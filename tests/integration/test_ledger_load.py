"""The load of drills: all levels of acks, keys, several topics, a reader that dies, and its ledger."""

from __future__ import annotations

from pathlib import Path

from quorate.chaos.checks.check_all import check_all
from quorate.chaos.history.history import History
from quorate.chaos.history.ledger_file import LedgerFile, read_ledger
from quorate.chaos.live.final_state import collect
from quorate.chaos.live.reach import Reach
from tests.integration.trials import trial


async def test_load_of_all_kinds_leaves_a_ledger_that_proves_as_much_as_the_history_in_memory(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "ledger.jsonl")
    topics = {"one": {"partitions": 2}, "other": {"partitions": 1}}
    async with trial(tmp_path / "cluster", topics, brokers=1, is_combined=True) as drill:
        with LedgerFile.create(path) as ledger:
            drill.history = History(recorder=ledger)
            async with (
                drill.load("one", name="keyed", keys=10, records_per_s=100) as keyed,
                drill.load("one", "other", name="acks-1", acks="1", producers=1, readers=0) as weak,
                drill.load("other", name="acks-0", acks="0", producers=1, readers=2) as weakest,
            ):
                for load in (keyed, weak, weakest):
                    await load.acknowledges(5)
                for reader in (keyed.readers[0], weakest.readers[1]):
                    await reader.restart()
                await drill.cluster.kill("node-1")
                await drill.cluster.start()
                await weak.acknowledges(5)
                await keyed.acknowledges(5)
            final = await collect(Reach.of(drill.cluster), drill.history, ["one", "other"])
    verdicts = check_all(drill.history, final)
    assert [each.findings for each in verdicts if not each.passed] == []
    examined = {each.check: each.examined for each in verdicts}
    for check in ("lost-write", "unseen", "poll-skip", "real-time-order", "replicas-differ", "weak-acks"):
        assert examined[check] > 0, check
    assert check_all(read_ledger(path), final) == verdicts
