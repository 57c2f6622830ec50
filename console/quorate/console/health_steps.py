"""What to do next about a cluster that is not well. Pure: what was seen in, sentences out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from quorate.v1 import admin_pb2

__all__ = ["next_steps"]

#: Partitions that a step names; the table below names more.
_NAMED_MAX: Final = 3


def next_steps(
    cluster: admin_pb2.DescribeClusterResponse,
    quorum: admin_pb2.DescribeQuorumResponse,
    partitions: Sequence[Mapping[str, Any]],
) -> list[str]:
    """The first thing first. ``partitions``: documents of those that are ill, with a ``topic``."""
    away = {each.broker_id for each in cluster.brokers if each.is_fenced}
    away |= {each.node_id for each in quorum.voters if each.state == "unreachable"}
    steps = []
    if not cluster.brokers:
        steps.append(
            "start a broker (node.roles=broker), with the cluster.id and the controller.voters of these "
            "controllers; where one runs already, its log says as registration_waits why it is not registered"
        )
    if away:
        which, why = ("node", "its log says why") if len(away) == 1 else ("nodes", "their logs say why")
        steps.append(
            f"bring {which} {_listed(sorted(away))} back: {why}; in a local cluster, "
            "`quorate restart --dir DIR NODE` starts one"
        )
    steps += _about_voters(quorum)
    steps += _about_offline(partitions)
    steps += _about_damage(partitions)
    if not away:
        steps += _about_lagging(partitions)
    return steps


def _about_voters(quorum: admin_pb2.DescribeQuorumResponse) -> list[str]:
    steps = []
    for voter in quorum.voters:
        if voter.HasField("is_digest_equal") and not voter.is_digest_equal:
            steps.append(
                f"stop voter {voter.node_id}, keep all of its files, and report it: this is a bug or damage"
            )
        elif voter.state == "refused":
            steps.append(
                f"voter {voter.node_id} has less than it acknowledged (an old copy of its directory?): stop "
                f"it, `quorate cluster remove-voter {voter.node_id}`, start it empty, and add it again"
            )
        elif voter.state == "unreachable":
            steps.append(
                f"if node {voter.node_id} runs and voter {voter.node_id} stays unreachable, its disk was "
                f"emptied, and its /readyz says that it has no vote: `quorate cluster remove-voter "
                f"{voter.node_id}`, then `quorate cluster add-voter {voter.node_id} {voter.address}`"
            )
    return steps


def _about_offline(partitions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Whom a partition waits for: only these have all that was acknowledged."""
    steps = []
    for each in [each for each in partitions if each["state"] == "offline"][:_NAMED_MAX]:
        name = f"{each['topic']}:{each['partition']}"
        complete = sorted({*each["isr"], *each["elr"]})
        if complete:
            steps.append(
                f"{name} waits for broker {_listed(complete, 'or')}, which has all of it: start it; only "
                f"if it is gone for good, with its disk, `quorate partition recover {name}`, which may lose "
                "records"
            )
        else:
            steps.append(
                f"nobody is known to have all of {name}: bring back broker "
                f"{_listed(each['replicas'], 'or')} with its disk, or accept a loss with `quorate partition "
                f"recover {name}`"
            )
    return steps


def _about_damage(partitions: Sequence[Mapping[str, Any]]) -> list[str]:
    leaders: defaultdict[str, set[int]] = defaultdict(set)
    for each in partitions:
        if each["error"]:
            leaders[each["error"]["code"]].add(each["leader"])
    known = {
        "DISK_FULL": (
            "make room on the disk of {}: less retention (retention.ms, retention.bytes), a topic deleted, a "
            "larger volume; it then goes on by itself, and health says so within a minute"
        ),
        "LOG_DAMAGED": (
            "look at the disk of {}, and run `quorate log verify` on its data directory; keep the files"
        ),
        "STORAGE_FAILED": "the disk of {} refuses to be read or written: its log says why; then restart it",
        "TOO_MANY_OPEN_FILES": "raise the limit of open files of {} (ulimit -n), and restart it",
    }
    return [
        known[code].format(f"broker {_listed(sorted(ids))}") for code, ids in leaders.items() if code in known
    ]


def _about_lagging(partitions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Everybody is there, and somebody does not keep up."""
    missing: Counter[int] = Counter()
    for each in partitions:
        if each["state"] in ("under-replicated", "under min.insync.replicas"):
            missing.update(set(each["replicas"]) - set(each["isr"]) - set(each["adding_replicas"]))
    if not missing:
        return []
    [(worst, _)] = missing.most_common(1)
    step = (
        f"broker {_listed(sorted(missing))} is there and not in sync: after a restart it catches up by "
        f"itself; if that lasts, the log of broker {worst} tells of a full disk, damage or a slow network"
    )
    return [step]


def _listed(ids: Sequence[int], word: str = "and") -> str:
    texts = [str(each) for each in ids]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {word} {texts[-1]}"
