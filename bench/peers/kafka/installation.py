"""Gets Kafka from Maven Central, and confluent-kafka from PyPI, once for each version."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final, NamedTuple

from bench.peers.tools import TOOLS, fetching, python_with, require, run

__all__ = ["CONFLUENT_KAFKA", "Installation", "install"]

POM: Final = Path(__file__).with_name("pom.xml")
CONFLUENT_KAFKA: Final = "2.16.1"


class Installation(NamedTuple):
    version: str
    #: with every jar that a broker, its tools and its Java clients need
    jars: Path
    #: an interpreter that has confluent-kafka
    python: Path

    @property
    def class_path(self) -> str:
        return f"{self.jars}/*"


def install() -> Installation:
    """Fetches what is not there yet."""
    require("java", by="Kafka")
    version = _version()
    jars = TOOLS / f"kafka-peer-{version}"
    if not jars.exists():
        require("mvn", by="Kafka")
        with fetching(f"Kafka {version}", takes="half a minute"):
            _fetch_jars(jars)
    return Installation(version, jars, python_with("confluent-kafka", CONFLUENT_KAFKA))


def _version() -> str:
    found = re.search(r"<artifactId>kafka_2\.13</artifactId>\s*<version>([\d.]+)<", POM.read_text())
    assert found is not None
    return found[1]


def _fetch_jars(directory: Path) -> None:
    """Into place only once it is whole: a directory that exists is one that can be used."""
    unfinished = directory.with_suffix(".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    run("mvn", "-q", "-f", POM, "dependency:copy-dependencies", f"-DoutputDirectory={unfinished}")
    unfinished.rename(directory)
