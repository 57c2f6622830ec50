"""Gets the jars, once for each version."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

from bench.peers.tools import TOOLS, fetching, require, run

__all__ = ["install"]

POM: Final = Path(__file__).with_name("pom.xml")
_VERSION: Final = re.compile(r"<artifactId>spark-sql-kafka-0-10_2\.13</artifactId>\s*<version>([\d.]+)<")


def install() -> list[Path]:
    """Fetches what is not there yet."""
    found = _VERSION.search(POM.read_text())
    assert found is not None
    jars = TOOLS / f"spark-kafka-{found[1]}"
    if not jars.exists():
        require("mvn", by="Spark's Kafka source")
        unfinished = jars.with_suffix(".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        with fetching(f"Spark's Kafka source {found[1]}", takes="half a minute"):
            run("mvn", "-q", "-f", POM, "dependency:copy-dependencies", f"-DoutputDirectory={unfinished}")
        unfinished.rename(jars)
    return sorted(jars.glob("*.jar"))
