"""How long writes take, and what they wait for."""

from __future__ import annotations

from typing import Final

from deploy.observability.dashboards.panels import Dashboard, Panel, Row
from deploy.observability.dashboards.queries import TOPICS, q, quantile, rate

__all__ = ["WRITES_DASHBOARD"]

WRITES_DASHBOARD: Final = Dashboard(
    "writes",
    "writes",
    [
        Row(
            "How long writes take",
            [
                Panel(
                    f"Until acknowledged, {name}",
                    [
                        q(
                            quantile(share, "quorate_topic_produce_seconds", "topic", only=TOPICS),
                            "{{topic}}",
                        )
                    ],
                    unit="s",
                )
                for name, share in (("median", 0.5), ("99th percentile", 0.99))
            ]
            + [
                Panel(
                    "Until acknowledged, 99th percentile by leader",
                    [
                        q(
                            quantile(0.99, "quorate_topic_produce_seconds", "instance", only=TOPICS),
                            "{{instance}}",
                        )
                    ],
                    unit="s",
                    about="One that stands out: its disk, its loop, or a follower that only it has.",
                ),
                Panel(
                    "Writes that failed",
                    [
                        q(
                            rate("quorate_topic_produce_errors_total", "topic", "code"),
                            "{{topic}} {{code}}",
                            may_be_empty=True,
                        )
                    ],
                    unit="ops",
                ),
            ],
        ),
        Row(
            "What is written",
            [
                Panel(
                    "Records",
                    [
                        q(
                            rate("quorate_topic_produced_records_total", "topic", only=TOPICS),
                            "{{topic}}",
                        )
                    ],
                    unit="count:rec/s",
                ),
                Panel(
                    "Requests to produce",
                    [
                        q(
                            rate(
                                "quorate_request_received_bytes_count",
                                "method",
                                only='%, method=~".*/Produce.*"',
                            ),
                            "{{method}}",
                        )
                    ],
                    unit="reqps",
                ),
                Panel(
                    "Size of a request, median",
                    [
                        q(
                            quantile(
                                0.5,
                                "quorate_request_received_bytes",
                                "method",
                                only='%, method=~".*/Produce.*"',
                            ),
                            "{{method}}",
                        )
                    ],
                    unit="bytes",
                    about="A few hundred bytes: linger_ms of the producers makes fewer and larger ones.",
                ),
                Panel(
                    "Size of logs",
                    [q("sum by (topic) (quorate_replica_log_bytes{TOPICS})", "{{topic}}")],
                    unit="bytes",
                    about="All replicas together.",
                ),
            ],
        ),
        Row(
            "What writes wait for",
            [
                Panel(
                    "Followers: records behind",
                    [q("max by (topic) (quorate_replica_lag_records{TOPICS})", "{{topic}}")],
                ),
                Panel(
                    "Followers: not caught up for",
                    [q("max by (topic) (quorate_replica_lag_seconds{TOPICS})", "{{topic}}")],
                    unit="s",
                ),
                Panel(
                    "Producers' streams held up",
                    [q(rate("quorate_request_held_up_seconds_total", "instance"), "{{instance}}")],
                    about="Not read, because a bound of the broker is reached: how many, on average.",
                ),
                Panel(
                    "Flushes, 99th percentile",
                    [q(quantile(0.99, "quorate_disk_flush_seconds", "instance"), "{{instance}}")],
                    unit="s",
                ),
                Panel(
                    "Event loop late by, 99th percentile",
                    [q(quantile(0.99, "quorate_loop_lag_seconds", "instance"), "{{instance}}")],
                    unit="s",
                ),
            ],
        ),
    ],
    {"topic": "quorate_topic_produced_records_total"},
)
