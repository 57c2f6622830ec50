"""What committed entries do to a controller: they make its image, and publish it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quorate.errors import InconsistentMetadata
from quorate.metadata.delta import advance, apply_batch
from quorate.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.metadata.publisher import MetadataPublisher
from quorate.metadata.raft.entries import Entry, EntryKind, Index, Snapshot
from quorate.metadata.raft.ready import SoftState
from quorate.metadata.records import decode_batch
from quorate.metadata.snapshot import decode_snapshot, encode_snapshot

__all__ = ["ImageObserver", "ImageStateMachine"]


class ImageObserver(Protocol):
    """Whoever acts on what the quorum says."""

    def applied(self, committed: MetadataImage) -> None: ...

    def leadership_changed(self, state: SoftState, committed: MetadataImage) -> None: ...


class ImageStateMachine:
    """The quorum's state machine: the committed image of this node."""

    def __init__(self, publisher: MetadataPublisher) -> None:
        self.image = EMPTY_IMAGE
        self._publisher = publisher
        self._observer: ImageObserver | None = None

    def tell(self, observer: ImageObserver) -> None:
        """From now on. Before the quorum runs: the observer itself is made with the quorum."""
        self._observer = observer

    def apply(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.kind is EntryKind.COMMAND:
                batch = decode_batch(entry.data)
                self.image = apply_batch(self.image, batch.records, entry.index)
                self._publisher.publish(self.image, batch)
            else:
                self.image = advance(self.image, entry.index)
                self._publisher.advance(self.image)
            self._applied()

    def leadership_changed(self, soft_state: SoftState) -> None:
        if self._observer is not None:
            self._observer.leadership_changed(soft_state, self.image)

    async def take_snapshot(self) -> tuple[Index, bytes]:
        image = self.image
        return Index(image.offset), await encode_snapshot(image)

    async def install_snapshot(self, snapshot: Snapshot) -> None:
        image = await decode_snapshot(snapshot.data)
        if image.offset != snapshot.id.index:
            raise InconsistentMetadata(
                f"the snapshot of {snapshot.id.index} holds the metadata of {image.offset}"
            )
        self.image = image
        self._publisher.reset(self.image)
        self._applied()

    def _applied(self) -> None:
        if self._observer is not None:
            self._observer.applied(self.image)
