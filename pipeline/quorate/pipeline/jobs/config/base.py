"""What all jobs are told, and where it comes from: a file of TOML, and flags that win over it.

Each job has a frozen dataclass whose fields are declared with ``setting()``, as those of nodes are. Keys of
the file, flags (``checkpoint.dir`` is ``--checkpoint-dir``), errors and help follow from that one
declaration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from quorate.core.config.kinds import INT64_MAX, Choice, DurationMs, Flag, Integer, Optional
from quorate.core.config.loader import resolve
from quorate.core.config.schema import REQUIRED, Setting, check_settings, setting, settings_of
from quorate.core.config.sources import RawValue, from_file
from quorate.errors import InvalidConfig
from quorate.pipeline.jobs.config.kinds import Master, Pairs, SharedPath, Text

__all__ = ["DEFAULT_BOOTSTRAP", "JobConfig", "StartAt", "StoreFormat", "StreamingConfig", "flag_of", "load"]

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
_DAY_MS: Final = 86_400_000


class StoreFormat(StrEnum):
    PARQUET = "parquet"
    DELTA = "delta"


class StartAt(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, kw_only=True)
class JobConfig:
    """An instance is valid, whether a file or code made it: values are checked and parsed then."""

    bootstrap_servers: str = setting(
        "bootstrap.servers",
        Text("HOST:PORT[,HOST:PORT…]"),
        default=DEFAULT_BOOTSTRAP,
        about="Where the cluster is.",
        trade_off="Name several nodes: any of them may be down when the job starts.",
    )
    spark_master: str = setting(
        "spark.master",
        Master(),
        default="local[*]",
        about="Where Spark runs, as `spark-submit --master`. A session that is there already is used "
        "instead.",
        trade_off="`local[*]` needs nothing else; on a cluster every worker has to reach the brokers and "
        "the paths.",
    )
    spark_conf: tuple[tuple[str, str], ...] = setting(
        "spark.conf",
        Pairs(),
        default=(),
        about="Settings of Spark's own.",
        trade_off="They win over those that the job makes, but for what its files and results depend on.",
    )
    progress_interval_ms: int = setting(
        "progress.interval",
        DurationMs(100, _DAY_MS),
        default=10_000,
        about="How often a line of progress is written at most.",
        trade_off="Shorter shows more and fills logs.",
    )

    def __post_init__(self) -> None:
        check_settings(self)
        for each in settings_of(type(self)):
            # Code may say "delta" where a file would.
            object.__setattr__(self, each.attribute, each.kind.parse(getattr(self, each.attribute)))


@dataclass(frozen=True, kw_only=True)
class StreamingConfig(JobConfig):
    """Of the jobs that follow a topic."""

    starting_offsets: StartAt = setting(
        "starting.offsets",
        Choice(StartAt),
        default=StartAt.EARLIEST,
        about="Where to begin without a checkpoint.",
        trade_off="`latest` leaves out all that was written before.",
    )
    fails_on_data_loss: bool = setting(
        "fail.on.data.loss",
        Flag(),
        default=True,
        about="End where retention has taken records before they were read.",
        trade_off="`false` goes on with what there is, with a warning: the result lacks what is gone.",
    )
    rows_per_batch_max: int = setting(
        "max.offsets.per.trigger",
        Integer(1, INT64_MAX),
        default=500_000,
        about="How many records a batch has at most, over all partitions.",
        trade_off="Larger batches make fewer and larger files, need more memory and lose more work when "
        "killed.",
    )
    trigger_ms: int = setting(
        "trigger.interval",
        DurationMs(0, _DAY_MS),
        default=10_000,
        about="How long a batch collects, when it is not behind.",
        trade_off="Shorter is fresher, and makes more and smaller files.",
    )
    is_once: bool = setting(
        "once",
        Flag(),
        default=False,
        about="End when everything that was there at the start is done.",
        trade_off="For cron and for tests; without it the job runs until it is stopped.",
    )
    checkpoint_dir: str | None = setting(
        "checkpoint.dir",
        Optional(SharedPath()),
        default=None,
        about="Where the job notes how far it is; by default `_checkpoint` in its path.",
        trade_off="On disks that survive: without it a job begins again.",
    )


ConfigT = TypeVar("ConfigT", bound=JobConfig)


def flag_of(key: str) -> str:
    return "--" + key.replace(".", "-")


def load(config_class: type[ConfigT], path: str | None, flags: Mapping[str, object]) -> ConfigT:
    """``flags``: by key; they win over the file. Everything that is wrong is told at once."""
    settings = settings_of(config_class)
    from_flags = [RawValue(key, value, flag_of(key), origin_names_key=True) for key, value in flags.items()]
    sources = [from_file(path) if path is not None else [], from_flags]
    # Here, not by ``resolve``: it names sources that jobs do not have.
    values = resolve([replace(each, default=None) for each in settings], sources)
    missing = [each.key for each in settings if each.default is REQUIRED and each.key not in values]
    if missing:
        raise InvalidConfig(
            "\n  - ".join(
                f"{key} is required: give {flag_of(key)}, or set it in the file of --config"
                for key in missing
            ),
            keys=",".join(missing),
        )
    return config_class(**_by_attribute(settings, values))


def _by_attribute(settings: Sequence[Setting], values: Mapping[str, object]) -> dict[str, Any]:
    return {each.attribute: values[each.key] for each in settings if each.key in values}
