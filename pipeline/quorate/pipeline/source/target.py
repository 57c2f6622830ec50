"""Whether the topic that is written to is there: told before a task begins, not by a task after a minute.

A topic that a column names is known to the tasks alone. Brokers that do not answer are left to them as well:
a cluster runs tasks again, and a query that has failed here is not run again by anybody.
"""

from __future__ import annotations

from quorate.core.error_base import QuorateError
from quorate.errors import UnknownTopicOrPartition
from quorate.pipeline.source.connection import connection_to
from quorate.pipeline.source.write_options import WriteOptions

__all__ = ["check_target"]


def check_target(options: WriteOptions) -> None:
    if options.topic is None:
        return
    connection = connection_to(options.bootstrap)
    timeout_s = options.producer.max_block_ms / 1000
    try:
        connection.run(connection.cluster.topic(options.topic, timeout_s=timeout_s))
    except UnknownTopicOrPartition as error:
        raise UnknownTopicOrPartition(
            f"there is no topic {options.topic}, as far as the brokers know: create it first, or correct the "
            f"option topic",
            topic=options.topic,
        ) from error
    except QuorateError as error:
        if not error.retriable:
            raise
