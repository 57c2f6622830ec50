"""Builds the image, brings up compose.yaml, breaks it under load, and checks every acknowledged record.

A leader is killed and comes back; every container is restarted in turn; all of them go down and come up again
with their data; drills kill, pause and cut off containers through the agent interface. It needs a container
engine, and fails where none can be had: it does not pass without one.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time

from deploy.test.commands import CannotTest, run, say
from deploy.test.containers import BOOTSTRAP, PROJECT, Containers, check_ports, containers
from deploy.test.drills import AGENT, drill
from deploy.test.engine import compose_command, engine
from deploy.test.image import build_image, check_image, remove_images
from quorate.chaos.checks.check_all import check_all
from quorate.chaos.checks.verdict import raise_violations
from quorate.chaos.checks.violation import Violation
from quorate.chaos.history.entries import Outcome
from quorate.chaos.history.history import History
from quorate.chaos.live.final_state import collect
from quorate.chaos.live.load import LedgerLoad
from quorate.chaos.live.reach import Reach
from quorate.chaos.live.waiting import until_whole
from quorate.client import AsyncAdmin
from quorate.core.ids import PartitionId, TopicName, TopicPartition
from quorate.errors import QuorateError

TOPIC = "ledger"
PARTITIONS = 3


def main() -> int:
    # Whoever ends it by SIGTERM wants the same as with Ctrl-C: nothing is to be left over.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    try:
        asyncio.run(test())
    except (CannotTest, Violation, QuorateError) as error:
        sys.stderr.write(f"deploy-test failed: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    say("done", f"nothing acknowledged was lost; {time.monotonic() - began:.0f} s")
    return 0


async def test() -> None:
    async with engine():
        compose = await compose_command()
        check_ports()
        try:
            await build_image()
            await check_image()
            async with containers(compose) as running:
                await running.check_confinement()
                await tell_the_story(running)
        finally:
            await remove_images()


async def tell_the_story(running: Containers) -> None:
    history = History()
    async with AsyncAdmin(BOOTSTRAP) as admin:
        await admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        await until_whole(admin, TOPIC)
        partitions = [TopicPartition(TopicName(TOPIC), PartitionId(number)) for number in range(PARTITIONS)]
        async with LedgerLoad(BOOTSTRAP, partitions, records_per_s=200, history=history) as load:
            await load.acknowledges()
            await kill_a_leader(running, admin, load)
            await roll(load)
    await prove(history, "after a kill of a leader and a restart of all, each in turn")
    await running.down()
    say("down", "all containers are gone, their volumes are not")
    await running.up()
    async with AsyncAdmin(BOOTSTRAP) as admin:
        await until_whole(admin, TOPIC)
    await prove(history, "after all were gone")
    await drill(PROJECT)
    await prove(history, "after the drills")


async def kill_a_leader(running: Containers, admin: AsyncAdmin, load: LedgerLoad) -> None:
    described = await admin.describe_topic(TOPIC)
    victim = f"broker-{described.partitions[0].leader}"
    began = time.monotonic()
    await running.kill(victim)
    await load.acknowledges()
    say(
        "kill",
        f"{victim}, a leader: every partition acknowledges again after {time.monotonic() - began:.1f} s",
    )
    await running.start(victim)
    await until_whole(admin, TOPIC)
    await running.until_healthy()


async def roll(load: LedgerLoad) -> None:
    told = await run(
        *(sys.executable, "-m", "quorate.console.main", "cluster", "rolling-restart", "--agent", str(AGENT))
    )
    await load.acknowledges()
    say("roll", told.strip().splitlines()[-1])


async def prove(history: History, when: str) -> None:
    raise_violations(check_all(history, await collect(Reach(bootstrap=BOOTSTRAP), history, [TOPIC])))
    outcomes = history.outcomes()
    say("prove", f"{outcomes[Outcome.ACKNOWLEDGED]:,} acknowledged records, each at its offset, {when}")


if __name__ == "__main__":
    sys.exit(main())
