"""Kill -9 of all nodes at once under load, for other systems and for ours, and what the same checks say.

`python -m bench.peers [quorate] [nats] [kafka] [--rounds N] [--seed N] [--record]`. Exit status 1: a check
has found a violation. 2: something could not be run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.ending import end_on_sigterm
from bench.peers.kafka import installation as kafka_installation
from bench.peers.kafka.drill_peer import KafkaDrillPeer
from bench.peers.nats import installation as nats_installation
from bench.peers.nats.drill_peer import NatsDrillPeer
from bench.peers.tools import ROOT
from quorate.chaos.evidence.checkout import commit_of
from quorate.chaos.history.history import History
from quorate.chaos.history.ledger_file import LedgerFile
from quorate.chaos.peers.evidence import append_record, record_of
from quorate.chaos.peers.evidence_page import write_evidence_page
from quorate.chaos.peers.peer import Peer, PeerUnavailable
from quorate.chaos.peers.peer_drill import PeerReport, drill_peer
from quorate.chaos.peers.quorate_peer import QuoratePeer
from quorate.chaos.report.file_names import HISTORY_FILE

_PEERS: Final[Mapping[str, Callable[[], Peer]]] = {
    "quorate": QuoratePeer,
    "nats": lambda: NatsDrillPeer(nats_installation.install()),
    "kafka": lambda: KafkaDrillPeer(kafka_installation.install()),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=", ".join(_PEERS))
    parser.add_argument("--rounds", type=int, default=5, help="how often all nodes are killed")
    parser.add_argument("--seed", type=int, default=None, help="decides when")
    parser.add_argument("--record", action="store_true", help="add what was found to docs/evidence")
    arguments = parser.parse_args()
    chosen = arguments.systems or list(_PEERS)
    if unknown := [name for name in chosen if name not in _PEERS]:
        parser.error(f"no such system: {', '.join(unknown)}; there are {', '.join(_PEERS)}")
    end_on_sigterm()
    seed = random.randrange(1_000_000) if arguments.seed is None else arguments.seed
    try:
        reports = [
            _drill(_PEERS[name](), seed, arguments.rounds, is_recorded=arguments.record) for name in chosen
        ]
    except PeerUnavailable as error:
        print(error, file=sys.stderr)
        return 2
    return 1 if any(report.violations for report in reports) else 0


def _drill(peer: Peer, seed: int, rounds: int, *, is_recorded: bool) -> PeerReport:
    """Its ledger stays if something was found or went wrong, so that others can look at it again."""
    directory = Path(tempfile.mkdtemp(prefix="peer-drill-"))
    ledger_path = directory / HISTORY_FILE
    with LedgerFile.create(str(ledger_path)) as ledger:
        history = History(recorder=ledger)
        report = asyncio.run(
            drill_peer(peer, history, seed=seed, rounds=rounds, tell=lambda line: print(line, flush=True))
        )
    _show(report)
    if is_recorded:
        _record(report)
    if report.violations:
        print(f"what clients saw: {ledger_path}")
    else:
        shutil.rmtree(directory)
    return report


def _show(report: PeerReport) -> None:
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in report.outcomes.items())
    print(f"\n{report.name} {report.version}, seed {report.seed}, {report.rounds} rounds: {outcomes}")
    for key, value in report.settings.items():
        print(f"  {key}: {value}")
    for verdict in report.verdicts:
        word = "-" if not verdict.examined else "ok" if verdict.passed else f"{verdict.found:,} VIOLATIONS"
        print(f"  {verdict.check:24} {verdict.examined:>10,} looked at  {word}")
        for finding in verdict.findings:
            print(f"    {finding}")
    print(flush=True)


def _record(report: PeerReport) -> None:
    commit = commit_of(ROOT)
    record = record_of(
        report,
        recorded_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
        commit=commit.name,
        is_clean=commit.is_clean,
        system=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    )
    append_record(ROOT, record)
    write_evidence_page(ROOT)


if __name__ == "__main__":
    sys.exit(main())
