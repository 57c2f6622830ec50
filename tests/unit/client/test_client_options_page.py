"""The page of the clients' options is what the options are."""

from __future__ import annotations

from pathlib import Path

from tools.client_options import options_page

PAGE = Path(__file__).parents[3] / "docs" / "client-options.md"


def test_page_of_client_options_is_up_to_date() -> None:
    # `make docs` writes it.
    assert PAGE.read_text() == options_page()
