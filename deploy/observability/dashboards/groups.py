"""How far consumer groups are behind, and who reads for them."""

from __future__ import annotations

from typing import Final

from deploy.observability.dashboards.panels import Dashboard, Panel, Row
from deploy.observability.dashboards.queries import q, rate

__all__ = ["GROUPS_DASHBOARD"]

GROUPS_DASHBOARD: Final = Dashboard(
    "groups",
    "consumer groups",
    [
        Row(
            "How far behind",
            [
                Panel(
                    "Share of retention that is unread",
                    [
                        q(
                            "max by (group, topic) (quorate_group_lag_retention_ratio{GROUPS})",
                            "{{group}} on {{topic}}",
                        )
                    ],
                    unit="percentunit",
                ),
                Panel(
                    "Age of the oldest record that is unread",
                    [
                        q(
                            "max by (group, topic) (quorate_group_lag_seconds{GROUPS})",
                            "{{group}} on {{topic}}",
                        )
                    ],
                    unit="s",
                ),
                Panel(
                    "Records that are unread",
                    [
                        q(
                            "sum by (group, topic) (quorate_group_lag_records{GROUPS})",
                            "{{group}} on {{topic}}",
                        )
                    ],
                ),
                Panel(
                    "The partition that is furthest behind",
                    [
                        q(
                            "topk(10, quorate_group_lag_records{GROUPS})",
                            "{{group}} on {{topic}}-{{partition}}",
                        )
                    ],
                ),
            ],
        ),
        Row(
            "Who reads",
            [
                Panel("Members", [q("max by (group) (quorate_group_members{GROUPS})", "{{group}}")]),
                Panel(
                    "Groups by state",
                    [q("count by (state) (quorate_group_state_info{GROUPS})", "{{state}}")],
                ),
                Panel(
                    "Commits",
                    [
                        q(
                            rate(
                                "quorate_request_seconds_count",
                                "outcome",
                                only='%, method="GroupService/CommitOffsets"',
                            ),
                            "{{outcome}}",
                        )
                    ],
                    unit="reqps",
                ),
                Panel(
                    "What is not known",
                    [
                        q("sum(quorate_group_lag_unknown_partitions{%})", "partitions without a lag"),
                        q("sum(quorate_group_left_out_groups{%})", "groups left out"),
                        q("max(quorate_group_lag_age_seconds{%})", "age of the numbers, seconds"),
                    ],
                ),
            ],
        ),
    ],
    {"group": "quorate_group_members"},
)
