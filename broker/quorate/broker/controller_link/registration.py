"""A broker's process introduces itself to the cluster, once (rules 30, 35).

The order matters, and is kept here. The incarnation is on disk before the first request leaves: should this
process die before it has noted its epoch, the next one can say that it was no stranger. It is the same in
every attempt, so that an attempt whose answer was lost is answered again instead of counting as a second
process. The epoch is on disk before anything else is done with it, above all before unfencing: it is what the
next start is judged by.

Each attempt names the epoch that it follows, and is refused where another one stands, so that a copy of it
which arrives after this process is none. The first attempt names the one in the directory's notes: that is
right unless the last process died before it noted its own, the directory is an old copy, or the broker was
forgotten, and so a start asks once. A refusal tells the right one, and at once it is asked again. That may be
out of date, too; then it is refused again, and nothing else comes of it.

The cluster may not be there yet, or the session of the process before may still live. Both pass; it is tried
until it succeeds. What does not pass (another cluster's directory, a feature level beyond this software)
is raised and must stop the process.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from quorate.broker.controller_link.link import ControllerLink
from quorate.core.clock import Clock
from quorate.core.ids import BrokerEpoch, BrokerId
from quorate.core.logging import get_logger
from quorate.core.transport import method_of
from quorate.errors import DuplicateBroker, QuorateError, UnexpectedBrokerEpoch, UnknownServerError
from quorate.metadata.controller_calls import TRANSIENT_ERRORS
from quorate.metadata.records import FEATURE_LEVEL_MAX, FEATURE_LEVEL_MIN
from quorate.v1 import controller_pb2
from quorate.v1.controller_pb2 import (
    PreviousRun,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    ReplicaName,
)

__all__ = ["Registered", "RegisteringDirectory", "Registration"]

log = get_logger(__name__)

_REGISTER: Final = method_of(
    controller_pb2.DESCRIPTOR.services_by_name["ControllerService"],
    "RegisterBroker",
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
_INCARNATION_BYTES: Final = 16
#: after this time the log says why the broker is not registered yet
_CALL_TIMEOUT_S: Final = 5.0
#: a session that has to lapse first takes seconds
_PAUSE_S: Final = 0.25

#: what the first registration of an id follows
_NO_REGISTRATION: Final = 0

#: these pass with time
_PASSING: Final = (*TRANSIENT_ERRORS, DuplicateBroker, UnexpectedBrokerEpoch, UnknownServerError)


class RegisteringDirectory(Protocol):
    """What a registration needs of the data directory."""

    @property
    def directory_id(self) -> str: ...

    @property
    def cluster_id(self) -> str | None:
        """None: it belongs to no cluster yet."""
        ...

    def previous_run(self) -> PreviousRun | None:
        """None: the directory has no history."""
        ...

    def damaged(self) -> Sequence[ReplicaName]:
        """Replicas that are damaged, or lost part of their log."""
        ...

    async def note_incarnation(self, incarnation_id: str) -> None:
        """Synced when it returns."""
        ...

    async def note_epoch(self, broker_epoch: BrokerEpoch, cluster_id: str) -> None:
        """Synced when it returns."""
        ...


@dataclass(frozen=True, slots=True)
class Registered:
    """This run of the broker, as the cluster knows it."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    cluster_id: str


class Registration:
    """For one process: the incarnation is drawn here."""

    def __init__(
        self,
        link: ControllerLink,
        directory: RegisteringDirectory,
        *,
        broker_id: BrokerId,
        address: str,
        rack: str | None,
        clock: Clock,
        rng: random.Random,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._link = link
        self._directory = directory
        self._broker_id = broker_id
        self._address = address
        self._rack = rack
        self._clock = clock
        self._rng = rng
        self._incarnation_id = random_bytes(_INCARNATION_BYTES).hex()

    async def register(self) -> Registered:
        """Returns once the epoch is given and noted. All logs are recovered by now."""
        await self._directory.note_incarnation(self._incarnation_id)
        response = await self._until_accepted(self._request())
        broker_epoch = BrokerEpoch(response.broker_epoch)
        await self._directory.note_epoch(broker_epoch, response.cluster_id)
        log.info("registered", broker_id=self._broker_id, broker_epoch=broker_epoch)
        return Registered(self._broker_id, broker_epoch, response.cluster_id)

    def _request(self) -> RegisterBrokerRequest:
        run = self._directory.previous_run()
        return RegisterBrokerRequest(
            broker_id=self._broker_id,
            incarnation_id=self._incarnation_id,
            directory_id=self._directory.directory_id,
            address=self._address,
            rack=self._rack or "",
            feature_level_min=FEATURE_LEVEL_MIN,
            feature_level_max=FEATURE_LEVEL_MAX,
            previous_run=run,
            damaged=self._directory.damaged(),
            cluster_id=self._directory.cluster_id or "",
            # Below the first epoch where no process has come as far as to note one.
            expected_broker_epoch=max(_NO_REGISTRATION, run.broker_epoch if run else _NO_REGISTRATION),
        )

    async def _until_accepted(self, request: RegisterBrokerRequest) -> RegisterBrokerResponse:
        told: str | None = None
        while True:
            try:
                return await self._link.call(_REGISTER, request, timeout_s=_CALL_TIMEOUT_S)
            except QuorateError as error:
                if isinstance(error, UnexpectedBrokerEpoch) and self._learns_from(error, request):
                    continue
                if not isinstance(error, _PASSING):
                    raise
                if error.code != told:
                    told = error.code
                    log.warning("registration_waits", broker_id=self._broker_id, reason=error.message)
            await self._clock.sleep(_PAUSE_S * self._rng.uniform(0.5, 1.0))

    def _learns_from(self, error: UnexpectedBrokerEpoch, request: RegisterBrokerRequest) -> bool:
        """Whether the next attempt is another one than that which was refused: then it need not wait."""
        current = error.facts.get("current_broker_epoch")
        if not isinstance(current, int) or current == request.expected_broker_epoch:
            return False
        log.info("registration_follows_another", broker_id=self._broker_id, broker_epoch=current)
        request.expected_broker_epoch = current
        return True
