"""The controller against a small cluster whose replicas really hold records.

A random walk: each step lets a client write, a follower fetch, a message arrive, a process die, a disk lose
what was not synced, an operator change something. Every decision is the controller's own; brokers see it
late, in pieces, or by the answer to their own request, and go on with what they believe, as zombies do.
Since logs are real (lists of entries), "no acknowledged record is lost" is checked and not inferred:
``controller_invariants``.

What the controller decides in pieces comes in pieces of one partition here, or whole, so that everything else
happens in between. There are two partitions; with more of them the walks spread out, and notice less.

Fault model: any number of process crashes and delays. Losses of unsynced data or of whole disks: for each
partition fewer at once than MinISR, where "at once" ends when MinISR complete replicas are in the ISR
again. Unsynced data may be lost without a reboot, too, if the controller has heard a number of the cache
witness that is lost with it, and does not go before it has put that on record (rule 30). A directory may be
put back from an old copy of its last run, if the same holds for the number of its device witness.
"""

from __future__ import annotations

from collections.abc import Callable

from quorate.chaos.models.controller.model_brokers import ModelBroker
from quorate.chaos.models.controller.model_operators import TOPICS
from quorate.chaos.models.controller.model_processes import ProcessModel
from quorate.controller.decision import Decision
from quorate.controller.leaderless import elect_missing_leaders
from quorate.metadata.records import cluster_record, feature_level_record

__all__ = ["ControllerModel", "walk"]


def walk(seed: int, *, steps: int) -> ControllerModel:
    """A whole walk, or an ``AssertionError`` that says how to see it again."""
    model = ControllerModel(seed)
    for number in range(steps):
        try:
            model.step()
        except AssertionError as error:
            error.add_note(f"in step {number} of walk({seed}, steps={steps})")
            raise
    return model


class ControllerModel(ProcessModel):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._steps = self._weighted_steps()
        self._begin()

    def _weighted_steps(self) -> tuple[list[Callable[[], None]], list[int]]:
        weights: dict[Callable[[], None], int] = {
            self.calm: 12,
            self.produce: 40,
            self.fetch: 60,
            self.propose_isr: 20,
            self.deliver: 24,
            self.follow_metadata: 40,
            self.beat: 30,
            self.lapse: 12,
            self.go_on_fencing: 30,
            self.elect_missing_leaders: 20,
            self.start_process: 16,
            self.start_second_process: 1,
            self.speak_from_the_past: 1,
            self.crash: 6,
            self.lose_power: 4,
            self.lose_page_cache: 3,
            self.lose_disk: 5,
            self.damage_replica: 5,
            self.back_up: 3,
            self.restore_old_copy: 4,
            self.restore_copy_of_this_run: 4,
            self.ask_to_stop: 2,
            self.stop_without_leave: 1,
            self.sync: 8,
            self.advance_device_witness: 8,
            self.record_witnesses: 8,
            self.change_min_isr: 2,
            self.change_min_isr_unheard: 3,
            self.change_durability: 1,
            self.change_durability_unheard: 2,
            self.reassign: 6,
            self.move_to_and_fro: 2,
            self.move_unheard: 2,
            self.complete_moves: 2,
            self.drain: 2,
            self.move_leaders_back: 3,
            self.recover: 6,
            self.recreate_topic: 1,
            self.change_controller: 1,
        }
        return list(weights), list(weights.values())

    def _begin(self) -> None:
        self._put(Decision((feature_level_record(1), cluster_record("cluster", 3)), None))
        for broker in self.brokers.values():
            self._register(broker)
            self._follow(broker, self.image.offset)
            self._beat(broker)
        for name in TOPICS:
            self._create(name)

    def step(self) -> None:
        steps, weights = self._steps
        self.rng.choices(steps, weights)[0]()
        self._check()

    def calm(self) -> None:
        """A while in which most things work, so that there is something to lose."""
        for broker in self.brokers.values():
            if self.rng.random() < 0.2:
                continue
            if not broker.is_running:
                self._come_back(broker)
            else:
                self._follow(broker, self.image.offset)
                self._beat(broker)
        for broker in self.brokers.values():
            if broker.is_running and self.rng.random() < 0.9:
                self._follow(broker, self.image.offset)
        for _ in range(3):
            self.produce()
            for _ in range(6):
                self.fetch()
            self.propose_isr()
            self.deliver()

    def change_min_isr_unheard(self) -> None:
        """Leaders change their ISR before they hear of another MinISR, and commit by the answer (rule 29)."""
        self.calm()
        self.change_min_isr()
        for _ in range(40):
            self.rng.choice((self.produce, self.fetch, self.fetch, self.propose_isr, self.deliver))()

    def restore_copy_of_this_run(self) -> None:
        """Nobody has been started since it was made; a number of the device witness was told (rule 30)."""
        broker = self._victim()
        if not broker.is_running:
            return
        broker.back_up()
        self.calm()
        if broker.is_running:
            broker.device_witness += 1
            self._beat(broker)
            if self.rng.random() < 0.5:
                self.record_witnesses()
            self._restore(broker)

    def change_durability_unheard(self) -> None:
        """Power fails where some have heard of the new setting, and others have not (rule 45)."""
        self.calm()
        self.change_durability()
        # Leaders may hear of it, sync and say so before their followers have fetched again.
        for _ in range(16):
            self.rng.choice((self.follow_metadata, self.produce, self.propose_isr, self.deliver))()
        self.lose_power()

    def move_to_and_fro(self) -> None:
        """A new replica goes and comes back, empty, before anybody has noticed that it was away (rule 7)."""
        keys = self._keys()
        if not keys:
            return
        self.calm()
        key = self.rng.choice(keys)
        # It copies; then nothing has time to happen; then the leader, who remembers it, wants it in its ISR.
        for steps in ((self.fetch,), (), (self.propose_isr, self.deliver)):
            self._reassign(key)
            self._hear_of_it()
            for step in steps * 12:
                step()

    def move_unheard(self) -> None:
        """A leader is moved away and does not hear of it, though its heartbeats get through (rule 37)."""
        keys = self._keys()
        if not keys:
            return
        self.calm()
        key = self.rng.choice(keys)
        old = self.brokers.get(self._partition(key).leader)
        for _ in range(2):
            self._reassign(key)
            for _ in range(20):
                self.rng.choice(
                    (self.fetch, self.fetch, self.propose_isr, self.deliver, self.complete_moves)
                )()
                for broker in self.brokers.values():
                    if broker.is_running and broker is not old and self.rng.random() < 0.3:
                        self._follow(broker, self.image.offset)
                if old is not None and old.is_running and self.rng.random() < 0.2:
                    self._beat(old)
                self._check()

    # --- the controller -------------------------------------------------------------------------------

    def change_controller(self) -> None:
        if any(self._is_judged_by_what_was_heard(broker) for broker in self.brokers.values()):
            return
        for broker in self.brokers.values():
            broker.told_witness = broker.told_device_witness = 0
        self.sessions.start_all_afresh(self.image, 0.0)
        self.invariants.taken_offsets.clear()
        self._note_elections_due()

    def _is_judged_by_what_was_heard(self, broker: ModelBroker) -> bool:
        """It has lost its page cache or all that is newer than a copy, and only this controller can tell."""
        registered = self.image.brokers[broker.broker_id]
        is_older = broker.is_replaced and broker.told_device_witness > broker.device_witness
        return (broker.is_cache_lost and (registered.cache_witness or 0) <= broker.witness) or (
            is_older and registered.device_witness <= broker.device_witness
        )

    def elect_missing_leaders(self) -> None:
        """One piece."""
        decision = elect_missing_leaders(
            self.image, leaving=self.sessions.leaving(), changes_max=self._changes_max()
        )
        self.counts["missing leaders"] += bool(decision.records)
        self._put(decision)
        if decision.is_complete:
            self.invariants.elections_due.clear()
