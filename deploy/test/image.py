"""The image that is tested, from a base that is made here: no registry has to be asked for one."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from deploy.test.commands import CannotTest, has_program, run, say

__all__ = ["IMAGE", "build_image", "check_image", "remove_images"]

ROOT: Final = Path(__file__).resolve().parents[2]
IMAGE: Final = "quorate-deploy-test"
_BASE: Final = "quorate-deploy-test-base"
_SUITE: Final = "bookworm"
_INCLUDED: Final = "python3,python3-venv,ca-certificates"
_CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"


async def build_image() -> None:
    base = os.environ.get("BASE_IMAGE")
    if base is None:
        base = _BASE
        await _make_base()
    say("image", f"building it from {base}")
    # The older builder is there in every engine; the newer one is a plugin that may be missing.
    await run(
        *("docker", "build", "--network", "host", "--file", str(ROOT / "deploy/Dockerfile")),
        *(
            "--build-arg",
            f"BASE_IMAGE={base}",
            "--build-arg",
            "VERSION=deploy-test",
            "--tag",
            IMAGE,
            str(ROOT),
        ),
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
    return f"no compiler, no root; {version.strip()}"


async def remove_images() -> None:
    await run("docker", "image", "rm", "--force", IMAGE, _BASE, is_checked=False)


async def _make_base() -> None:
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
        await run("docker", "import", "--change", f"ENV PIP_CERT={_CERTIFICATES}", archive, _BASE)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
