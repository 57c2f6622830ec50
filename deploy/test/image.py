"""The image that is tested, from the base that its build file names.

No registry has to be asked for that one: where the engine has none of that name, Debian with Python is made
here and imported under it, so that the build file is tried as it stands. One that is there is somebody's, and
is taken as it is; only what was made here, which a label tells, is removed afterwards.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

from deploy.test.commands import CannotTest, has_program, run, say
from quorate.chaos.evidence.checkout import commit_of

__all__ = [
    "IMAGE",
    "LABEL",
    "MADE_HERE",
    "base_image",
    "build_image",
    "check_image",
    "check_promises",
    "default_base",
    "has_image",
    "remove_images",
    "remove_made_here",
]

ROOT: Final = Path(__file__).resolve().parents[2]
IMAGE: Final = "quorate-deploy-test"
_DOCKERFILE: Final = ROOT / "deploy" / "Dockerfile"
#: on images that were made here under names that others have, too
LABEL: Final = "quorate-deploy-test"
MADE_HERE: Final = "base"
_SUITE: Final = "bookworm"
_INCLUDED: Final = "python3,python3-venv,ca-certificates"
#: What the image adds to its base: the program, what it depends on, and tini, with little room to spare above
#: what runs on record say (docs/evidence/deployments.md). The compiler of the stage before, or a package
#: manager's cache, would not fit into it.
_ADDED_MAX: Final = 110_000_000
_MB: Final = 1_000_000
#: of the image that is tested, in the label that names it
_VERSION: Final = "deploy-test"
#: what the build file says where nobody names the revision
_UNNAMED: Final = "unknown"
_LABELS: Final = ("title", "description", "licenses", "version", "revision")
_HEALTH_CHECK: Final = ["CMD", "python3", "/opt/quorate/healthcheck.py"]
_CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"


async def build_image() -> None:
    chosen = os.environ.get("BASE_IMAGE")
    if chosen is None and not await has_image(default_base()):
        await _make_base(default_base())
    say("image", f"building it from {base_image()}")
    # The older builder is there in every engine; the newer one is a plugin that may be missing.
    await run(
        *("docker", "build", "--network", "host", "--file", str(_DOCKERFILE)),
        *(() if chosen is None else ("--build-arg", f"BASE_IMAGE={chosen}")),
        *("--build-arg", f"VERSION={_VERSION}", "--build-arg", f"REVISION={_revision()}"),
        *("--tag", IMAGE, str(ROOT)),
        environment={"DOCKER_BUILDKIT": "0"},
        timeout_s=1_800,
    )


async def check_image() -> str:
    """What its build file promises; what there is to tell."""
    for program in ("gcc", "cc"):
        found = await run(
            *("docker", "run", "--rm", "--network", "none", "--entrypoint", "sh", IMAGE),
            *("-c", f"command -v {program} || true"),
        )
        if found.strip():
            raise CannotTest(f"the image has {found.strip()} in it")
    who = await run("docker", "run", "--rm", "--network", "none", "--entrypoint", "id", IMAGE, "-u")
    if who.strip() != "10001":
        raise CannotTest(f"the image runs as user {who.strip()}, not 10001")
    version = await run("docker", "run", "--rm", "--network", "none", "--read-only", IMAGE, "--version")
    if "compiled" not in version:
        raise CannotTest(f"the image has no compiled codec: {version.strip()}")
    check_promises(
        await run(
            *("docker", "image", "inspect", "--format", "{{json .Config}}", IMAGE),
            has_errors=False,
        )
    )
    return f"no compiler, no root, labels, a health check; {version.strip()}; {await _check_size()}"


def check_promises(config: str) -> None:
    """What the engine took over from the build file. ``config``: the image's, in JSON."""
    try:
        found = json.loads(config)
        labels, health_check = found.get("Labels") or {}, found.get("Healthcheck") or {}
    except (ValueError, AttributeError):
        raise CannotTest(
            f"the engine does not tell what the image says of itself: {config.strip()}"
        ) from None
    missing = [name for name in _LABELS if not labels.get(f"org.opencontainers.image.{name}")]
    if missing:
        raise CannotTest(f"the image has no label for its {', '.join(missing)}")
    version = labels["org.opencontainers.image.version"]
    if version != _VERSION:
        raise CannotTest(f"the image's label says version {version}, and it was built as {_VERSION}")
    if labels["org.opencontainers.image.revision"] == _UNNAMED:
        raise CannotTest(f"the image's label says revision {_UNNAMED}, and it was built with another")
    if health_check.get("Test") != _HEALTH_CHECK:
        raise CannotTest(f"the image's health check is {health_check.get('Test')}, not {_HEALTH_CHECK}")


async def remove_images() -> None:
    await run("docker", "image", "rm", "--force", IMAGE, is_checked=False)
    await remove_made_here(default_base())


async def has_image(name: str) -> bool:
    return await _size(name) is not None


async def remove_made_here(name: str) -> None:
    """Unless it is somebody's."""
    label = await run(
        *("docker", "image", "inspect", "--format", f'{{{{index .Config.Labels "{LABEL}"}}}}', name),
        is_checked=False,
        has_errors=False,
    )
    if label.strip() == MADE_HERE:
        await run("docker", "image", "rm", "--force", name, is_checked=False)


def default_base() -> str:
    """That the build file names."""
    [name] = re.findall(r"^ARG BASE_IMAGE=(\S+)$", _DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    return str(name)


def base_image() -> str:
    """What images are built from here."""
    return os.environ.get("BASE_IMAGE") or default_base()


def _revision() -> str:
    """Of what is built, as `git describe --dirty` would name it."""
    commit = commit_of(ROOT)
    if commit.name is None:
        return "none"  # the sources alone, without their history
    return commit.name if commit.is_clean else f"{commit.name}-dirty"


async def _size(image: str) -> int | None:
    """None: the engine has no such image."""
    told = await run(
        *("docker", "image", "inspect", "--format", "{{.Size}}", image), is_checked=False, has_errors=False
    )
    return int(told) if told.strip() else None


async def _check_size() -> str:
    """The base is whatever it is; what is added to it is ours."""
    whole, base = await _size(IMAGE), await _size(base_image())
    if whole is None or base is None:
        raise CannotTest(f"the engine tells no size of {IMAGE} or {base_image()}")
    if whole - base > _ADDED_MAX:
        raise CannotTest(
            f"the image adds {(whole - base) / _MB:.0f} MB to its base; {_ADDED_MAX / _MB:.0f} MB are allowed"
        )
    return f"{whole / _MB:.0f} MB, of which {(whole - base) / _MB:.0f} MB on top of {base_image()}"


async def _make_base(name: str) -> None:
    """Debian with Python; it trusts whom this machine trusts, which may be a proxy on the way out."""
    if not has_program("debootstrap"):
        raise CannotTest("debootstrap is not installed: install it, or name an image with BASE_IMAGE")
    say("image", f"making a base of Debian {_SUITE} with debootstrap")
    directory = tempfile.mkdtemp(prefix="quorate-base-")
    try:
        tree = f"{directory}/root"
        await run("debootstrap", "--variant=minbase", f"--include={_INCLUDED}", _SUITE, tree, timeout_s=1_200)
        if os.path.exists(_CERTIFICATES):
            shutil.copy(_CERTIFICATES, f"{tree}{_CERTIFICATES}")
        archive = f"{directory}/base.tar"
        await run("tar", "--create", "--file", archive, "--directory", tree, ".")
        changes = (f"ENV PIP_CERT={_CERTIFICATES}", f"LABEL {LABEL}={MADE_HERE}")
        await run("docker", "import", *(f"--change={each}" for each in changes), archive, name)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
