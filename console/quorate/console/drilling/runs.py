"""Running drills by name: an agent for each, progress, a table of verdicts, and the exit status."""

from __future__ import annotations

import asyncio
import difflib
import os
import random
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from quorate.chaos.checks.verdict import Verdict
from quorate.chaos.drills.agent import ClusterAgent
from quorate.chaos.drills.catalogue import STORIES, find_story
from quorate.chaos.drills.command_agent import CommandAgent
from quorate.chaos.drills.control import CONTROL_NAME, misfit_of_control, run_control
from quorate.chaos.drills.engine import run_drill
from quorate.chaos.drills.local_agent import LocalAgent
from quorate.chaos.drills.options import DrillOptions
from quorate.chaos.drills.progress import Progress
from quorate.chaos.drills.recheck import NoLastReader, recheck, recheck_live
from quorate.chaos.drills.story import Story
from quorate.chaos.faults.network import NetworkKind
from quorate.chaos.report.drill_report import DrillReport
from quorate.chaos.report.file_names import HISTORY_FILE, PAGE_FILE
from quorate.chaos.report.files import write_skipped
from quorate.chaos.report.verdicts_file import verdict_document, verdicts_document
from quorate.console.advice import AdvisedError
from quorate.console.drilling.clients_log import clients_log
from quorate.console.drilling.progress import showing_progress
from quorate.console.existing_cluster import existing_cluster
from quorate.console.output import print_json, print_table
from quorate.console.output_paths import check_directory
from quorate.console.session import Session
from quorate.console.source_checkout import source_checkout
from quorate.errors import InvalidRequest, Unavailable
from quorate.node.interruption import run_interruptible
from quorate.node.local_cluster import LocalCluster

__all__ = ["RunOptions", "check_again", "run_drills"]

_SEEDS = 1_000_000
_REPORTS = "drill-reports"


@dataclass(frozen=True, slots=True)
class RunOptions:
    #: None: a new one
    seed: int | None
    #: of each drill
    seconds: float
    #: None: a new directory
    report: str | None
    #: at most one of these two; none: a cluster of its own
    agent_file: str | None
    directory: str | None
    brokers: int | None
    network: NetworkKind | None
    records_per_s: float
    is_recorded: bool
    settings: Mapping[str, str]


def run_drills(session: Session, names: Sequence[str], options: RunOptions) -> int:
    """Returns the exit status: 1 if a promise was broken, or if nothing could be run."""
    if options.is_recorded:
        source_checkout()
    _check_names(names)
    seed = random.SystemRandom().randrange(_SEEDS) if options.seed is None else options.seed
    documents: list[dict[str, Any]] = []
    reports: list[DrillReport] = []
    for name in names:
        directory = _report_directory(options, name, seed, is_only=len(names) == 1)
        check_directory(directory, option="--report")
        try:
            with clients_log(directory):
                report = _run(session, name, options, seed=seed, directory=directory)
        except KeyboardInterrupt:
            session.note(f"{name} was interrupted: {_what_is_left(options, directory)}")
            raise
        if isinstance(report, str):
            session.note(f"{name} is skipped: {report}")
            documents.append(write_skipped(name, seed, report, directory))
            continue
        reports.append(report)
        documents.append({**verdicts_document(report), "report": f"{directory}/{PAGE_FILE}"})
        if not session.json:
            _print_verdicts(report, directory)
    if session.json:
        print_json(documents)
    return 0 if reports and all(report.passed for report in reports) else 1


def _check_names(names: Sequence[str]) -> None:
    known = [*(story.name for story in STORIES), CONTROL_NAME]
    for name in names:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(nearest)}? " if nearest else ""
            raise click.UsageError(f"there is no drill {name}; {hint}`quorate drill list` tells them all")


def _what_is_left(options: RunOptions, directory: str) -> str:
    history = f"{directory}/{HISTORY_FILE}"
    if not os.path.exists(history):
        return "before anything was written"
    what = f"what clients did and were told until then is in {history}"
    bootstrap = _bootstrap_of_others(options)
    if bootstrap is None:
        return f"{what}; without a verdict: its cluster cannot be asked any more"
    check = shlex.join(["quorate", "drill", "check", "--live", "--bootstrap", bootstrap, directory])
    return f"{what}; `{check}` asks the cluster what became of it"


def _bootstrap_of_others(options: RunOptions) -> str | None:
    """Of a cluster that goes on when the drill is over; None: it was the drill's own."""
    if options.agent_file is not None:
        agent = CommandAgent.from_file(options.agent_file)
        return None if agent.is_temporary else agent.bootstrap
    return None if options.directory is None else existing_cluster(options.directory).bootstrap


def _run(session: Session, name: str, options: RunOptions, *, seed: int, directory: str) -> DrillReport | str:
    """The report; or why it cannot be run."""
    drill_options = DrillOptions(
        seed=seed,
        seconds=options.seconds,
        directory=directory,
        command=_command(name, options, seed),
        records_per_s=options.records_per_s,
    )
    with showing_progress(session, name) as progress:
        if name == CONTROL_NAME:
            report = misfit_of_control() or run_interruptible(run_control(drill_options, progress))
        else:
            report = _tell(find_story(name), options, drill_options, progress)
    if options.is_recorded and not isinstance(report, str):
        from quorate.chaos.report.evidence_page import record_drill

        record_drill(source_checkout(), report)
    return report


def _tell(
    story: Story, options: RunOptions, drill_options: DrillOptions, progress: Progress
) -> DrillReport | str:
    agent = _agent(story, options, drill_options.seed)
    misfit = story.misfit(agent)
    if misfit is not None:
        asyncio.run(agent.discard())
        return misfit
    return run_interruptible(run_drill(story, agent, drill_options, progress))


def _agent(story: Story, options: RunOptions, seed: int) -> ClusterAgent:
    if options.agent_file is not None:
        return CommandAgent.from_file(options.agent_file)
    if options.directory is not None:
        return LocalAgent.attach(_running_cluster(options.directory))
    return LocalAgent.create(
        story.layout,
        seed=seed,
        brokers=options.brokers,
        settings=options.settings,
        uses=story.uses,
        network_kind=options.network,
    )


def _running_cluster(directory: str) -> LocalCluster:
    cluster = existing_cluster(directory)
    if not any(node.is_running for node in cluster.nodes):
        down = Unavailable(f"no node of the cluster in {cluster.directory} runs")
        raise AdvisedError(down, f"start it with `quorate up --dir {cluster.directory}`")
    return cluster


def _report_directory(options: RunOptions, name: str, seed: int, *, is_only: bool) -> str:
    if options.report is None:
        directory = f"{_REPORTS}/{datetime.now(UTC):%Y%m%d-%H%M%S}-{name}-{seed}"
    else:
        directory = options.report if is_only else f"{options.report}/{name}"
    if os.path.exists(f"{directory}/{HISTORY_FILE}"):
        raise InvalidRequest(f"{directory} holds the report of another drill", path=directory)
    return directory


def _command(name: str, options: RunOptions, seed: int) -> str:
    """Chance is the same again; what real processes make of it is not."""
    words = ["quorate", "drill", "run", name, f"--seed={seed}", f"--minutes={options.seconds / 60:g}"]
    given = {
        "agent": options.agent_file,
        "dir": options.directory,
        "brokers": options.brokers,
        "network": options.network,
        "rate": f"{options.records_per_s:g}",
    }
    words += [f"--{option}={value}" for option, value in given.items() if value is not None]
    words += [f"--set={key}={value}" for key, value in options.settings.items()]
    return shlex.join(words)


def check_again(session: Session, directory: str, *, is_live: bool) -> int:
    """Returns the exit status."""
    verdicts = asyncio.run(recheck_live(directory, session.bootstrap)) if is_live else _recheck(directory)
    if session.json:
        print_json([verdict_document(verdict) for verdict in verdicts])
    else:
        _print_table(verdicts)
    return 0 if all(verdict.passed for verdict in verdicts) else 1


def _recheck(directory: str) -> list[Verdict]:
    try:
        return recheck(directory)
    except NoLastReader as error:
        raise AdvisedError(
            error,
            "--live asks the cluster at --bootstrap, if it is still there; of a drill that was interrupted "
            "on a cluster of its own there is no verdict",
        ) from error


def _print_verdicts(report: DrillReport, directory: str) -> None:
    _print_table(report.verdicts)
    outcomes = ", ".join(f"{count:,} {name}" for name, count in report.outcomes.items())
    gap = f", longest gap {report.availability.longest_gap_s:.2f} s" if report.availability.times_s else ""
    click.echo(
        f"{report.drill}: {'passed' if report.passed else 'FAILED'}; {report.fault_counts.total()} "
        f"faults in {report.seconds:.0f} s, {outcomes}{gap}"
    )
    click.echo(f"report: {os.path.abspath(directory)}/{PAGE_FILE}")


def _print_table(verdicts: Sequence[Verdict]) -> None:
    rows = []
    for verdict in verdicts:
        state = "violated" if not verdict.passed else "ok" if verdict.examined else "nothing to look at"
        rows.append((verdict.check, state, verdict.examined, "; ".join(verdict.findings) or None))
    print_table(("CHECK", "STATE", "EXAMINED", "FOUND"), rows)
