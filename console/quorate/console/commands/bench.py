"""``quorate bench``: measure a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from quorate.console.option_types import COUNT, FiniteRange
from quorate.console.output import print_json
from quorate.console.session import QuorateGroup, Session, pass_session

if TYPE_CHECKING:
    from quorate.console.measuring.bench_topic import TopicOptions

__all__ = ["bench"]

Command = TypeVar("Command", bound=Callable[..., Any])

_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@click.group(cls=QuorateGroup)
def bench() -> None:
    """Measure a cluster, as its clients see it.

    Without --topic, a topic is made for the measurement and deleted afterwards.
    """


def _topic_options(partitions: int) -> Callable[[Command], Command]:
    def add(command: Command) -> Command:
        for option in reversed(
            (
                click.option("--topic", help="One that exists, and keeps the records."),
                click.option(
                    "--partitions",
                    type=COUNT,
                    default=partitions,
                    show_default=True,
                    help="Of a topic that is made.",
                ),
                click.option(
                    "--replication-factor",
                    type=COUNT,
                    help="Likewise; default: the cluster's.",
                ),
            )
        ):
            command = option(command)
        return command

    return add


def _records_option(default: int) -> Callable[[Command], Command]:
    return click.option("--records", type=click.IntRange(min=1), default=default, show_default=True)


_warm_up_option = click.option(
    "--warm-up-records",
    type=click.IntRange(min=0),
    help="Sent before, and not counted; default: a tenth of the records.",
)


def _size_option(default: int) -> Callable[[Command], Command]:
    return click.option(
        "--size",
        "value_bytes",
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        metavar="BYTES",
        help="Of a value.",
    )


_acks_option = click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)


@bench.command()
@_topic_options(partitions=6)
@_records_option(500_000)
@_warm_up_option
@_size_option(100)
@_acks_option
@click.option("--batch-bytes", type=click.IntRange(min=1), default=131_072, show_default=True)
@click.option("--linger-ms", type=FiniteRange(min=0), default=0.0, show_default=True)
@click.option("--compression", type=click.Choice(_COMPRESSIONS), default="none", show_default=True)
@click.option("--send-many", is_flag=True, help="A call for a thousand records, instead of one for each.")
@pass_session
def produce(
    session: Session,
    *,
    topic: str | None,
    partitions: int,
    replication_factor: int | None,
    records: int,
    warm_up_records: int | None,
    value_bytes: int,
    acks: str,
    batch_bytes: int,
    linger_ms: float,
    compression: str,
    send_many: bool,
) -> None:
    """How many records a second one producer gets acknowledged."""
    from quorate.console.measuring.producing import ProduceLoad, measure_producing

    options = {"acks": acks, "batch_bytes": batch_bytes, "linger_ms": linger_ms, "compression": compression}
    load = ProduceLoad(
        records,
        _warm_up(records, warm_up_records),
        value_bytes,
        send_many=send_many,
        producer_options=options,
    )
    found = measure_producing(session, _topic(topic, partitions, replication_factor), load)
    if session.json:
        print_json(found.document())
        return
    _say_rate("acknowledged", found.records, found.seconds, found.records_per_s, found.mb_per_s)
    if found.latency_ms is not None:
        click.echo(f"latency       {found.latency_ms.text()}")


@bench.command()
@_topic_options(partitions=6)
@_records_option(1_000_000)
@_size_option(100)
@click.option("--max-poll-records", type=click.IntRange(min=1), default=10_000, show_default=True)
@pass_session
def consume(
    session: Session,
    *,
    topic: str | None,
    partitions: int,
    replication_factor: int | None,
    records: int,
    value_bytes: int,
    max_poll_records: int,
) -> None:
    """How many records a second one consumer reads, from the topic's beginning.

    A topic that is made for it is filled first.
    """
    from quorate.console.measuring.consuming import ConsumeLoad, measure_consuming

    load = ConsumeLoad(records, value_bytes, max_poll_records)
    found = measure_consuming(session, _topic(topic, partitions, replication_factor), load)
    if session.json:
        print_json(found.document())
        return
    _say_rate("consumed", found.records, found.seconds, found.records_per_s, found.mb_per_s)


@bench.command()
@_topic_options(partitions=6)
@_records_option(5_000)
@_warm_up_option
@_size_option(1_000)
@_acks_option
@click.option(
    "--rate",
    type=FiniteRange(min=0, min_open=True),
    metavar="PER_SECOND",
    help="A steady stream, until a consumer in another process has each; default: one after the other.",
)
@pass_session
def latency(
    session: Session,
    *,
    topic: str | None,
    partitions: int,
    replication_factor: int | None,
    records: int,
    warm_up_records: int | None,
    value_bytes: int,
    acks: Literal["all", "1", "0"],
    rate: float | None,
) -> None:
    """How long a record takes: alone until it is acknowledged, or at --rate until it is consumed."""
    from quorate.console.measuring.latency import LatencyLoad, measure_alone, measure_stream

    load = LatencyLoad(records, _warm_up(records, warm_up_records), value_bytes, acks, rate)
    measure = measure_alone if rate is None else measure_stream
    found = measure(session, _topic(topic, partitions, replication_factor), load)
    if session.json:
        print_json(found.document())
        return
    what = "sent alone" if rate is None else f"end to end at {rate:,g}/s"
    click.echo(f"{what}, {found.records:,} records of {found.value_bytes:,} bytes")
    click.echo(f"latency       {found.latency_ms.text()}")


@bench.command()
@_topic_options(partitions=6)
@click.option(
    "--dir",
    "directory",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Of a local cluster: its nodes are killed and started again. Without: nothing is killed.",
)
@click.option("--times", type=click.IntRange(min=1), default=10, show_default=True, help="With --dir.")
@click.option(
    "--victim",
    type=click.Choice(["leader", "controller"]),
    default="leader",
    show_default=True,
    help="With --dir: a leader that is not the active controller, or one that is.",
)
@click.option(
    "--seconds",
    type=FiniteRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Without --dir: how long to watch.",
)
@pass_session
def failover(
    session: Session,
    *,
    topic: str | None,
    partitions: int,
    replication_factor: int | None,
    directory: str | None,
    times: int,
    victim: Literal["leader", "controller"],
    seconds: float,
) -> None:
    """How long no write is acknowledged after a leader was killed."""
    options = _topic(topic, partitions, replication_factor)
    if directory is None:
        _watch(session, options, seconds)
        return
    from quorate.console.existing_cluster import existing_cluster
    from quorate.console.measuring.failing_over import FailoverLoad, measure_failover

    cluster = existing_cluster(directory)
    session.bootstrap = cluster.bootstrap
    found = measure_failover(session, cluster, options, FailoverLoad(times, victim))
    if session.json:
        print_json(found.document())
        return
    each = "  ".join(f"{second:.2f}" for second in found.seconds)
    click.echo(f"until the next acknowledged write: {max(found.seconds):.2f} s at most ({each})")


def _watch(session: Session, options: TopicOptions, seconds: float) -> None:
    from quorate.console.measuring.failing_over import watch

    session.note(f"writing for {seconds:g} s; break something")
    watched = watch(session, options, seconds=seconds)
    if session.json:
        print_json(watched.document())
        return
    longest = "  ".join(f"{pause:.3f}" for pause in watched.pauses_s)
    click.echo(f"{watched.writes:,} writes in {watched.seconds:.1f} s; longest pauses, in seconds: {longest}")


def _warm_up(records: int, chosen: int | None) -> int:
    return records // 10 if chosen is None else chosen


def _topic(name: str | None, partitions: int, replication_factor: int | None) -> TopicOptions:
    from quorate.console.measuring.bench_topic import TopicOptions

    return TopicOptions(name, partitions, replication_factor)


def _say_rate(what: str, records: int, seconds: float, records_per_s: float, mb_per_s: float) -> None:
    click.echo(f"{what} {records:,} records in {seconds:.2f} s")
    click.echo(f"rate          {records_per_s:,.0f} records/s  {mb_per_s:,.2f} MB/s")
