"""The Prometheus of the compose files' profile, as they configure it: what it scrapes, and whom it warns of.

No registry has to be asked for its image, either: where the engine has none of that name, one is made under
it of the program that `make promtool` builds, with the entry point, user and volume of the original.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.observability.asking import Prometheus
from deploy.test.commands import CannotTest, run, say
from deploy.test.image import LABEL, MADE_HERE, base_image, has_image, remove_made_here
from tools.check_alerts import ROOT, RULES, find_tool

__all__ = [
    "PROMETHEUS_PORT",
    "check_prometheus",
    "make_prometheus_image",
    "prometheus_image",
    "remove_prometheus_image",
]

OBSERVABILITY: Final = ROOT / "deploy" / "observability"
#: as it is published
PROMETHEUS_PORT: Final = 9090
_PATIENCE_S: Final = 120.0
#: It scrapes every 15 s, and evaluates as often: so long after it saw all nodes, no rule has yet to see them.
_STEADY_S: Final = 31.0
_POLL_S: Final = 1.0
#: Rules about the disk of the machine. Others fill it, too: what a minute of that foretells may be pending.
_OF_THE_MACHINE: Final = "quorate-disks"
#: As the original's. On a base with a C library, as a package's program wants one.
_DOCKERFILE: Final = """\
FROM {base}
LABEL {label}={made_here}
COPY prometheus /bin/prometheus
RUN mkdir --parents /etc/prometheus /prometheus && chown 65534:65534 /etc/prometheus /prometheus
WORKDIR /prometheus
USER 65534
EXPOSE 9090
VOLUME ["/prometheus"]
ENTRYPOINT ["/bin/prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
"""


def prometheus_image() -> str:
    """That the files name, or the environment instead."""
    text = (OBSERVABILITY / "services.yaml").read_text(encoding="utf-8")
    [name] = re.findall(r"image: \$\{PROMETHEUS_IMAGE:-(\S+)\}$", text, re.MULTILINE)
    return os.environ.get("PROMETHEUS_IMAGE") or str(name)


async def make_prometheus_image() -> None:
    """After the image of the nodes: it has the same base."""
    name = prometheus_image()
    if await has_image(name):
        return
    program = find_tool("prometheus")
    if program is None:
        raise CannotTest(
            f"the engine has no {name}, and there is no prometheus to make one of: install Debian's package "
            "of that name, or Go"
        )
    say("image", f"making {name} of {os.path.basename(program)} of this machine")
    with tempfile.TemporaryDirectory(prefix="quorate-prometheus-") as directory:
        shutil.copy(program, f"{directory}/prometheus")
        text = _DOCKERFILE.format(base=base_image(), label=LABEL, made_here=MADE_HERE)
        Path(directory, "Dockerfile").write_text(text, encoding="utf-8")
        await run(
            *("docker", "build", "--network", "none", "--tag", name, directory),
            environment={"DOCKER_BUILDKIT": "0"},
        )


async def remove_prometheus_image() -> None:
    await remove_made_here(prometheus_image())


async def check_prometheus(targets: str) -> str:
    """Of a cluster that is well: what there is to tell. ``targets``: the file that lists whom it scrapes."""
    prometheus = Prometheus(f"127.0.0.1:{PROMETHEUS_PORT}")
    nodes = _nodes(OBSERVABILITY / "prometheus" / targets)
    rules = _rules()
    deadline = time.monotonic() + _PATIENCE_S
    well_since = time.monotonic()
    while time.monotonic() < well_since + _STEADY_S:
        if trouble := await _trouble(prometheus, nodes, rules):
            if time.monotonic() > deadline:
                raise CannotTest(f"Prometheus after {_PATIENCE_S:g} s: {trouble}")
            well_since = time.monotonic()
        await asyncio.sleep(_POLL_S)
    version = await prometheus.version() or "of no version"
    return f"Prometheus {version} scrapes all {len(nodes)} nodes, and of {len(rules)} alerts none fires"


async def _trouble(prometheus: Prometheus, nodes: Collection[str], rules: Collection[str]) -> str:
    try:
        return (
            _unlike("targets", dict.fromkeys(nodes, "up"), await prometheus.targets())
            or _unlike("rules", dict.fromkeys(rules, "ok"), await prometheus.rules())
            or _unlike("alerts", {}, _of_the_cluster(await prometheus.alerts()))
        )
    except OSError as error:
        return f"it does not answer: {error}"


def _of_the_cluster(alerts: Mapping[str, str]) -> dict[str, str]:
    of_the_machine = _rules(_OF_THE_MACHINE)
    return {name: state for name, state in alerts.items() if state != "pending" or name not in of_the_machine}


def _unlike(what: str, wanted: Mapping[str, str], found: Mapping[str, str]) -> str:
    names = sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))
    return ", ".join(f"{what}: {name} is {found.get(name, 'missing')}" for name in names)


def _nodes(path: Path) -> set[str]:
    return {target for group in _read(path) for target in group["targets"]}


def _rules(group: str | None = None) -> set[str]:
    """Of this group, or of all."""
    groups = [each for path in RULES.glob("*.yaml") for each in _read(path)["groups"]]
    return {rule["alert"] for each in groups if group in (None, each["name"]) for rule in each["rules"]}


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))
