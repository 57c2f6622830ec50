"""Each node: its machine, its requests, its controller, its damage."""

from __future__ import annotations

from typing import Final

from deploy.observability.dashboards.panels import Dashboard, Panel, Row
from deploy.observability.dashboards.queries import NODES, q, quantile, rate

__all__ = ["NODES_DASHBOARD"]

NODES_DASHBOARD: Final = Dashboard(
    "nodes",
    "nodes",
    [
        Row(
            "The machine",
            [
                Panel(
                    "Processor",
                    [q("rate(process_cpu_seconds_total{NODES}[$__rate_interval])", "{{instance}}")],
                    unit="percentunit",
                    about="Near 100 %: the loop is at its end.",
                ),
                Panel(
                    "Memory",
                    [q("process_resident_memory_bytes{NODES}", "{{instance}}")],
                    unit="bytes",
                ),
                Panel(
                    "Room on the disks",
                    [q("quorate_disk_free_bytes{NODES}", "{{instance}} {{volume}}")],
                    unit="bytes",
                ),
                Panel(
                    "Open files, of those allowed",
                    [q("process_open_fds{NODES} / process_max_fds{NODES}", "{{instance}}")],
                    unit="percentunit",
                ),
                Panel(
                    "Flushes, 99th percentile",
                    [
                        q(
                            quantile(0.99, "quorate_disk_flush_seconds", "instance", only=NODES),
                            "{{instance}}",
                        )
                    ],
                    unit="s",
                ),
                Panel(
                    "Event loop late by, 99th percentile",
                    [
                        q(
                            quantile(0.99, "quorate_loop_lag_seconds", "instance", only=NODES),
                            "{{instance}}",
                        )
                    ],
                    unit="s",
                ),
            ],
        ),
        Row(
            "Requests",
            [
                Panel(
                    "By method",
                    [q(rate("quorate_request_received_bytes_count", "method", only=NODES), "{{method}}")],
                    unit="reqps",
                    about="Messages, of streams as well.",
                ),
                Panel(
                    "By outcome",
                    [q(rate("quorate_request_seconds_count", "outcome", only=NODES), "{{outcome}}")],
                    unit="reqps",
                ),
                Panel(
                    "How long, 99th percentile",
                    [q(quantile(0.99, "quorate_request_seconds", "method", only=NODES), "{{method}}")],
                    unit="s",
                    about="Fetches wait for records, and heartbeats of groups for news.",
                ),
                Panel(
                    "Errors",
                    [q(rate("quorate_request_errors_total", "code", only=NODES), "{{code}}")],
                    unit="reqps",
                ),
            ],
        ),
        Row(
            "Throttling",
            [
                Panel(
                    "Streams held up",
                    [
                        q(
                            rate("quorate_request_held_up_seconds_total", "instance", only=NODES),
                            "{{instance}}",
                        )
                    ],
                    about="Producers that wait because a bound is reached: how many, on average. No quota: "
                    "there are none.",
                ),
                Panel(
                    "Refused: too much at once",
                    [
                        q(
                            rate(
                                "quorate_request_errors_total", "method", only=f'{NODES}, code="OVERLOADED"'
                            ),
                            "{{method}}",
                            may_be_empty=True,
                        )
                    ],
                    unit="reqps",
                ),
                Panel(
                    "Copies: share of their limit in use",
                    [
                        q(
                            "rate(quorate_throttle_used_seconds_total{NODES}[$__rate_interval])",
                            "{{instance}}",
                        )
                    ],
                    unit="percentunit",
                    about="Near 100 %: a higher limit would be used. Well below: something else is slower.",
                ),
                Panel(
                    "Copies: limit",
                    [
                        q(
                            "quorate_throttle_limit_bytes_per_second{NODES}",
                            "{{instance}}",
                            may_be_empty=True,
                        )
                    ],
                    unit="Bps",
                    about="follower.replication.throttled.rate. Nothing here: there is none.",
                ),
                Panel(
                    "Copies: replicas under a limit",
                    [q("quorate_throttle_limited_replicas{NODES}", "{{instance}}")],
                ),
            ],
        ),
        Row(
            "Controllers",
            [
                Panel("Term", [q("max(quorate_controller_term{NODES})", "term")]),
                Panel("Committed up to", [q("quorate_controller_commit_index{NODES}", "{{instance}}")]),
                Panel(
                    "Not committed yet", [q("quorate_controller_uncommitted_entries{NODES}", "{{instance}}")]
                ),
                Panel(
                    "Metadata: change until committed",
                    [
                        q(quantile(0.5, "quorate_controller_commit_seconds", only=NODES), "median"),
                        q(quantile(0.99, "quorate_controller_commit_seconds", only=NODES), "99th percentile"),
                    ],
                    unit="s",
                    about="From the active controller's decision until a majority of voters has it on disk.",
                ),
                Panel(
                    "Heartbeats: last one ago",
                    [
                        q(
                            "max by (broker_id) (quorate_controller_heartbeat_age_seconds{%})",
                            "broker {{broker_id}}",
                        )
                    ],
                    unit="s",
                ),
                Panel(
                    "State",
                    [q("count by (state) (quorate_controller_state_info{NODES})", "{{state}}")],
                ),
            ],
        ),
        Row(
            "Damage",
            [
                Panel("Replicas of no use", [q("sum(quorate_replica_failed{NODES})")], red_from=1),
                Panel("Found", [q("sum(quorate_event_damage_found_total{NODES})")], is_number=True),
                Panel("Repaired", [q("sum(quorate_event_damage_repaired_total{NODES})")], is_number=True),
                Panel(
                    "Repeats left out of logs",
                    [q("sum(quorate_event_suppressed_total{NODES})")],
                    is_number=True,
                ),
            ],
        ),
    ],
    {"instance": "quorate_node_info"},
)
