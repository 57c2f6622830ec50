"""`make deploy-test` and the image: from which base it is built, how large it may be, what is left of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deploy.test import image
from deploy.test.commands import CannotTest
from quorate.chaos.evidence.checkout import Commit

BASE = "python:3.11-slim"
#: of what an engine, 20.10, tells of an image that was built from the end of the build file
CONFIG: dict[str, Any] = {
    "User": "10001:10001",
    "Healthcheck": {
        "Test": ["CMD", "python3", "/opt/quorate/healthcheck.py"],
        "Interval": 5_000_000_000,
        "Timeout": 10_000_000_000,
        "StartPeriod": 120_000_000_000,
        "Retries": 6,
    },
    "Labels": {
        "org.opencontainers.image.description": "A replicated, partitioned log",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.revision": "0cd8cffa0c826f6ddafe619cafda5110d73c1ed6-dirty",
        "org.opencontainers.image.title": "Quorate",
        "org.opencontainers.image.version": "deploy-test",
    },
}


class Engine:
    """Images by name, with their size and the label that says that the test made them."""

    def __init__(self, **images: tuple[int, str]) -> None:
        self.images = {name.replace("__", ":").replace("_", "-"): each for name, each in images.items()}
        self.build_arguments: list[str] = []
        self.commands: list[tuple[str, ...]] = []
        self.added = 90_000_000

    async def run(self, *command: str, **_: Any) -> str:
        self.commands.append(command)
        match command:
            case ("docker", "image", "inspect", "--format", "{{json .Config}}", image.IMAGE):
                return f"{json.dumps(CONFIG)}\n"
            case ("docker", "image", "inspect", "--format", wanted, name):
                if name not in self.images:
                    return ""
                size, label = self.images[name]
                return f"{size}\n" if wanted == "{{.Size}}" else f"{label}\n"
            case ("docker", "import", *changes, _, name):
                assert "--change=LABEL quorate-deploy-test=base" in changes
                self.images[name] = (250_000_000, "base")
            case ("docker", "build", *arguments):
                self.build_arguments = [arg for arg in arguments if arg.startswith("BASE_IMAGE=")]
                base = self.build_arguments[0].partition("=")[2] if self.build_arguments else BASE
                self.images[image.IMAGE] = (self.images[base][0] + self.added, "")
            case ("docker", "image", "rm", "--force", *names):
                for name in names:
                    self.images.pop(name, None)
            case ("docker", "run", *_, "id", _, "-u"):
                return "10001\n"
            case ("docker", "run", *_, "--version"):
                return "quorate 0.1.0, codec compiled\n"
            case ("docker", "run", *_):
                return ""
            case ("debootstrap" | "tar", *_):
                pass
            case _:
                raise AssertionError(command)
        return ""


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    fake = Engine()
    monkeypatch.setattr(image, "run", fake.run)
    monkeypatch.setattr(image, "has_program", lambda _: True)
    monkeypatch.setattr(image, "_CERTIFICATES", "/no/such/file")
    monkeypatch.delenv("BASE_IMAGE", raising=False)
    return fake


async def test_base_that_the_build_file_names_is_made_under_its_name(engine: Engine) -> None:
    assert image.default_base() == BASE
    await image.build_image()
    assert BASE in engine.images
    assert engine.build_arguments == [], "the build file is tried as it stands"
    await image.remove_images()
    assert engine.images == {}


async def test_base_that_somebody_has_is_taken_as_it_is_and_stays(engine: Engine) -> None:
    engine.images[BASE] = (130_000_000, "")
    await image.build_image()
    assert not [command for command in engine.commands if command[0] == "debootstrap"]
    await image.remove_images()
    assert engine.images == {BASE: (130_000_000, "")}


@pytest.mark.parametrize(
    ("commit", "revision"),
    [
        (Commit("0cd8cffa", is_clean=True), "0cd8cffa"),
        (Commit("0cd8cffa", is_clean=False), "0cd8cffa-dirty"),
        (Commit(None, is_clean=False), "none"),
    ],
)
async def test_build_is_told_of_which_revision_it_is(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, commit: Commit, revision: str
) -> None:
    monkeypatch.setattr(image, "commit_of", lambda _root: commit)
    await image.build_image()
    [build] = [command for command in engine.commands if command[:2] == ("docker", "build")]
    assert f"REVISION={revision}" in build


async def test_another_base_can_be_named(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASE_IMAGE", "registry/python:3.12")
    engine.images["registry/python:3.12"] = (130_000_000, "")
    await image.build_image()
    assert engine.build_arguments == ["BASE_IMAGE=registry/python:3.12"]
    assert "220 MB, of which 90 MB on top of registry/python:3.12" in await image.check_image()
    await image.remove_images()
    assert set(engine.images) == {"registry/python:3.12"}


async def test_size_is_told_and_has_a_bound(engine: Engine) -> None:
    await image.build_image()
    assert "340 MB, of which 90 MB on top of python:3.11-slim" in await image.check_image()
    engine.added = 111_000_000
    await image.build_image()
    with pytest.raises(CannotTest, match="adds 111 MB to its base; 110 MB are allowed"):
        await image.check_image()


def test_labels_and_health_check_of_the_build_file_are_in_the_image() -> None:
    image.check_promises(json.dumps(CONFIG))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"Labels": None}, "no label for its title, description, licenses, version, revision"),
        ({"Labels": {**CONFIG["Labels"], "org.opencontainers.image.title": ""}}, "no label for its title"),
        (
            {"Labels": {**CONFIG["Labels"], "org.opencontainers.image.version": "unreleased"}},
            "says version unreleased, and it was built as deploy-test",
        ),
        (
            {"Labels": {**CONFIG["Labels"], "org.opencontainers.image.revision": "unknown"}},
            "says revision unknown, and it was built with another",
        ),
        ({"Healthcheck": None}, "health check is None"),
        ({"Healthcheck": {"Test": ["NONE"]}}, "health check is .'NONE'."),
    ],
)
def test_image_that_does_not_keep_what_its_build_file_promises_fails(
    changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(CannotTest, match=said):
        image.check_promises(json.dumps({**CONFIG, **changed}))


@pytest.mark.parametrize("told", ["", "null", "no such image"])
def test_engine_that_tells_nothing_of_the_image_fails_the_test(told: str) -> None:
    with pytest.raises(CannotTest, match="does not tell what the image says of itself"):
        image.check_promises(told)
