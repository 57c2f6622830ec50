"""How the cluster, its brokers and its quorum are shown."""

from __future__ import annotations

from typing import Any

import click

from quorate.console.output import print_table
from quorate.v1 import admin_pb2

__all__ = [
    "broker_document",
    "cluster_document",
    "print_brokers",
    "print_cluster",
    "print_quorum",
    "quorum_document",
]


def cluster_document(cluster: admin_pb2.DescribeClusterResponse) -> dict[str, Any]:
    return {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller if cluster.HasField("controller") else None,
        "controllers": [{"id": each.node_id, "address": each.address} for each in cluster.controllers],
        "brokers": [broker_document(each) for each in cluster.brokers],
        "topic_count": cluster.topic_count,
        "partition_count": cluster.partition_count,
        "offline_partition_count": cluster.offline_partition_count,
        "under_min_isr_partition_count": cluster.under_min_isr_partition_count,
        "under_replicated_partition_count": cluster.under_replicated_partition_count,
        "reassigning_partition_count": cluster.reassigning_partition_count,
        "recovering_partition_count": cluster.recovering_partition_count,
        "unclean_election_topics": list(cluster.unclean_election_topics),
        "feature_level": cluster.feature_level,
        "metadata_offset": cluster.metadata_offset,
    }


def broker_document(broker: admin_pb2.BrokerDescription) -> dict[str, Any]:
    return {
        "id": broker.broker_id,
        "address": broker.address,
        "rack": broker.rack or None,
        "state": _broker_state(broker),
        "is_fenced": broker.is_fenced,
        "is_shutting_down": broker.is_shutting_down,
        "is_draining": broker.is_draining,
        "broker_epoch": broker.broker_epoch,
        "leader_count": broker.leader_count,
        "replica_count": broker.replica_count,
    }


def _broker_state(broker: admin_pb2.BrokerDescription) -> str:
    if broker.is_fenced:
        return "fenced"
    if broker.is_shutting_down:
        return "stopping"
    return "draining" if broker.is_draining else "active"


def print_cluster(cluster: admin_pb2.DescribeClusterResponse) -> None:
    controller = str(cluster.controller) if cluster.HasField("controller") else "none"
    click.echo(
        f"cluster {cluster.cluster_id}  feature level {cluster.feature_level}  "
        f"metadata offset {cluster.metadata_offset}"
    )
    click.echo(f"active controller {controller}")
    for each in cluster.controllers:
        click.echo(f"  controller {each.node_id} at {each.address}")
    click.echo(
        f"{cluster.topic_count} topic(s), {cluster.partition_count} partition(s): "
        f"{cluster.offline_partition_count} offline, "
        f"{cluster.under_min_isr_partition_count} under min.insync.replicas, "
        f"{cluster.under_replicated_partition_count} under-replicated, "
        f"{cluster.reassigning_partition_count} moving, {cluster.recovering_partition_count} recovering"
    )
    if cluster.unclean_election_topics:
        click.echo(f"unclean election is allowed on {', '.join(cluster.unclean_election_topics)}")
    if cluster.brokers:
        print_brokers(list(cluster.brokers))
    else:
        click.echo("no brokers")


def print_brokers(brokers: list[admin_pb2.BrokerDescription]) -> None:
    keys = ("id", "address", "rack", "state", "broker_epoch", "leader_count", "replica_count")
    documents = [broker_document(each) for each in brokers]
    print_table(
        ("BROKER", "ADDRESS", "RACK", "STATE", "EPOCH", "LEADERS", "REPLICAS"),
        [[document[key] for key in keys] for document in documents],
    )


def quorum_document(quorum: admin_pb2.DescribeQuorumResponse) -> dict[str, Any]:
    return {
        "leader": quorum.leader,
        "term": quorum.term,
        "commit_index": quorum.commit_index,
        "digest_offset": quorum.digest_offset,
        "digest": quorum.digest,
        "voters": [_voter_document(each) for each in quorum.voters],
        "learners": [_voter_document(each) for each in quorum.learners],
    }


def _voter_document(voter: admin_pb2.VoterDescription) -> dict[str, Any]:
    return {
        "id": voter.node_id,
        "directory_id": voter.directory_id,
        "address": voter.address,
        "state": voter.state,
        "match_index": voter.match_index,
        "last_heard_ms": voter.last_heard_ms,
        "applied_index": voter.applied_index if voter.HasField("applied_index") else None,
        "digest": voter.digest or None,
        "is_digest_equal": voter.is_digest_equal if voter.HasField("is_digest_equal") else None,
    }


def print_quorum(quorum: admin_pb2.DescribeQuorumResponse) -> None:
    click.echo(
        f"leader {quorum.leader}  term {quorum.term}  committed {quorum.commit_index}  "
        f"digest {quorum.digest} at {quorum.digest_offset}"
    )
    columns = (
        "NODE", "STATE", "MATCH", "APPLIED", "HEARD MS", "DIGEST", "ADDRESS", "DIRECTORY",
    )  # fmt: skip
    described = [*(quorum.voters), *(quorum.learners)]
    print_table(columns, [_voter_row(_voter_document(each)) for each in described])


def _voter_row(voter: dict[str, Any]) -> list[object]:
    digest = {True: "equal", False: "DIFFERENT", None: None}[voter["is_digest_equal"]]
    # A leader that never heard from it does not know how far it is.
    is_match_known = voter["match_index"] > 0 or voter["state"] != "unreachable"
    return [
        voter["id"],
        voter["state"],
        voter["match_index"] if is_match_known else None,
        voter["applied_index"],
        voter["last_heard_ms"],
        digest,
        voter["address"],
        voter["directory_id"],
    ]
