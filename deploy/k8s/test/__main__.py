"""Puts the manifests on a real Kubernetes, breaks the cluster step by step, and checks every record.

It works on whatever kubectl points to, in the namespaces `quorate` and `quorate-dev`, which it makes and
deletes. Exit status 0: every step passed; 1: one did not, or could not be done.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from deploy.k8s.test.cutting import Scissors
from deploy.k8s.test.errands import errands
from deploy.k8s.test.evidence import EVIDENCE, KubernetesRun
from deploy.k8s.test.images import Images, built_images
from deploy.k8s.test.installing import ONE_MACHINE, Volumes, check_room, install, uninstall
from deploy.k8s.test.kubernetes import SETS, Kubernetes
from deploy.k8s.test.outside import Outside
from deploy.k8s.test.steps import STEPS, Scene, Step, judge
from deploy.test.commands import CannotTest, say
from deploy.test.run_records import StepRecord, machine
from deploy.test.steps import Steps, conclude
from quorate.chaos.evidence.checkout import commit_of

_PARTITIONS: Final = 6
_ROOT: Final = Path(__file__).resolve().parents[3]


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    # Whoever ends it by SIGTERM wants the same as with Ctrl-C: nothing is to be left over.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run = asyncio.run(test(options))
    except CannotTest as error:
        sys.stderr.write(f"k8s-test failed: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    if options.record:
        EVIDENCE.record(_ROOT, run)
    return conclude("k8s-test", run)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="k8s-test", description=__doc__)
    parser.add_argument("--kubectl", default="kubectl", metavar="COMMAND", help="how to call it")
    parser.add_argument("--image", metavar="NAME:TAG", help="that the cluster can pull; else one is built")
    parser.add_argument("--next-image", metavar="NAME:TAG", help="with --image: what to upgrade to")
    parser.add_argument(
        "--load",
        metavar="COMMAND",
        help="puts the images that were built, in the archive {tar}, into the cluster",
    )
    parser.add_argument(
        "--cut", metavar="COMMAND", help="drops what goes from the pod at address {a} to the one at {b}"
    )
    parser.add_argument("--heal", metavar="COMMAND", help="takes that back")
    parser.add_argument(
        "--outside",
        metavar="COMMAND",
        help="runs what follows it outside, where names of brokers lead to their load balancers",
    )
    parser.add_argument(
        "--load-balancers",
        nargs="+",
        default=[],
        metavar="ADDRESS",
        help="of three, for services to which the cluster gives none; outside, the test enters the names",
    )
    parser.add_argument("--host-volumes", metavar="DIRECTORY", help="volumes, where the cluster has none")
    parser.add_argument(
        "--failover",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="how long a partition may acknowledge nothing (default: %(default)g, of which a broker's "
        "session is 3, and the rest for a single machine that is busy with the test itself; where nodes have "
        "machines of their own ask for less, say 5)",
    )
    names = [step.name for step in STEPS]
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="STEP", help=", ".join(names)
    )
    parser.add_argument("--skip", nargs="+", choices=names, default=[], metavar="STEP")
    parser.add_argument("--keep", action="store_true", help="leave the cluster there")
    parser.add_argument("--record", action="store_true", help="add the run to docs/evidence/kubernetes.md")
    options = parser.parse_args(arguments)
    if (options.image is None) != (options.next_image is None):
        parser.error("--image and --next-image go together")
    if (options.image is None) == (options.load is None):
        parser.error(
            "say where the image comes from: --image and --next-image, or --load for one that is built"
        )
    options.steps = [step for step in STEPS if step.name in options.only and step.name not in options.skip]
    cuts = any(step.name == "cut" for step in options.steps)
    if cuts and (options.cut is None or options.heal is None):
        parser.error("only you know the network: give --cut and --heal, or --skip cut")
    wanted = {step.name for step in options.steps}
    if "outside" in wanted and options.outside is None:
        parser.error("only you know what is outside: give --outside, or --skip outside")
    if "shrink" in wanted and "scale" not in wanted:
        parser.error("shrink takes away the broker that scale adds: run both, or --skip both")
    if {"outside", "scale"} <= wanted and "shrink" not in wanted:
        parser.error(
            "outside has a service for each of three brokers: run shrink as well, or --skip one of them"
        )
    return options


async def test(options: argparse.Namespace) -> KubernetesRun:
    began = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    commit = commit_of(_ROOT)
    kubernetes = Kubernetes(options.kubectl)
    volumes = None if options.host_volumes is None else Volumes(options.host_volumes)
    await check_room(kubernetes, volumes)
    async with (
        _images(options) as images,
        _installed(kubernetes, images, volumes, keep=options.keep) as up_s,
        errands(kubernetes, images.first) as sent_out,
    ):
        scene = Scene(
            kubernetes=kubernetes,
            errands=sent_out,
            scissors=None if options.cut is None else Scissors(options.cut, options.heal),
            images=images,
            volumes=volumes,
            failover_s=options.failover,
            outside=None if options.outside is None else Outside(options.outside, options.load_balancers),
        )
        await sent_out.do("create", partitions=_PARTITIONS)
        steps = await _walk(scene, options.steps)
        version = json.loads(await kubernetes.call("version", "--output", "json"))["serverVersion"]
    return KubernetesRun(
        began=began,
        commit=commit.name,
        is_clean=commit.is_clean,
        kubernetes=version["gitVersion"],
        image="built from this commit" if options.image is None else "one that was there",
        system=machine(),
        failover_s=options.failover,
        up_s=round(up_s, 1),
        steps=tuple(steps),
    )


@contextlib.asynccontextmanager
async def _images(options: argparse.Namespace) -> AsyncIterator[Images]:
    if options.image is not None:
        yield Images(options.image, options.next_image)
        return
    async with built_images(options.load) as images:
        yield images


@contextlib.asynccontextmanager
async def _installed(
    kubernetes: Kubernetes, images: Images, volumes: Volumes | None, *, keep: bool
) -> AsyncIterator[float]:
    """How long it took."""
    try:
        began = time.monotonic()
        await install(kubernetes, ONE_MACHINE, images.first, volumes)
        await kubernetes.ready(dict.fromkeys(SETS, 3))
        seconds = time.monotonic() - began
        say("up", f"three controllers and three brokers, ready after {seconds:.1f} s")
        yield seconds
    finally:
        if not keep:
            await uninstall(kubernetes, ONE_MACHINE, volumes)


async def _walk(scene: Scene, wanted: Sequence[Step]) -> list[StepRecord]:
    """After a step that failed the cluster may be anything: the rest would say nothing."""
    steps = Steps()
    for step in wanted:
        try:
            async with steps.step(step.name, step.what) as told:
                await _take(scene, step, told)
        except CannotTest:
            await _tell_logs(scene.kubernetes)
            break
    return steps.done


async def _take(scene: Scene, step: Step, told: list[str]) -> None:
    scene.remarks.clear()
    await scene.errands.do("begin")
    await step.run(scene)
    await scene.settled()
    await scene.errands.do("acknowledges")
    seen = await scene.errands.do("end")
    proof = await scene.errands.do("prove")
    told += [
        f"{proof['acknowledged']:,} acknowledged records in all, each at its offset",
        f"longest wait of a writer {seen['longest_wait_s']:.1f} s",
        f"smallest ISR {seen['isr_min']}",
        *scene.remarks,
    ]
    judge(step, scene, seen)


async def _tell_logs(kubernetes: Kubernetes) -> None:
    with contextlib.suppress(CannotTest):
        say("pods", await kubernetes.inside("get", "pods", "--output", "wide"))
        for pod in await kubernetes.pods():
            say("log", f"of {pod.name}:\n{await kubernetes.inside('logs', pod.name, '--tail=12')}")


if __name__ == "__main__":
    sys.exit(main())
