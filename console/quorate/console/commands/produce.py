"""``quorate produce``: a record per line of standard input or of a file."""

from __future__ import annotations

import click

from quorate.console.option_types import NUMBER, FiniteRange
from quorate.console.session import QuorateCommand, Session, pass_session
from quorate.core.limits import DELIVERY_TIMEOUT_MS_MAX

__all__ = ["produce"]


@click.command(cls=QuorateCommand)
@click.argument("topic")
@click.option("--key-separator", metavar="C", help="Each line is a key, then this text, then the value.")
@click.option("--partition", type=NUMBER, help="Always this one; default: by key, or any.")
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
)
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False),
    metavar="F",
    help="Read this, not standard input.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=FiniteRange(min=0, max=DELIVERY_TIMEOUT_MS_MAX / 1000, min_open=True),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Give a record up that is not acknowledged after so long; failovers are waited for.",
)
@pass_session
def produce(
    session: Session,
    topic: str,
    key_separator: str | None,
    partition: int | None,
    acks: str,
    compression: str,
    path: str | None,
    timeout_s: float,
) -> None:
    """Write a record to TOPIC for each line of standard input.

    With --output json, prints a JSON document for each line: its number, topic, partition, offset (null with
    --acks 0) and error (null if it was acknowledged; outcome_unknown says whether it may be in the log).
    """
    if key_separator == "":
        raise click.BadParameter("must not be empty: it ends the key", param_hint="--key-separator")
    from quorate.console.producing import ProduceOptions, produce_lines

    options = ProduceOptions(
        topic,
        key_separator=key_separator,
        partition=partition,
        acks=acks,
        compression=compression,
        timeout_s=timeout_s,
    )
    produce_lines(session, options, path)
