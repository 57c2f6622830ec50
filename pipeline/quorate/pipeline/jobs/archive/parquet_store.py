"""An archive of plain Parquet files, for readers that know nothing of it.

The problem: a batch is many files, and a file system changes one at a time. Whoever is killed in between must
not leave a record twice or in no file, and what readers see is a directory.

There is one file that says what is true, ``_archive/state.json``, replaced in one step:

- ``ends``: how far each partition is archived. A record below it is in the archive, one from there on is not.
- ``pending``: what has to be done to the files so that this is so: removals, and renames out of the staging
  directory. It is complete before the state says it, and doing it again changes nothing.

So a batch is committed when the state is replaced. A kill

1. while the files are staged: nothing refers to them, they are removed at the next start, the batch is done
   again;
2. after the state, before or between the renames: the next start finishes them. Spark asks for the batch
   again and its records are known by their offsets;
3. after the renames, before Spark has noted the batch: as 2, with nothing left to rename.

Compaction is the same with removals, which come first: whoever reads in that moment finds fewer records, and
never one twice. The large file is whole and durable before.

What makes a record known is its offset, not the number of its batch: an archive whose checkpoint was lost, or
that overlaps with an earlier run, is right as well.

Rejected: Spark's own file sink, whose log of files only Spark reads, and which cannot be compacted; a log of
commits, which grows and has to be compacted itself.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.archive.merging import merge, small_files
from quorate.pipeline.jobs.archive.staged import Ends, Staged
from quorate.pipeline.jobs.archive.store import Compaction
from quorate.pipeline.jobs.archive.topic_ids import check_topic_ids
from quorate.pipeline.jobs.batch import Batch
from quorate.pipeline.jobs.files import replace_file, sync_directory, sync_tree

__all__ = ["ParquetStore", "state_file_of"]

_VERSION: Final = 1


def state_file_of(path: str) -> str:
    """``path``: of the archive."""
    return f"{path}/_archive/state.json"


@dataclass(frozen=True, slots=True)
class _State:
    topic_ids: dict[str, str] = field(default_factory=dict)
    #: by topic and partition; exclusive
    ends: dict[str, dict[str, int]] = field(default_factory=dict)
    #: the last one that was committed, its query and number: for people who look
    batch: tuple[str, int] | None = None
    #: from the root of the archive: files to remove, then from where to where files are renamed
    removals: Sequence[str] = ()
    renames: Sequence[tuple[str, str]] = ()


class ParquetStore:
    def __init__(self, path: str, *, files_min: int, bytes_max: int) -> None:
        """``files_min``: so many small files are worth a compaction; 0: there is none."""
        self._path = path
        self._own = f"{path}/_archive"
        self._staging = f"{self._own}/staging"
        self._state_file = state_file_of(path)
        self._files_min = files_min
        self._bytes_max = bytes_max
        self._state = _State()
        #: directories whose small files could not be made into one; tried again at the next start
        self._given_up: set[str] = set()

    def open(self, topic_ids: dict[str, str]) -> None:
        os.makedirs(self._own, exist_ok=True)
        self._state = self._read_state()
        known = check_topic_ids(self._path, self._state.topic_ids, topic_ids)
        self._finish()
        shutil.rmtree(self._staging, ignore_errors=True)
        if known != self._state.topic_ids:
            self._become(replace(self._state, topic_ids=known))

    @property
    def is_empty(self) -> bool:
        return not self._state.ends

    def new_staging(self) -> str:
        return f"{self._staging}/{uuid.uuid4().hex}"

    def ends_of(self, staged: Staged) -> Ends:
        return {
            (topic, partition): self._state.ends[topic][str(partition)]
            for topic, partition in staged.spans
            if str(partition) in self._state.ends.get(topic, {})
        }

    def commit(self, staged: Staged, batch: Batch) -> None:
        assert not staged.repeats(self.ends_of(staged)), "a record is archived once"
        ends = {topic: dict(found) for topic, found in self._state.ends.items()}
        for (topic, partition), span in staged.spans.items():
            ends.setdefault(topic, {})[str(partition)] = span.end
        renames = [(os.path.relpath(file.path, self._path), file.name) for file in staged.files]
        self._make_so(replace(self._state, ends=ends, batch=(batch.query_id, batch.number), renames=renames))

    def compact(self, directories: set[str]) -> Compaction:
        import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

        done = Compaction()
        if self._files_min == 0:
            return done
        for directory in sorted(directories - self._given_up):
            while chosen := small_files(f"{self._path}/{directory}", self._files_min, self._bytes_max):
                name = f"compacted-{uuid.uuid4().hex}.parquet"
                staged = f"{self.new_staging()}/{name}"
                try:
                    merge([f"{self._path}/{directory}/{each}" for each in chosen], staged)
                except (pa.ArrowException, OSError, MemoryError) as error:
                    # Only of this step: from the next one on the state says what has to be done.
                    self._given_up.add(directory)
                    done.failures[directory] = repr(error)
                    shutil.rmtree(self._staging, ignore_errors=True)
                    break
                removals = [f"{directory}/{each}" for each in chosen]
                rename = (os.path.relpath(staged, self._path), f"{directory}/{name}")
                self._make_so(replace(self._state, removals=removals, renames=[rename]))
                done.files_gone += len(chosen)
        return done

    # -- the one file

    def _make_so(self, state: _State) -> None:
        """What is renamed is durable first, then what says so, then it is done."""
        sync_tree(self._staging)
        self._become(state)
        self._finish()

    def _finish(self) -> None:
        """What the state says has to be done; again, if it was done before."""
        state = self._state
        touched: set[str] = set()
        for name in state.removals:
            if os.path.exists(f"{self._path}/{name}"):
                os.remove(f"{self._path}/{name}")
                touched.add(os.path.dirname(name))
        for source, name in state.renames:
            if os.path.exists(f"{self._path}/{source}"):
                os.makedirs(os.path.dirname(f"{self._path}/{name}"), exist_ok=True)
                os.rename(f"{self._path}/{source}", f"{self._path}/{name}")
                touched.add(os.path.dirname(name))
            elif not os.path.exists(f"{self._path}/{name}"):
                raise InvalidRequest(
                    f"{self._path}/{source} is missing, and {name} is not in its place: it was committed, "
                    f"and is lost. Restore it; or to do without its records, take it out of "
                    f"{self._state_file}",
                    path=self._path,
                )
        for directory in touched:
            self._sync_up(directory)
        if state.removals or state.renames:
            # From now on nothing looks for these files: whoever owns the archive may delete them.
            self._become(replace(state, removals=(), renames=()))
            shutil.rmtree(self._staging, ignore_errors=True)

    def _sync_up(self, directory: str) -> None:
        """It and those above it, which may be new."""
        while directory:
            sync_directory(f"{self._path}/{directory}")
            directory = os.path.dirname(directory)
        sync_directory(self._path)

    def _become(self, state: _State) -> None:
        content = json.dumps({"version": _VERSION, **asdict(state)}, indent=1, sort_keys=True)
        replace_file(self._state_file, content.encode())
        self._state = state

    def _read_state(self) -> _State:
        try:
            with open(self._state_file, encoding="utf-8") as file:
                found = json.load(file)
            if found.pop("version") != _VERSION:
                raise ValueError("another version has written it")
            batch = found.pop("batch")
            return _State(**found, batch=None if batch is None else (batch[0], batch[1]))
        except FileNotFoundError:
            if any("=" in name for name in os.listdir(self._path)):
                raise InvalidRequest(
                    f"{self._path} holds data, and nothing says how far it goes ({self._state_file} is "
                    f"missing): "
                    "restore it, or name another path",
                    path=self._path,
                ) from None
            return _State()
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidRequest(
                f"{self._state_file} is damaged ({error!r}): restore it, or name another path",
                path=self._state_file,
            ) from error
