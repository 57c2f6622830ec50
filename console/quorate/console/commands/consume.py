"""``quorate consume``: print records."""

from __future__ import annotations

import click

from quorate.console.option_types import NUMBER
from quorate.console.session import QuorateCommand, Session, pass_session

__all__ = ["consume"]


@click.command(cls=QuorateCommand)
@click.argument("topic")
@click.option("--group", help="Share the topic with others: not possible yet.")
@click.option("--partition", type=NUMBER, help="Only this one; default: all.")
@click.option(
    "--from",
    "start",
    metavar="beginning|end|OFFSET|TIME",
    default="beginning",
    show_default=True,
    help="TIME as 2026-01-31T12:00:00Z; without a zone, local time.",
)
@click.option("--max", "records_max", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("--exit-at-end", is_flag=True, help="Stop where the partitions ended when this began.")
@pass_session
def consume(
    session: Session,
    topic: str,
    group: str | None,
    partition: int | None,
    start: str,
    records_max: int | None,
    *,
    exit_at_end: bool,
) -> None:
    """Print the values of the records in TOPIC, one per line, and wait for more.

    With --output json, prints a JSON document per line for each record: topic, partition, offset,
    timestamp, key, value, headers and leader_epoch. Bytes that are not UTF-8 are printed as base64, and
    value_encoding says so.
    """
    from quorate.console.advice import AdvisedError
    from quorate.console.consuming import ConsumeOptions, consume_records
    from quorate.errors import UnsupportedOperation

    if group is not None:
        refusal = UnsupportedOperation("--group: there are no consumer groups yet")
        raise AdvisedError(refusal, "leave --group out, and choose where to begin with --from")
    options = ConsumeOptions(
        topic, partition=partition, start=start, records_max=records_max, exit_at_end=exit_at_end
    )
    consume_records(session, options)
