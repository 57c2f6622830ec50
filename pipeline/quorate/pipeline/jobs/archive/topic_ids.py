"""An archive knows its topics by their ids: one that was deleted and made again counts from 0 again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from quorate.errors import InvalidRequest
from quorate.pipeline.jobs.files import read_object, replace_file

__all__ = ["check_topic_ids", "ids_of_topics", "keep_topic_ids"]


def ids_of_topics(bootstrap: str, topics: Iterable[str]) -> dict[str, str]:
    """As the cluster says; a topic that is not there is an error."""
    from quorate.client import Admin

    with Admin(bootstrap) as admin:
        return {topic: str(admin.describe_topic(topic).topic_id) for topic in topics}


def check_topic_ids(
    path: str, known: Mapping[str, str], found: Mapping[str, str], *, may_grow: bool = True
) -> dict[str, str]:
    """Those that are known from now on. ``may_grow``: by topics that were not there before."""
    if known and not may_grow and known.keys() != found.keys():
        raise InvalidRequest(
            f"{path} is of topic {', '.join(known)}, not of {', '.join(found)}: name another path and "
            f"checkpoint",
            path=path,
        )
    for topic, topic_id in found.items():
        if known.get(topic, topic_id) != topic_id:
            raise InvalidRequest(
                f"{path} is of another topic {topic}: that one was deleted and created again (id "
                f"{known[topic]} "
                f"then, {topic_id} now), so its offsets mean other records; name another path and checkpoint",
                topic=topic,
                path=path,
            )
    return {**known, **found}


def keep_topic_ids(
    file: str, path: str, found: Mapping[str, str], *, has_data: bool, may_grow: bool = True
) -> None:
    """Beside a table of Delta, in a file of their own, written before the table is made."""
    known = read_object(file)
    if known is None and has_data:
        raise InvalidRequest(
            f"{path} holds a table, and nothing says of which topics it is ({file} is missing): restore it, "
            f"or name another path",
            path=path,
        )
    now_known = check_topic_ids(path, known or {}, found, may_grow=may_grow)
    if now_known != known:
        replace_file(file, json.dumps(now_known, indent=1).encode())
