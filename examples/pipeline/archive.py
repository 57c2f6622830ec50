"""A topic into Parquet, each record once, changed on the way: copy it, and change `prepared`.

    python archive.py 127.0.0.1:9092 orders /tmp/archive

`quorate pipeline run archive` does the same without a change. A column that comes later is null in the rows
from before; one that changes its type takes another archive.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from quorate.pipeline.jobs.archive.job import run
from quorate.pipeline.jobs.config import ArchiveConfig
from quorate.pipeline.jobs.progress import Progress
from quorate.pipeline.jobs.stopping import StopRequest, stopping_on_signals


class Printing:
    """Whoever runs a job says where its words go."""

    def __init__(self) -> None:
        self.stop = StopRequest()

    def tell(self, line: str) -> None:
        print(line)

    def show(self, progress: Progress) -> None:
        print(progress)


def prepared(records: DataFrame) -> DataFrame:
    """Keep the columns topic, partition, offset and timestamp: they are how a record is known."""
    return records.withColumn("customer", f.col("key").cast("string"))


def main(bootstrap: str, topic: str, path: str) -> None:
    config = ArchiveConfig(bootstrap_servers=bootstrap, topics=(topic,), path=path, is_once=True)
    job = Printing()
    with stopping_on_signals(job.stop):
        outcome = run(config, job, prepared=prepared)
    print(f"{outcome.rows} records archived")


if __name__ == "__main__":
    if len(sys.argv) != 1 + 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
