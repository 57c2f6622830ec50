"""Two images to put into the cluster: one to begin with, and one to upgrade to."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from deploy.test.commands import run, say
from deploy.test.engine import engine
from deploy.test.image import IMAGE, build_image, remove_images

__all__ = ["Images", "built_images"]

_FIRST: Final = "quorate:k8s-test"
_NEXT: Final = "quorate:k8s-test-next"


@dataclass(frozen=True, slots=True)
class Images:
    first: str
    #: what is upgraded to
    next: str


@asynccontextmanager
async def built_images(load: str) -> AsyncIterator[Images]:
    """Of this source tree, and loaded by the command, in which ``{tar}`` is the archive with both."""
    async with engine():
        try:
            await build_image()
            with tempfile.TemporaryDirectory(prefix="quorate-k8s-") as directory:
                await _export(f"{directory}/images.tar", load)
        finally:
            await run("docker", "image", "rm", "--force", _FIRST, _NEXT, is_checked=False)
            await remove_images()
    yield Images(_FIRST, _NEXT)


async def _export(archive: str, load: str) -> None:
    await run("docker", "tag", IMAGE, _FIRST)
    # Another image all the same: its label says so, and with it its digest.
    await run(
        *("docker", "build", "--tag", _NEXT, "--label", "org.opencontainers.image.version=next", "-"),
        environment={"DOCKER_BUILDKIT": "0"},
        text=f"FROM {IMAGE}\n",
    )
    await run("docker", "save", "--output", archive, _FIRST, _NEXT)
    os.chmod(archive, 0o644)
    say("image", f"loading {_FIRST} and {_NEXT}")
    await run("sh", "-c", load.replace("{tar}", archive))
