"""docs/evidence/peers.md: what docs/evidence/peers.jsonl amounts to, for readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from quorate.chaos.evidence.checkout import commit_words
from quorate.chaos.evidence.markdown import table, write_page
from quorate.chaos.evidence.record_lines import EVIDENCE_DIRECTORY
from quorate.chaos.peers.evidence import PeerRecord, read_records
from quorate.chaos.peers.peer_drill import ACKNOWLEDGED_WITHIN_S, LOAD

__all__ = ["EVIDENCE_PAGE", "evidence_page", "write_evidence_page"]

EVIDENCE_PAGE: Final = f"{EVIDENCE_DIRECTORY}/peers.md"

_LOAD: Final = (
    f"{LOAD.producers} producers of unique records, {LOAD.records_per_s:g} a second together, "
    f"{LOAD.value_bytes} bytes each, over {LOAD.partitions} partitions with three replicas, and a reader"
)
_HEAD: Final = f"""\
# Evidence: the same checker on other systems

Written by `.venv/bin/python -m bench.peers --record` from [peers.jsonl](peers.jsonl), which has a line for
each drill. Do not edit. It fetches the other systems itself: NATS by Go, Kafka by Maven.

One fault: kill -9 of all three nodes at once, under load, and all of them started again; several times in a
row on one cluster. The load is that of our own drills, through each system's usual Python client: {_LOAD}.
Every record ends as acknowledged, refused or unknown. In the end another reader reads everything, and the
[checks](../../chaos/quorate/chaos/checks) of our drills compare what it was shown with what the producers
were told. Nobody looks inside: checks of files and metadata are left out for all of them, for us as well.

What this does not show:

- **Power loss.** kill -9 ends processes, not machines: what they have written stays in the page cache, synced
  or not. At the settings below none of the three syncs before it acknowledges, and this fault cannot tell.
  Our own drills take unsynced writes back with a preload shim. It sees what goes through the C library; a
  program in Go makes its system calls itself, so for NATS it would say nothing, and it was not used here.
- **Which system is better.** One fault, on one machine, at one load. Unknown outcomes count how the client
  waits, not what the system keeps: nats-py gives up after 5 s, the other two try again for two minutes.
- **How long an outage lasts.** Three nodes share one small machine with their clients, and start-up times are
  most of it. They are not compared.

"""

_NOTHING: Final = "Nothing is recorded yet.\n"


@dataclass(slots=True)
class _System:
    """All records of one version of one system."""

    last: PeerRecord
    runs: int = 0
    rounds: int = 0
    committed: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    #: by check: (how many things were looked at, how many were wrong)
    checks: dict[str, tuple[int, int]] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.last.name} {self.last.version}"

    def add(self, record: PeerRecord) -> None:
        self.last = record
        self.runs += 1
        self.rounds += record.rounds
        self.committed += record.committed
        for outcome, count in record.outcomes.items():
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + count
        for name, check in record.checks.items():
            examined, found = self.checks.get(name, (0, 0))
            self.checks[name] = (examined + check.examined, found + check.found)
            self.findings += [f"`{name}`: {finding}" for finding in check.findings]


def write_evidence_page(root: Path) -> None:
    write_page(root, EVIDENCE_PAGE, evidence_page(read_records(root)))


def evidence_page(records: Sequence[PeerRecord]) -> str:
    if not records:
        return _HEAD + _NOTHING
    systems: dict[tuple[str, str], _System] = {}
    for record in records:
        systems.setdefault((record.name, record.version), _System(record)).add(record)
    found = [system for _, system in sorted(systems.items())]
    return "".join((_HEAD, _what_was_run(found), _what_checks_say(found), *map(_about, found)))


def _what_was_run(systems: Sequence[_System]) -> str:
    heads = ("system", "drills", "kills of all nodes", "acknowledged", "unknown", "refused", "in the logs")
    rows = [
        (
            system.title,
            *(f"{count:,}" for count in (system.runs, system.rounds)),
            *(f"{system.outcomes.get(each, 0):,}" for each in ("acknowledged", "unknown", "refused")),
            f"{system.committed:,}",
        )
        for system in systems
    ]
    return "## What was run\n\n" + table(heads, rows) + "\n"


def _what_checks_say(systems: Sequence[_System]) -> str:
    names = list(dict.fromkeys(name for system in systems for name in system.checks))
    heads = ("check", *(system.title for system in systems))
    rows = [(f"`{name}`", *(_of(system.checks, name) for system in systems)) for name in names]
    legend = (
        "Violations, of how many things were looked at; - is a check that had nothing to look at. "
        f"`unavailable` asks for an acknowledgement within {ACKNOWLEDGED_WITHIN_S:g} s of all nodes being "
        "back, `vacuous` whether the fault happened.\n\n"
    )
    return "## What the checks say\n\n" + legend + table(heads, rows) + "\n"


def _of(checks: Mapping[str, tuple[int, int]], name: str) -> str:
    examined, found = checks.get(name, (0, 0))
    if not examined:
        return "-"
    return f"**{found:,}** of {examined:,}" if found else f"0 of {examined:,}"


def _about(system: _System) -> str:
    last = system.last
    commit = commit_words(last.commit, is_clean=last.is_clean)
    lines = [f"- {key}: {value}\n" for key, value in last.settings.items()]
    lines.append(f"- last drill: {last.recorded_at}, {last.system}; commit {commit}\n")
    lines += [f"- violation: {finding}\n" for finding in system.findings]
    return f"## {system.title}\n\n{''.join(lines)}\n"
