"""What is asked over HTTP, and what is answered."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

__all__ = ["TEXT", "Request", "Response", "text"]

TEXT: Final = "text/plain; charset=utf-8"


class Request(NamedTuple):
    #: HEAD: all but the body of the answer is wanted
    is_head: bool
    #: without what follows a question mark
    path: str
    #: by their names in lower case; of several with one name, all values with commas between them
    headers: Mapping[str, str]


class Response(NamedTuple):
    status: HTTPStatus
    body: bytes
    content_type: str = TEXT


def text(status: HTTPStatus, *lines: str) -> Response:
    return Response(status, "".join(f"{line}\n" for line in lines).encode())
