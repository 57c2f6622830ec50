"""The documentation as a site: links between pages inside and outside of docs/."""

from __future__ import annotations

import pytest

from tools.site_hooks import ELSEWHERE, ROOT, with_links_of_the_site


@pytest.mark.parametrize(
    ("page", "written", "on_site"),
    [
        ("operations.md", "[a](metrics.md#groups)", "[a](metrics.md#groups)"),
        ("operations.md", "[a](#anchor)", "[a](#anchor)"),
        ("operations.md", "[a](../SECURITY.md)", "[a](project/SECURITY.md)"),
        ("operations.md", "[a](../deploy/README.md#x)", "[a](deploy/README.md#x)"),
        (
            "adr/README.md",
            "[a](../../CONTRIBUTING.md#decisions)",
            "[a](../project/CONTRIBUTING.md#decisions)",
        ),
        ("project/README.md", "[a](docs/operations.md)", "[a](../operations.md)"),
        (
            "deploy/README.md",
            "[a](../docs/metrics.md), [b](k8s/README.md)",
            "[a](../metrics.md), [b](k8s/README.md)",
        ),
        ("drills.md", "[agents](../examples/drill-agents)", "agents"),
        ("deploy/README.md", "[image](Dockerfile)", "image"),
        ("deploy/README.md", "[set](https://example.com/)", "[set](https://example.com/)"),
        ("README.md", "[a](gone.md)", "[a](gone.md)"),
        ("README.md", "```\n[a](../SECURITY.md)\n```", "```\n[a](../SECURITY.md)\n```"),
    ],
)
def test_links_lead_to_pages_of_the_site_or_are_text(page: str, written: str, on_site: str) -> None:
    assert with_links_of_the_site(written, page) == on_site


def test_pages_from_outside_exist_and_have_a_place_of_their_own() -> None:
    assert all((ROOT / source).exists() for source in ELSEWHERE)
    inside = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert not inside & set(ELSEWHERE.values())
