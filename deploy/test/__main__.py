"""Builds the image, brings up the compose files, breaks them under load, and checks all acknowledged records.

Of compose.yaml a leader is killed and comes back; every container is restarted in turn; all of them go down
and come up again with their data; drills kill, pause and cut off containers through the agent interface. Of
compose.combined.yaml a leader is killed. The Prometheus of each is asked what it sees. It needs a container
engine, and fails where none can be had: it does not pass without one. Exit status 0: every step passed; 1:
one did not, or could not be done.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from deploy.test.commands import CannotTest, run
from deploy.test.containers import APART, COMBINED, check_ports, containers
from deploy.test.engine import compose_command, engine
from deploy.test.evidence import EVIDENCE, ContainersRun
from deploy.test.image import ROOT, build_image, check_image, remove_images
from deploy.test.prometheus import make_prometheus_image, remove_prometheus_image
from deploy.test.run_records import machine
from deploy.test.steps import Steps, conclude
from deploy.test.story import Story
from quorate.chaos.checks.violation import Violation
from quorate.chaos.evidence.checkout import commit_of
from quorate.errors import QuorateError


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    # Whoever ends it by SIGTERM wants the same as with Ctrl-C: nothing is to be left over.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run_record = asyncio.run(test())
    except CannotTest as error:
        sys.stderr.write(f"deploy-test failed: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    if options.record:
        EVIDENCE.record(ROOT, run_record)
    return conclude("deploy-test", run_record)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="deploy-test", description=__doc__)
    parser.add_argument("--record", action="store_true", help="add the run to docs/evidence/deployments.md")
    return parser.parse_args(arguments)


async def test() -> ContainersRun:
    """A step that fails is part of what it gives; without an engine there is nothing to give."""
    began = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    commit = commit_of(ROOT)
    steps = Steps()
    async with engine():
        compose = await compose_command()
        check_ports()
        engine_version = await run("docker", "version", "--format", "{{.Server.Version}}")
        compose_version = await run(*compose, "version", "--short")
        try:
            await take(steps, compose)
        except (CannotTest, Violation, QuorateError) as error:
            steps.ended_by(error)
        finally:
            await remove_prometheus_image()
            await remove_images()
    return ContainersRun(
        began=began,
        commit=commit.name,
        is_clean=commit.is_clean,
        system=machine(),
        engine=engine_version.strip(),
        compose=compose_version.strip(),
        steps=tuple(steps.done),
    )


async def take(steps: Steps, compose: Sequence[str]) -> None:
    async with steps.step("image", "build the image of this commit, and look at what is in it") as told:
        await build_image()
        told.append(await check_image())
        await make_prometheus_image()
    async with containers(compose, APART) as running:
        await Story(steps, running).tell()
    async with containers(compose, COMBINED) as running:
        await Story(steps, running, prefix="combined-").tell_in_short()


if __name__ == "__main__":
    sys.exit(main())
