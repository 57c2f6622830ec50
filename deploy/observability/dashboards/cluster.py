"""Is the cluster well, what does it do, and who does it."""

from __future__ import annotations

from typing import Final

from deploy.observability.dashboards.panels import Dashboard, Panel, Row
from deploy.observability.dashboards.queries import q, quantile, rate

__all__ = ["CLUSTER_DASHBOARD"]

CLUSTER_DASHBOARD: Final = Dashboard(
    "cluster",
    "the cluster",
    [
        Row(
            "Is it well?",
            [
                Panel(
                    "Active controllers",
                    [
                        # Of each cluster, also of one all of whose controllers are gone. None at all is none.
                        q(
                            "sum by (cluster) (quorate_controller_active{%}) "
                            'or sum by (cluster) (0 * up{job="quorate", %}) or on() vector(0)',
                            "{{cluster}}",
                        )
                    ],
                    about="One. None: nobody elects leaders. Two for more than a moment: one is cut off.",
                    red_below=1,
                    red_from=2,
                ),
                Panel(
                    "Voters that do not follow",
                    [q("sum(quorate_controller_voters_unsettled{%})")],
                    about="As the active controller counts; without a majority of all there is none.",
                    red_from=1,
                ),
                Panel(
                    "Offline partitions",
                    [q("sum(quorate_cluster_offline_partitions{%})")],
                    about="Nobody leads them: neither read nor written.",
                    red_from=1,
                ),
                Panel(
                    "Under min ISR",
                    [q("sum(quorate_cluster_under_min_isr_partitions{%})")],
                    about="Writes with acks=all are refused.",
                    red_from=1,
                ),
                Panel(
                    "Under-replicated",
                    [q("sum(quorate_cluster_under_replicated_partitions{%})")],
                    about="A replica is not in sync; as it is while a node restarts.",
                    red_from=1,
                ),
                Panel("Fenced brokers", [q("sum(quorate_cluster_fenced_brokers{%})")], red_from=1),
                Panel(
                    "Nodes that do not answer",
                    [q('count(up{job="quorate", %} == 0) or vector(0)')],
                    about="Of those that Prometheus asks: a pod that waits for a machine is not among them.",
                    red_from=1,
                ),
                Panel(
                    "Nodes not ready",
                    [q("count(quorate_node_ready{%} == 0) or vector(0)")],
                    about="Of those that answer.",
                    red_from=1,
                ),
                Panel(
                    "Brokers without room",
                    [q("count(quorate_broker_logs_without_room{%} > 0) or vector(0)")],
                    about="They have refused a write because their disk is full.",
                    red_from=1,
                ),
            ],
        ),
        Row(
            "What it does",
            [
                Panel(
                    "Writes until acknowledged, 99th percentile",
                    [q(quantile(0.99, "quorate_topic_produce_seconds"), "all topics")],
                    unit="s",
                    about="The number that degrades first.",
                ),
                Panel(
                    "Records written",
                    [q(rate("quorate_topic_produced_records_total", "topic"), "{{topic}}")],
                    unit="count:rec/s",
                ),
                Panel(
                    "Bytes in",
                    [q(rate("quorate_request_received_bytes_sum", "instance"), "{{instance}}")],
                    unit="Bps",
                    about="From clients and from other nodes.",
                ),
                Panel(
                    "Bytes out",
                    [q(rate("quorate_request_sent_bytes_sum", "instance"), "{{instance}}")],
                    unit="Bps",
                ),
                Panel(
                    "Groups: share of retention that is unread",
                    [
                        q(
                            "max by (group, topic) (quorate_group_lag_retention_ratio{%})",
                            "{{group}} on {{topic}}",
                        )
                    ],
                    unit="percentunit",
                    about="At 100 % records are deleted that the group has not read.",
                ),
                Panel(
                    "Refused or failed requests",
                    [q(rate("quorate_request_errors_total", "method", "code"), "{{method}} {{code}}")],
                    unit="reqps",
                ),
            ],
        ),
        Row(
            "Who does it",
            [
                Panel("Leaders", [q("quorate_broker_leaders{%}", "{{instance}}")]),
                Panel("Replicas", [q("quorate_broker_replicas{%}", "{{instance}}")]),
                Panel(
                    "ISR: replicas that left and joined",
                    [
                        q("sum(increase(quorate_change_isr_shrinks_total{%}[$__rate_interval]))", "left"),
                        q("sum(increase(quorate_change_isr_expands_total{%}[$__rate_interval]))", "joined"),
                    ],
                ),
                Panel(
                    "Leader epochs",
                    [
                        q("max(increase(quorate_change_leader_epochs_total{%}[$__rate_interval]))", "begun"),
                        q(
                            "max(increase(quorate_change_unclean_elections_total{%}[$__rate_interval]))",
                            "unclean elections",
                        ),
                    ],
                ),
                Panel(
                    "Warnings and errors in logs",
                    [
                        q(
                            rate("quorate_event_logged_total", "event", only='%, level=~"warning|error"'),
                            "{{event}}",
                            may_be_empty=True,
                        )
                    ],
                    unit="ops",
                ),
                Panel(
                    "Topics and partitions",
                    [
                        q("sum(quorate_cluster_topics{%})", "topics"),
                        q("sum(quorate_cluster_partitions{%})", "partitions"),
                        q("sum(quorate_cluster_brokers{%})", "brokers"),
                    ],
                ),
            ],
        ),
    ],
)
