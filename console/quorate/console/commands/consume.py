"""``quorate consume``: print records."""

from __future__ import annotations

import click

from quorate.console.option_types import GROUP_NAME, NUMBER
from quorate.console.session import QuorateCommand, Session, pass_session

__all__ = ["consume"]


@click.command(cls=QuorateCommand)
@click.argument("topic")
@click.option(
    "--group",
    type=GROUP_NAME,
    help=(
        "Share the topic with the other members of this consumer group. For a few records use --max: a pipe "
        "to `head` commits what was written into it, read or not."
    ),
)
@click.option("--partition", type=NUMBER, help="Only this one; default: all.")
@click.option(
    "--from",
    "start",
    metavar="beginning|end|OFFSET|TIME|-1h",
    help=(
        "TIME as 2026-01-31T12:00:00Z, without a zone local time; or so long ago: -90s, -15m, -1h, -7d. "
        "earliest and latest mean beginning and end. With --group, where it begins in partitions in which it "
        "has no offset yet.  [default: beginning]"
    ),
)
@click.option("--max", "records_max", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("--exit-at-end", is_flag=True, help="Stop where the partitions ended when this began.")
@pass_session
def consume(
    session: Session,
    topic: str,
    group: str | None,
    partition: int | None,
    start: str | None,
    records_max: int | None,
    *,
    exit_at_end: bool,
) -> None:
    """Print the values of the records in TOPIC, one per line, and wait for more.

    With --group it goes on where the group is, and shares partitions with the group's other members.
    What was printed is committed, at least once: after a crash, some records may be printed again.
    Ctrl-C commits and leaves the group.

    With --output json, prints a JSON document per line for each record: topic, partition, offset,
    timestamp, key, value, headers and leader_epoch. Bytes that are not UTF-8 are printed as base64, and
    value_encoding says so.

    \b
    Examples:
      quorate consume orders --exit-at-end
      quorate consume orders --partition 3 --from 4711 --max 1 --output json
      quorate consume orders --group billing
      quorate consume orders --group audit --from -1h --exit-at-end
    """
    if group is not None and partition is not None:
        raise click.UsageError(
            "--group and --partition: who reads which partition is for the group to decide"
        )
    from quorate.console.offset_choices import OffsetChoice, parse_offset_choice

    choice = None if start is None else parse_offset_choice(start, words="beginning, end", hint="--from")
    if group is None:
        from quorate.console.consuming import ConsumeOptions, consume_records

        options = ConsumeOptions(
            topic,
            partition=partition,
            start=choice or OffsetChoice("beginning"),
            records_max=records_max,
            exit_at_end=exit_at_end,
        )
        consume_records(session, options)
    else:
        from quorate.console.group_consuming import GroupConsumeOptions, consume_in_group

        in_group = GroupConsumeOptions(
            group, topic, start=choice, records_max=records_max, exit_at_end=exit_at_end
        )
        consume_in_group(session, in_group)
