"""What a replay notes in its checkpoint, in one file that is replaced in one step."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Final, Self

from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.config.replay import ReplayConfig
from quorate.pipeline.jobs.errors import RowsMissing
from quorate.pipeline.jobs.files import replace_file
from quorate.pipeline.source.errors import TopicRecreated

__all__ = ["Chunk", "Notes", "asked_by"]

_VERSION: Final = 2
_FILE: Final = "replay.json"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Offsets by partition of the archive; ends are exclusive. Partitions are text, as JSON has them."""

    spans: dict[str, tuple[int, int]]
    #: where each partition of the target ended before anything of this chunk was written
    target_ends: dict[str, int]


@dataclass(frozen=True, slots=True)
class Notes:
    #: what was asked for: a checkpoint is of one replay
    asked: dict[str, str | None]
    #: of the topic whose records the archive has; None: it does not say
    source_id: str | None
    #: of the topic that is written to: where it ends, and what of a chunk is in it, means nothing in another
    target_id: str
    #: how many rows there are in all, when the replay began
    rows: int
    #: of a table of Delta: the one whose files are read
    table_version: int | None
    #: by partition: from where and up to where it is still to do
    left: dict[str, tuple[int, int]]
    #: rows that are surely written
    rows_done: int = 0
    chunks_done: int = 0
    #: begun, and not known to be written
    chunk: Chunk | None = None

    def check_source(self, found_id: str | None) -> None:
        if found_id != self.source_id:
            raise InvalidRequest(
                f"{self.asked['path']} has another topic {self.asked['topic']} than when this replay began "
                f"(id {self.source_id} then, {found_id} now), so its offsets mean other records: name "
                f"another checkpoint.dir, and all of it is replayed",
                topic=self.asked["topic"],
                path=self.asked["path"],
            )

    def check_target(self, found_id: str) -> None:
        if found_id != self.target_id:
            topic = self.asked["to_topic"]
            raise TopicRecreated(
                f"topic {topic} was deleted and made anew since this replay began (id {self.target_id} then, "
                f"{found_id} now): what was replayed into it is gone. To replay all of it into the new one, "
                f"name another checkpoint.dir",
                topic=topic,
                expected_id=self.target_id,
                found_id=found_id,
            )

    def check_complete(self) -> None:
        """With nothing left to do."""
        assert not self.left
        if self.rows_done != self.rows:
            raise RowsMissing(
                f"the archive had {self.rows:,} rows to replay when this began, and {self.rows_done:,} were "
                f"found since: files of it were removed or added by hand. What was found is in "
                f"{self.asked['to_topic']}; to have all of it, restore the archive, and replay it into an "
                f"empty topic with another checkpoint.dir",
                rows=self.rows,
                rows_done=self.rows_done,
            )

    def begin(self, chunk: Chunk) -> Notes:
        assert self.chunk is None, "one after the other"
        return replace(self, chunk=chunk)

    def end(self, rows: int) -> Notes:
        """Everything of the chunk is written, ``rows`` of them now."""
        assert self.chunk is not None
        left = {
            partition: (self.chunk.spans.get(partition, (first, first))[1], end)
            for partition, (first, end) in self.left.items()
        }
        return replace(
            self,
            left={partition: span for partition, span in left.items() if span[0] < span[1]},
            rows_done=self.rows_done + rows,
            chunks_done=self.chunks_done + 1,
            chunk=None,
        )

    # -- the file

    def write(self, directory: str) -> None:
        content = json.dumps({"version": _VERSION, **asdict(self)}, indent=1, sort_keys=True)
        replace_file(f"{directory}/{_FILE}", content.encode())

    @classmethod
    def read(cls, directory: str, config: ReplayConfig) -> Self | None:
        """None: nothing was begun."""
        path = f"{directory}/{_FILE}"
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            if found.pop("version") != _VERSION:
                raise ValueError("another version has written it")
            chunk = found.pop("chunk")
            left = {partition: (first, end) for partition, (first, end) in found.pop("left").items()}
            notes = cls(**found, left=left, chunk=None if chunk is None else _chunk(chunk))
        except FileNotFoundError:
            return None
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidRequest(
                f"{path} is damaged ({error!r}): name another checkpoint.dir, and all is replayed again",
                path=path,
            ) from error
        if notes.asked != asked_by(config):
            raise InvalidRequest(
                f"{directory} is the checkpoint of another replay ({notes.asked}): name another", path=path
            )
        return notes


def _chunk(found: dict[str, dict[str, list[int]]]) -> Chunk:
    spans = {partition: (first, end) for partition, (first, end) in found["spans"].items()}
    return Chunk(spans, found["target_ends"])  # type: ignore[arg-type]  # numbers, as they were written


def asked_by(config: ReplayConfig) -> dict[str, str | None]:
    times = (config.from_time, config.until_time)
    since, until = (None if each is None else each.isoformat() for each in times)
    return {
        "path": config.path,
        "format": config.store_format.value,
        "topic": config.topic[0],
        "to_topic": config.to_topic[0],
        "from_time": since,
        "until_time": until,
        "partitions": config.placement.value,
    }
