"""What a process of a query loads: several are started for each, and imports are most of what they cost."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyspark", reason="the extra spark is not installed")

_TALKS = ("quorate.client.cluster", "quorate.pipeline.source.connection")


def _loaded_by(program: str) -> set[str]:
    script = f"{program}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_who_asks_for_the_schema_loads_neither_the_client_nor_the_options() -> None:
    program = (
        "from quorate.pipeline.source.data_source import QuorateDataSource\nQuorateDataSource({}).schema()"
    )
    loaded = _loaded_by(program)
    assert not loaded & {*_TALKS, "quorate.core.config", "quorate.pipeline.source.read_options"}


def test_who_plans_a_stream_does_not_load_what_talks_to_the_cluster() -> None:
    program = (
        "from pyspark.sql.types import StructType\n"
        "from quorate.pipeline.source.data_source import QuorateDataSource\n"
        "given = {'kafka.bootstrap.servers': 'h:1', 'subscribe': 't'}\n"
        "QuorateDataSource(given).streamReader(StructType())"
    )
    assert not _loaded_by(program) & set(_TALKS)


def test_who_reads_or_writes_on_an_executor_needs_no_patterns_of_topics() -> None:
    """Executors need pyarrow, grpcio, protobuf and this package, and no google-re2."""
    program = (
        "import pickle\n"
        "from pyspark.sql.types import StructType\n"
        "from quorate.pipeline.source.data_source import QuorateDataSource\n"
        "import quorate.client\n"
        "from quorate.pipeline.source import arrow_rows, connection, fetching, sink, tasks, write_options\n"
        "given = {'kafka.bootstrap.servers': 'h:1', 'subscribe': 't'}\n"
        "for reader in (QuorateDataSource(given).streamReader, QuorateDataSource(given).reader):\n"
        "    pickle.loads(pickle.dumps(reader(StructType())))"
    )
    assert "re2" not in _loaded_by(program)
