"""Gets Kafka from Maven Central, and confluent-kafka from PyPI, once for each version.

Both go below .tools, outside of the project's environment. confluent-kafka is no requirement of ours, not
even of our developers: nothing but this comparison imports it, and it runs in a process of its own there, so
it has an environment of its own too, and the project's set-up stays as small as it is.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Installation", "KafkaIsUnavailable", "install"]

ROOT: Final = Path(__file__).resolve().parents[3]
POM: Final = Path(__file__).with_name("pom.xml")
TOOLS: Final = ROOT / ".tools"
CONFLUENT_KAFKA: Final = "2.16.1"


class KafkaIsUnavailable(Exception):
    """What is missing on this machine to run Kafka, or what its download said."""


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
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise KafkaIsUnavailable(f"Kafka needs {program}, which is not on the path")
    version = _version()
    TOOLS.mkdir(exist_ok=True)
    jars = TOOLS / f"kafka-peer-{version}"
    if not jars.exists():
        print(f"fetching Kafka {version} (half a minute, once)", file=sys.stderr)
        _fetch_jars(jars)
    environment = TOOLS / f"confluent-kafka-{CONFLUENT_KAFKA}"
    if not environment.exists():
        print(f"fetching confluent-kafka {CONFLUENT_KAFKA} (once)", file=sys.stderr)
        _make_environment(environment)
    return Installation(version, jars, environment / "bin" / "python")


def _version() -> str:
    found = re.search(r"<artifactId>kafka_2\.13</artifactId>\s*<version>([\d.]+)<", POM.read_text())
    assert found is not None
    return found[1]


def _fetch_jars(directory: Path) -> None:
    """Into place only once it is whole: a directory that exists is one that can be used."""
    unfinished = directory.with_suffix(".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    _run("mvn", "-q", "-f", POM, "dependency:copy-dependencies", f"-DoutputDirectory={unfinished}")
    unfinished.rename(directory)


def _make_environment(directory: Path) -> None:
    """Scripts in an environment name its folder, so it is made in its place, and removed if that fails."""
    try:
        _run(sys.executable, "-m", "venv", directory)
        pip = (directory / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--no-input")
        _run(*pip, "install", "--quiet", f"confluent-kafka=={CONFLUENT_KAFKA}")
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _run(*command: str | Path) -> None:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        output = (finished.stdout + finished.stderr).strip()
        raise KafkaIsUnavailable(f"{' '.join(map(str, command))}\n{output}")
