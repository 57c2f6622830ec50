"""``quorate log``: read segment files offline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import click

from quorate.console.output import json_text
from quorate.console.session import LocalGroup, Session, pass_session

if TYPE_CHECKING:
    from quorate.core.os_disk import OsDisk
    from quorate.core.records import Record
    from quorate.storage.inspect import BatchDump, LogReport

__all__ = ["log"]

_ABOUT_QUORUMS: Final = "a quorum's journal is checked when its controller starts"


@click.group(cls=LocalGroup)
def log() -> None:
    """Read segment files offline; nothing is changed."""


@log.command()
@click.argument("file", type=click.Path())
@click.option("--records", "with_records", is_flag=True, help="Also the records of each batch.")
@pass_session
def dump(session: Session, file: str, *, with_records: bool) -> int:
    """Print every batch of a segment FILE. Exits 1 if one is damaged."""
    from quorate.storage.inspect import dump_segment

    with _disk() as disk:
        batches = dump_segment(disk, _absolute(file), with_records=with_records)
        # Before anything is printed: a file that cannot be read has no table.
        first = next(batches, None)
        if first is not None:
            batches = chain([first], batches)
        is_whole = _dump_json(file, batches) if session.json else _dump_text(batches)
    if first is not None and first.header is None:
        click.echo(f"{file} does not begin with a batch: is this a segment file?", err=True)
    return 0 if is_whole else 1


@log.command()
@click.argument("directory", type=click.Path())
@pass_session
def verify(session: Session, directory: str) -> int:
    """Check every batch, index and checkpoint in a DIRECTORY.

    DIRECTORY is a node's data directory or that of one partition. Exits 1 if records that may have been
    acknowledged are damaged or missing, or if there is no log to check. A torn end and indexes that can be
    rebuilt are mended at the next start.
    """
    from quorate.console.advice import AdvisedError
    from quorate.errors import InvalidRequest
    from quorate.storage.inspect import verify as verify_logs

    try:
        with _disk() as disk:
            reports = list(verify_logs(disk, _absolute(directory)))
    except InvalidRequest as error:
        raise AdvisedError(
            error, f"give a broker's data.dir or a partition's in it; {_ABOUT_QUORUMS}"
        ) from error
    is_damaged = any(report.is_damaged for report in reports)
    if session.json:
        from quorate.console.output import print_json

        print_json({"damaged": is_damaged, "logs": [_report_document(report) for report in reports]})
    elif reports:
        _print_reports(reports)
    if not reports:
        # Not "sound": whoever asked about a controller's directory would take it for an answer.
        click.echo(f"no partition logs in {directory}; {_ABOUT_QUORUMS}", err=True)
    return 1 if is_damaged or not reports else 0


@contextmanager
def _disk() -> Iterator[OsDisk]:
    """A disk to look at; what it refuses to read is told without a node in mind: there may be none."""
    from quorate.core.os_disk import OsDisk
    from quorate.errors import StorageFailed

    disk = OsDisk(read_only=True)
    try:
        yield disk
    except StorageFailed as error:
        from quorate.console.advice import AdvisedError

        raise AdvisedError(error, "check the path, and that you are allowed to read it") from error
    finally:
        disk.close()


def _absolute(path: str) -> str:
    import os

    return os.path.abspath(path)


# -- dump


def _dump_json(file: str, batches: Iterator[BatchDump]) -> bool:
    """One document, written as it is read: a segment may hold millions of batches."""
    click.echo(f'{{"file": {json.dumps(file)}, "batches": [', nl=False)
    is_whole, separator = True, "\n  "
    for batch in batches:
        is_whole = is_whole and batch.problem is None
        click.echo(separator + json_text(_batch_document(batch)), nl=False)
        separator = ",\n  "
    click.echo("\n]}")
    return is_whole


def _batch_document(batch: BatchDump) -> dict[str, Any]:
    from quorate.console.record_document import record_document

    header = batch.header
    document: dict[str, Any] = {"position": batch.position, "problem": batch.problem}
    if header is None:
        return document
    return document | {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "size_in_bytes": header.size_in_bytes,
        "leader_epoch": header.leader_epoch,
        "compression": header.compression.name.lower(),
        "timestamp_type": header.timestamp_type.name.lower(),
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "crc": header.crc,
        "records": [record_document(record) for record in batch.records],
    }


def _dump_text(batches: Iterator[BatchDump]) -> bool:
    """Line by line, for the same reason."""
    click.echo(
        f"{'POSITION':>12} {'OFFSETS':>21} {'RECORDS':>8} {'BYTES':>9} {'EPOCH':>6} {'CODEC':<7} "
        f"{'MAX TIMESTAMP':<24} {'PRODUCER':<16} PROBLEM"
    )
    is_whole = True
    for batch in batches:
        is_whole = is_whole and batch.problem is None
        click.echo(_batch_line(batch))
        for record in batch.records:
            click.echo(_record_line(record))
    return is_whole


def _batch_line(batch: BatchDump) -> str:
    from quorate.console.record_document import timestamp_text

    header, problem = batch.header, batch.problem or "-"
    if header is None:
        return f"{batch.position:>12} {'?':>21} {'':>8} {'':>9} {'':>6} {'':<7} {'':<24} {'':<16} {problem}"
    offsets = f"{header.base_offset}..{header.last_offset}"
    producer = f"{header.producer_id}/{header.producer_epoch}" if header.producer_id >= 0 else "-"
    return (
        f"{batch.position:>12} {offsets:>21} {header.record_count:>8} {header.size_in_bytes:>9} "
        f"{header.leader_epoch:>6} {header.compression.name.lower():<7} "
        f"{timestamp_text(header.max_timestamp):<24} {producer:<16} {problem}"
    )


def _record_line(record: Record) -> str:
    from quorate.console.record_document import timestamp_text

    headers = "".join(f" {key}={value!r}" for key, value in record.headers)
    return (
        f"{'':>12} {record.offset:>21} {timestamp_text(record.timestamp)} "
        f"key={record.key!r} value={record.value!r}{headers}"
    )


# -- verify


def _report_document(report: LogReport) -> dict[str, Any]:
    return {
        "directory": report.directory,
        "damaged": report.is_damaged,
        "segments": report.segments,
        "batches": report.batches,
        "records": report.records,
        "size_in_bytes": report.size_in_bytes,
        "log_start_offset": report.log_start_offset,
        "log_end_offset": report.log_end_offset,
        "problems": [
            {
                "kind": problem.kind.value,
                "path": problem.path,
                "position": problem.position,
                "offset": problem.offset,
                "reason": problem.reason,
            }
            for problem in report.problems
        ],
    }


def _print_reports(reports: list[LogReport]) -> None:
    from quorate.console.output import print_table

    columns = ("LOG", "SEGMENTS", "BATCHES", "RECORDS", "BYTES", "FROM", "TO", "STATE")
    print_table(
        columns,
        [
            (
                report.directory.rpartition("/")[2],
                report.segments,
                report.batches,
                report.records,
                report.size_in_bytes,
                report.log_start_offset,
                report.log_end_offset,
                "damaged" if report.is_damaged else "sound",
            )
            for report in reports
        ],
    )
    for report in reports:
        for problem in report.problems:
            click.echo(
                f"{problem.kind.value}: {problem.path} at byte {problem.position}, offset {problem.offset}: "
                f"{problem.reason}"
            )
