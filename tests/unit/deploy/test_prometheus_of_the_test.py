"""`make deploy-test` and Prometheus: of what its image is made, and what is asked of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.observability.asking import Prometheus
from deploy.test import containers, image, prometheus
from deploy.test.commands import CannotTest
from deploy.test.containers import Containers
from tests.unit.deploy.deploy_files import DEPLOY

NODES = {"broker-1:9644", "broker-2:9644"}
IMAGE = "prom/prometheus:v3.5.0"


class Monitor:
    """Prometheus as it answers; ``ills``: what is unlike a cluster that is well; the last one stays."""

    def __init__(self, *ills: dict[str, dict[str, str] | OSError]) -> None:
        self._ills = list(ills)
        self._now = 0.0
        self.well: dict[str, dict[str, str] | OSError] = {
            "targets": dict.fromkeys(NODES, "up"),
            "rules": dict.fromkeys(prometheus._rules(), "ok"),
            "alerts": {},
        }

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self._now += seconds
        if len(self._ills) > 1:
            self._ills.pop(0)

    def answer(self, what: str) -> dict[str, str]:
        found = {**self.well, **self._ills[0]}[what]
        if isinstance(found, OSError):
            raise found
        return found


@pytest.fixture
def targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    directory = tmp_path / "prometheus"
    directory.mkdir()
    (directory / "targets.yaml").write_text(yaml.safe_dump([{"targets": sorted(NODES)}]))
    monkeypatch.setattr(prometheus, "OBSERVABILITY", tmp_path)
    return "targets.yaml"


def asked(monitor: Monitor, monkeypatch: pytest.MonkeyPatch) -> None:
    for what in ("targets", "rules", "alerts"):

        async def answer(_: Prometheus, what: str = what) -> dict[str, str]:
            return monitor.answer(what)

        monkeypatch.setattr(Prometheus, what, answer)

    async def version(_: Prometheus) -> str:
        return "3.5.0"

    monkeypatch.setattr(Prometheus, "version", version)
    monkeypatch.setattr(prometheus, "time", monitor)
    monkeypatch.setattr(prometheus, "asyncio", monitor)


async def test_all_nodes_are_scraped_and_no_alert_is_pending_for_a_while(
    targets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = dict.fromkeys(prometheus._rules(), "unknown")
    monitor = Monitor(
        {"targets": OSError("refused")},
        {"targets": {}},
        {"rules": rules},
        {"alerts": {"QuorateNodeDown": "pending"}},
        {"alerts": {"QuorateDiskFilling": "pending"}},
    )
    asked(monitor, monkeypatch)
    told = await prometheus.check_prometheus(targets)
    assert told == f"Prometheus 3.5.0 scrapes all 2 nodes, and of {len(rules)} alerts none fires"
    assert monitor.monotonic() == 3 + prometheus._STEADY_S, "from the last trouble on"


@pytest.mark.parametrize(
    ("ill", "told"),
    [
        ({"targets": {"broker-1:9644": "up"}}, "targets: broker-2:9644 is missing"),
        ({"targets": {"broker-1:9644": "up", "broker-2:9644": "down"}}, "targets: broker-2:9644 is down"),
        ({"alerts": {"QuorateNodeDown": "firing"}}, "alerts: QuorateNodeDown is firing"),
        ({"alerts": {"QuorateNodeDown": "pending"}}, "alerts: QuorateNodeDown is pending"),
        ({"alerts": {"QuorateDiskFilling": "firing"}}, "alerts: QuorateDiskFilling is firing"),
        ({"rules": {}}, "QuorateNodeDown is missing"),
        ({"targets": OSError("refused")}, "it does not answer: refused"),
    ],
)
async def test_what_stays_ill_is_told(
    targets: str, ill: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(Monitor(ill), monkeypatch)
    with pytest.raises(CannotTest, match=told):
        await prometheus.check_prometheus(targets)


def look_at(context: Path) -> None:
    head = f"FROM {image.default_base()}\nLABEL {image.LABEL}={image.MADE_HERE}\n"
    assert (context / "Dockerfile").read_text().startswith(head)
    assert (context / "prometheus").read_text() == "program"


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, ...]]:
    """Those that were given; there is no image yet, and a program."""
    given: list[tuple[str, ...]] = []

    async def run(*command: str, **_: Any) -> str:
        if command[:2] == ("docker", "build"):
            look_at(Path(command[-1]))
        given.append(command)
        return ""

    program = tmp_path / "prometheus"
    program.write_text("program")
    for module in (image, prometheus):
        monkeypatch.setattr(module, "run", run)
    monkeypatch.setattr(prometheus, "find_tool", lambda _: str(program))
    for name in ("BASE_IMAGE", "PROMETHEUS_IMAGE"):
        monkeypatch.delenv(name, raising=False)
    return given


async def test_image_is_made_under_the_name_that_the_files_have(commands: list[tuple[str, ...]]) -> None:
    settings = dict(
        line.split("=", 1) for line in (DEPLOY / ".env").read_text().splitlines() if "_IMAGE=" in line
    )
    assert prometheus.prometheus_image() == settings["PROMETHEUS_IMAGE"] == IMAGE
    await prometheus.make_prometheus_image()
    assert commands[-1][:-1] == ("docker", "build", "--network", "none", "--tag", IMAGE)


async def test_image_that_somebody_has_is_taken_and_stays(
    commands: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def size(_: str) -> int:
        return 300_000_000

    monkeypatch.setattr(image, "_size", size)
    await prometheus.make_prometheus_image()
    await prometheus.remove_prometheus_image()
    assert not [command for command in commands if command[1] == "build" or "rm" in command]


async def test_without_a_program_to_make_it_of_it_fails(
    commands: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "find_tool", lambda _: None)
    with pytest.raises(CannotTest, match="install Debian's package of that name, or Go"):
        await prometheus.make_prometheus_image()


@pytest.mark.parametrize("file", [containers.APART, containers.COMBINED], ids=lambda file: file.name)
async def test_it_is_brought_up_and_taken_away_by_its_profile(
    file: containers.ComposeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[str, ...]] = []

    async def run(*command: str, **_: Any) -> str:
        given.append(command[command.index("--profile") :])
        return ""

    async def check(targets: str) -> str:
        assert (DEPLOY / "observability" / "prometheus" / targets).exists()
        assert targets in (DEPLOY / file.name).read_text()
        return "fine"

    monkeypatch.setattr(containers, "run", run)
    monkeypatch.setattr(containers, "check_prometheus", check)
    assert await Containers(["compose"], file).watch() == "fine"
    assert given == [
        ("--profile", "observability", "up", "--detach", "--no-build", "--no-deps", "prometheus"),
        ("--profile", "observability", "rm", "--stop", "--force", "prometheus"),
    ]
