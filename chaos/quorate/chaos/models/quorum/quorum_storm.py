"""Faults of all kinds against a simulated quorum under load, and what must be true of it at the end.

One seed decides everything. Each seed draws its own mix of faults, so that some are tested alone and some
together. A budget keeps the faults within what a quorum survives: at most one voter at a time may have lost
anything that it had acknowledged (a damaged tail, a wiped disk), until it has it again.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections import Counter
from collections.abc import Awaitable, Callable

from quorate.chaos.models.quorum.quorum_harness import DIRECTORY, PORT, SimQuorum, SimVoter, simulate
from quorate.chaos.sim.disk_faults import fail_nth
from quorate.chaos.sim.network import LinkFaults
from quorate.errors import QuorateError
from quorate.metadata.raft.entries import Index
from quorate.metadata.raft.voters import Voter

STORM_S = 6.0
#: when everything is healed, so much is enough to be whole again
REPAIR_S = 30.0
CLIENTS = 3


class Storm:
    def __init__(self, world: SimQuorum, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self._voters = list(world.voters.values())
        self.counters: Counter[str] = Counter()
        self.acknowledged: dict[Index, str] = {}
        #: the voter that has lost something, until it has it again
        self._impaired: SimVoter | None = None
        self._is_over = False
        self._next_acknowledgement = asyncio.Event()
        # Slow disks leave more under way for a crash to take; unequal ones let commits overtake a voter.
        for voter in self._voters:
            voter.disk.sync_delay_s = rng.choice((0.001, 0.005, 0.02, 0.05))
        faults = self._faults()
        self._enabled = rng.sample(faults, rng.randint(3, len(faults)))

    def _faults(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            self._crash,
            self._lose_power,
            self._crash_all,
            self._ambush,
            self._partition,
            self._block_one_way,
            self._drop_frames,
            self._break_connections,
            self._transfer,
            self._stop_gracefully,
            self._damage_tail,
            self._wipe,
            self._fail_sync,
            self._skew_clock,
        ]

    async def run(self) -> None:
        world = self._world
        await world.start()
        await world.leader()
        async with asyncio.TaskGroup() as tasks:
            for number in range(CLIENTS):
                tasks.create_task(self._write(number))
            tasks.create_task(self._read())
            operator = tasks.create_task(self._operate())
            end = world.simulation.loop.time() + STORM_S
            while world.simulation.loop.time() < end:
                await asyncio.sleep(self._rng.uniform(0.02, 0.3))
                await self._rng.choice(self._enabled)()
                await self._restart_some()
            await self._heal()
            self._is_over = True
            async with asyncio.timeout(REPAIR_S):
                await operator
        async with asyncio.timeout(REPAIR_S):
            await self._check()

    # --- load -----------------------------------------------------------------------------------------

    async def _write(self, client: int) -> None:
        number = 0
        while not self._is_over:
            await asyncio.sleep(self._rng.uniform(0.0, 0.15))
            leaders = [voter for voter in self._voters if voter.is_leader]
            if not leaders:
                continue
            number += 1
            command = f"{client}-{number}"
            try:
                async with asyncio.timeout(3.0):
                    index = await self._world.propose(self._rng.choice(leaders), command)
            except (QuorateError, TimeoutError):
                self.counters["unknown"] += 1
                continue
            assert index not in self.acknowledged, f"{index} acknowledged twice"
            self.acknowledged[index] = command
            self.counters["acknowledged"] += 1
            self._next_acknowledgement.set()

    async def _read(self) -> None:
        while not self._is_over:
            await asyncio.sleep(self._rng.uniform(0.0, 0.2))
            leaders = [voter for voter in self._voters if voter.is_leader]
            if not leaders:
                continue
            voter = self._rng.choice(leaders)
            machine, quorum = voter.machine, voter.quorum
            before = list(self.acknowledged.items())[-20:]
            assert quorum is not None
            try:
                async with asyncio.timeout(3.0):
                    await quorum.read_barrier()
            except (QuorateError, TimeoutError):
                continue
            for index, command in before:
                assert machine.commands.get(index) == command, f"a stale read: {index} is missing"
            self.counters["reads"] += 1

    # --- faults ---------------------------------------------------------------------------------------

    def _one_up(self) -> SimVoter | None:
        up = [voter for voter in self._voters if voter.is_up]
        return self._rng.choice(up) if up else None

    async def _crash(self) -> None:
        if voter := self._one_up():
            self.counters["crashes"] += 1
            await voter.kill()

    async def _lose_power(self) -> None:
        if voter := self._one_up():
            self.counters["power_losses"] += 1
            await voter.kill(power_loss=True, rng=self._rng)

    async def _crash_all(self) -> None:
        self.counters["crashes_of_all"] += 1
        await self._kill_all(power_loss=self._rng.random() < 0.5)

    async def _ambush(self) -> None:
        """The power fails right after an acknowledgement, and the leader comes back last."""
        self._next_acknowledgement.clear()
        try:
            async with asyncio.timeout(1.0):
                await self._next_acknowledgement.wait()
        except TimeoutError:
            return
        self.counters["ambushes"] += 1
        leaders = [voter for voter in self._voters if voter.is_leader]
        await self._kill_all(power_loss=True)
        for voter in self._voters:
            if voter not in leaders:
                await self._restart(voter)
        await asyncio.sleep(self._rng.uniform(0.5, 1.5))

    async def _kill_all(self, *, power_loss: bool) -> None:
        up = [voter for voter in self._voters if voter.is_up]
        await asyncio.gather(*(voter.kill(power_loss=power_loss, rng=self._rng) for voter in up))

    async def _partition(self) -> None:
        self.counters["partitions"] += 1
        names = [voter.name for voter in self._voters]
        self._rng.shuffle(names)
        cut = self._rng.randint(1, len(names) - 1)
        self._world.network.partition(names[:cut], names[cut:])
        await asyncio.sleep(self._rng.uniform(0.1, 1.5))
        self._world.network.heal()

    async def _block_one_way(self) -> None:
        self.counters["one_way_blocks"] += 1
        source, target = self._rng.sample(self._voters, 2)
        self._world.network.block(source.name, target.name)
        await asyncio.sleep(self._rng.uniform(0.1, 1.5))
        self._world.network.heal()

    async def _drop_frames(self) -> None:
        self.counters["drops"] += 1
        self._world.network.faults = LinkFaults(delay_s=(0.0001, 0.02), drop_probability=0.02)
        await asyncio.sleep(self._rng.uniform(0.1, 1.0))
        self._world.network.faults = LinkFaults()

    async def _break_connections(self) -> None:
        self.counters["broken_connections"] += 1
        one, other = self._rng.sample(self._voters, 2)
        self._world.network.break_connections(one.name, other.name)

    async def _transfer(self) -> None:
        for voter in self._voters:
            if voter.is_leader and voter.quorum is not None:
                self.counters["transfers"] += 1
                try:
                    await voter.quorum.transfer_leadership(None)
                except QuorateError:
                    self.counters["transfers_refused"] += 1

    async def _stop_gracefully(self) -> None:
        if voter := self._one_up():
            self.counters["stops"] += 1
            await voter.stop()

    async def _fail_sync(self) -> None:
        voter = self._one_up()
        if voter is None:
            return
        error = OSError(errno.EIO, "the device is gone")
        voter.disk.fault_hook = fail_nth(self._rng.randint(1, 3), error, names={"fdatasync"})
        await asyncio.sleep(self._rng.uniform(0.1, 0.5))
        voter.disk.fault_hook = None
        self.counters["sync_failures"] += voter.fatal is not None

    async def _skew_clock(self) -> None:
        self.counters["skewed_clocks"] += 1
        self._rng.choice(self._voters).clock.rate = self._rng.uniform(0.8, 1.25)

    async def _damage_tail(self) -> None:
        voter = self._one_up()
        if voter is None or self._impaired is not None:
            return
        await voter.kill()
        segment = max(name for name in voter.disk.list(DIRECTORY) if name.endswith(".journal"))
        size = voter.disk.size(f"{DIRECTORY}/{segment}")
        if size > 0:
            self._impaired = voter
            self.counters["damaged_tails"] += 1
            voter.disk.flip_bit(f"{DIRECTORY}/{segment}", size * 8 - self._rng.randint(1, 64))

    async def _wipe(self) -> None:
        voter = self._one_up()
        if voter is None or self._impaired is not None:
            return
        await voter.kill()
        self._impaired = voter
        self.counters["wipes"] += 1
        voter.disk.wipe(DIRECTORY)

    # --- repairs --------------------------------------------------------------------------------------

    async def _restart_some(self) -> None:
        for voter in self._voters:
            if not voter.is_up and self._rng.random() < 0.5:
                await self._restart(voter)

    async def _restart(self, voter: SimVoter) -> None:
        await voter.start()
        self.counters["restarts"] += 1

    async def _heal(self) -> None:
        self._world.network.heal()
        self._world.network.faults = LinkFaults()
        for voter in self._voters:
            voter.disk.fault_hook = None
            voter.clock.rate = 1.0
            if not voter.is_up:
                await self._restart(voter)

    async def _operate(self) -> None:
        """A person who replaces a voter whose disk was wiped, and waits for one that was damaged."""
        while not self._is_over or self._impaired is not None:
            await asyncio.sleep(0.2)
            voter = self._impaired
            if voter is None or voter.quorum is None or not voter.quorum.status.is_running:
                continue
            try:
                async with asyncio.timeout(20.0):
                    if await self._is_whole_again(voter):
                        self._impaired = None
                        self.counters["repairs"] += 1
            except (QuorateError, TimeoutError):
                continue

    async def _is_whole_again(self, voter: SimVoter) -> bool:
        leader = next((each for each in self._voters if each.is_leader), None)
        if leader is None or leader.quorum is None or voter.quorum is None:
            return False
        status = leader.quorum.status
        known = status.voters.by_node_id(voter.node_id)
        if known is not None and known.key == voter.quorum.key:
            if voter.quorum.status.is_recovering or leader is voter:
                return not voter.quorum.status.is_recovering
            progress = status.progress.get(voter.quorum.key)
            return (
                progress is not None and progress.is_counted and progress.match_index >= status.commit_index
            )
        if known is not None:
            await leader.quorum.remove_voter(known.key)
            self.counters["voters_removed"] += 1
        else:
            await leader.quorum.add_voter(Voter(voter.quorum.key, f"{voter.name}:{PORT}"))
            self.counters["voters_added"] += 1
        return False

    # --- the end --------------------------------------------------------------------------------------

    async def _check(self) -> None:
        world = self._world
        while True:
            leader = await world.leader()
            try:
                await world.propose(leader, "the last")
                break
            except QuorateError:
                await asyncio.sleep(0.1)
        await world.settled()
        for index, command in self.acknowledged.items():
            entry = world.history.entries.get(index)
            assert entry is not None, f"{command} was acknowledged at {index} and is nowhere"
            assert entry.data.decode() == command
        for voter in self._voters:
            for index, command in self.acknowledged.items():
                assert voter.machine.commands.get(index) == command, f"{voter.name} lacks {index}"
        assert len({voter.machine.digest for voter in self._voters}) == 1
        self.counters["installs"] += world.history.installs
        self.counters["terms"] += leader.quorum.status.term if leader.quorum is not None else 0


def run_storm(seed: int) -> tuple[Counter[str], str]:
    """What happened, and the state that came of it."""
    rng = random.Random(seed)
    count = rng.choice((3, 3, 5))

    async def scenario(world: SimQuorum) -> tuple[Counter[str], str]:
        storm = Storm(world, rng)
        await storm.run()
        return storm.counters, world.voters[1].machine.digest

    return simulate(
        count,
        scenario,
        seed=seed,
        snapshot_bytes=rng.choice((2_000, 6_000, 1 << 30)),
        entries_kept=rng.choice((5, 50)),
    )
