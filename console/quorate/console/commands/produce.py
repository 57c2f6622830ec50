"""``quorate produce``: a record per line of standard input or of a file."""

from __future__ import annotations

import click

from quorate.console.session import QuorateCommand, Session, pass_session

__all__ = ["produce"]


@click.command(cls=QuorateCommand)
@click.argument("topic")
@click.option("--key-separator", metavar="C", help="Each line is a key, then this text, then the value.")
@click.option("--partition", type=click.IntRange(min=0), help="Always this one; default: by key, or in turn.")
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
@pass_session
def produce(
    session: Session,
    topic: str,
    key_separator: str | None,
    partition: int | None,
    acks: str,
    compression: str,
    path: str | None,
) -> None:
    """Write a record to TOPIC for each line of standard input.

    With --output json, prints a JSON document per line for each record that was acknowledged: topic,
    partition and offset (null with --acks 0).
    """
    if key_separator == "":
        raise click.BadParameter("must not be empty: it ends the key", param_hint="--key-separator")
    from quorate.console.producing import ProduceOptions, produce_lines

    options = ProduceOptions(
        topic, key_separator=key_separator, partition=partition, acks=acks, compression=compression
    )
    produce_lines(session, options, path)
