"""Running one job: its configuration, its progress, what it ends with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from quorate.console.advice import AdvisedError, WrongSettings, advice_on
from quorate.console.output import print_json, print_table
from quorate.console.session import Session
from quorate.errors import InvalidConfig, QuorateError
from quorate.pipeline.jobs.config import (
    JOBS,
    AggregateConfig,
    ArchiveConfig,
    AuditConfig,
    JobConfig,
    ReplayConfig,
    TableConfig,
)
from quorate.pipeline.jobs.config.base import load
from quorate.pipeline.jobs.failures import failing_as_job
from quorate.pipeline.jobs.running import Outcome
from quorate.pipeline.jobs.session import need_package
from quorate.pipeline.jobs.stopping import (
    Interrupted,
    StopRequest,
    interrupted_by_signals,
    stopping_on_signals,
)

if TYPE_CHECKING:
    from quorate.pipeline.jobs.audit.comparison import AuditReport
    from quorate.pipeline.jobs.progress import Progress

__all__ = ["run_one"]

#: as shells tell of a process that a signal has ended
_KILLED_BY: Final = 128


def run_one(session: Session, name: str, config_file: str | None, flags: Mapping[str, Any]) -> int:
    """Returns the exit status."""
    try:
        return _run(session, name, config_file, flags)
    except InvalidConfig as error:
        # Neither of the pages that list settings has those of jobs.
        advice = f"correct the setting; `quorate pipeline run {name} --help` lists every one"
        raise WrongSettings(error, advice) from error
    except QuorateError as error:
        if JOBS[name] is not AuditConfig:
            raise
        raise _NoVerdict(error, advice_on(error) or "") from error


class _NoVerdict(AdvisedError):
    """An audit could not look: whoever counts broken promises must not take it for one."""

    exit_code = 3


def _run(session: Session, name: str, config_file: str | None, flags: Mapping[str, Any]) -> int:
    given = dict(flags)
    if "bootstrap" in session.given:
        given["bootstrap.servers"] = session.bootstrap
    config = load(JOBS[name], config_file, given)
    need_package("pyspark", "spark")
    if isinstance(config, AuditConfig):
        return _audit(session, config)
    stop = StopRequest()
    job = _Told(session, name, stop)
    with stopping_on_signals(stop), failing_as_job():
        outcome = _RUNNERS[type(config)](config, job)
    _conclude(session, name, outcome)
    return 0


class _Told:
    """A job's voice: lines on stderr, one for each piece of news."""

    def __init__(self, session: Session, name: str, stop: StopRequest) -> None:
        self._session = session
        self._name = name
        self.stop = stop

    def tell(self, line: str) -> None:
        self._session.note(f"{self._name}: {line}")

    def show(self, progress: Progress) -> None:
        self.tell(str(progress))


def _conclude(session: Session, name: str, outcome: Outcome) -> None:
    if session.json:
        print_json({"job": name, "rows": outcome.rows, "stopped": outcome.was_stopped})
    else:
        click.echo(f"{name}: {outcome.rows:,} rows, {'stopped' if outcome.was_stopped else 'all done'}")


def _audit(session: Session, config: AuditConfig) -> int:
    from quorate.pipeline.jobs.audit.job import run

    told = _Told(session, "audit", StopRequest())
    try:
        with interrupted_by_signals(), failing_as_job():
            report = run(config, told.tell)
    except Interrupted as interruption:
        told.tell("stopped: there is no verdict, and nothing was changed")
        return _KILLED_BY + interruption.number
    if session.json:
        print_json(_document(report))
    else:
        rows = [
            (
                each.kind.value,
                "violated" if each.count else "ok",
                each.count,
                "; ".join(each.examples) or None,
            )
            for each in report.findings
        ]
        print_table(("FINDING", "STATE", "COUNT", "EXAMPLES"), rows)
        verdict = "passed" if report.passed else "FAILED"
        click.echo(
            f"audit: {verdict}; {report.sent:,} sent, {report.acknowledged:,} acknowledged, "
            f"{report.in_log:,} in the log{_not_asked(report)}"
        )
    return 0 if report.passed else 1


def _not_asked(report: AuditReport) -> str:
    if not report.not_asked:
        return ""
    return f"; not asked about: {report.not_asked:,} acknowledged below where the log begins"


def _document(report: AuditReport) -> dict[str, Any]:
    return {
        "passed": report.passed,
        "sent": report.sent,
        "acknowledged": report.acknowledged,
        "not_asked": report.not_asked,
        "in_log": report.in_log,
        "findings": [
            {"kind": each.kind.value, "count": each.count, "examples": list(each.examples)}
            for each in report.findings
        ],
    }


def _archive(config: Any, job: _Told) -> Outcome:
    from quorate.pipeline.jobs.archive.job import run

    return run(config, job)


def _aggregate(config: Any, job: _Told) -> Outcome:
    from quorate.pipeline.jobs.aggregate import run

    return run(config, job)


def _table(config: Any, job: _Told) -> Outcome:
    from quorate.pipeline.jobs.table.job import run

    return run(config, job)


def _replay(config: Any, job: _Told) -> Outcome:
    from quorate.pipeline.jobs.replay.job import run

    return run(config, job)


#: each imports its own when it is run
_RUNNERS: Final[Mapping[type[JobConfig], Callable[[Any, _Told], Outcome]]] = {
    ArchiveConfig: _archive,
    AggregateConfig: _aggregate,
    TableConfig: _table,
    ReplayConfig: _replay,
}
