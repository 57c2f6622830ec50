"""Whose checkpoint it is.

Spark's checkpoint says how far a job has read, and nothing of where the results are. With another archive,
table or topic, the job would go on from there, and all that came before would be missing, without an error;
with other windows it would go on with what the former ones have counted. So a checkpoint has a note of what
it belongs to, made when it is first used, and whoever brings something else is refused.

A place is known by a name of its own in a file in it, not by its path: it may be moved or mounted elsewhere.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping

from quorate.errors import InvalidConfig, InvalidRequest
from quorate.pipeline.jobs.config.archive import ArchiveConfig
from quorate.pipeline.jobs.config.base import StartAt
from quorate.pipeline.jobs.config.table import TableConfig
from quorate.pipeline.jobs.files import read_object, replace_file

__all__ = ["claim_checkpoint", "claim_for_place"]


def claim_checkpoint(checkpoint: str, owner: Mapping[str, str]) -> None:
    """It is ``owner``'s from now on. The caller sees to it that no other job uses it."""
    os.makedirs(checkpoint, exist_ok=True)
    file = f"{checkpoint}/_owner.json"
    known = read_object(file)
    if known is None:
        replace_file(file, json.dumps(dict(owner), indent=1, sort_keys=True).encode())
        return
    differences = [
        f"{key} was {known.get(key)}, and is {owner.get(key)}"
        for key in sorted(known.keys() | owner.keys())
        if known.get(key) != owner.get(key)
    ]
    if differences:
        raise InvalidRequest(
            f"{checkpoint} is a checkpoint of something else: {'; '.join(differences)}. With it, what was "
            f"done before would be missing or wrong; name another checkpoint.dir, and the job begins again",
            path=checkpoint,
        )


def claim_for_place(job: str, config: ArchiveConfig | TableConfig, *, is_empty: bool) -> None:
    """``is_empty``: there is nothing in the place yet that a gap could come behind."""
    has_begun = os.path.exists(f"{config.checkpoint}/metadata")  # Spark's
    if config.starting_offsets is StartAt.LATEST and not is_empty and not has_begun:
        raise InvalidConfig(
            f"starting.offsets=latest: {config.checkpoint} does not say how far {config.path} goes, so what "
            f"has come since would be left out. With earliest all is read, and what is there already is "
            f"known",
            key="starting.offsets",
        )
    owner = {"job": job, "path": _id_of(config.path), "format": config.store_format.value}
    claim_checkpoint(config.checkpoint, owner)


def _id_of(path: str) -> str:
    """It gets one when it is first asked for. Gone with it, it is another place."""
    file = f"{path}/_id.json"
    found = read_object(file)
    if found is None:
        found = {"id": uuid.uuid4().hex}
        replace_file(file, json.dumps(found).encode())
    return f"one with the id {found.get('id')}"
