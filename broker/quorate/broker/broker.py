"""The broker of a node: from its data directory to the services that it offers, and back.

A start goes through steps that each rest on the one before (rules 30 and 36): take the directory; recover every
log; note that a process has begun; register, and say how the last one ended; note the epoch that this gave;
follow the metadata until it tells of this registration; take up the part that it gives each replica; ask to be
unfenced. Logs are recovered before the registration, not after, because what the broker says there includes
whether they are intact.

A stop goes back: leaders are moved by the controller while everything still serves (``leave``), then logs are
closed, and a marker says that all of it is on the device (``close``).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from quorate.broker.controller_link.admin_forwarding import BrokerAdmin
from quorate.broker.controller_link.lease import Lease
from quorate.broker.controller_link.link import ControllerLink
from quorate.broker.controller_link.producer_ids import ProducerIds
from quorate.broker.controller_link.registration import Registration
from quorate.broker.controller_link.session import BrokerSession
from quorate.broker.describing import ReplicaDescriber
from quorate.broker.directory.broker_directory import BrokerDirectory
from quorate.broker.directory.deletions import LogDeletions
from quorate.broker.handlers.broker_service import BrokerServiceHandlers
from quorate.broker.hosted import Hosted
from quorate.broker.replica.isr_alterations import IsrAlterations
from quorate.broker.replica.partition import Partition
from quorate.broker.replicas import Replicas
from quorate.broker.replication.fetchers import ReplicaFetchers
from quorate.broker.replication.server import ReplicationServer
from quorate.core.clock import Clock
from quorate.core.config import NodeConfig
from quorate.core.disk import Disk
from quorate.core.logging import get_logger
from quorate.core.transport import Service, Transport
from quorate.metadata.changes import MetadataDelta
from quorate.metadata.follower import MetadataFollower
from quorate.metadata.image import MetadataImage
from quorate.storage import LogContext, OpenFiles
from quorate.v1 import replica_pb2

__all__ = ["Broker"]

log = get_logger(__name__)

#: Descriptors kept for sealed segments; each active segment has one of its own.
_SEALED_FILES_OPEN_MAX: Final = 512
_SEED_BYTES: Final = 16
