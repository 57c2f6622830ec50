"""Where values come from: a TOML file, the environment, ``--set KEY=VALUE``.

Each source yields raw values by key, every one with its origin in words ("node.toml:7",
"environment variable QUORATE_NODE_ID", "--set node.id"), so that an error can say where to look.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from quorate.errors import InvalidConfig

__all__ = ["ENVIRONMENT_PREFIX", "RawValue", "from_environment", "from_file", "from_set_options"]

ENVIRONMENT_PREFIX = "QUORATE_"

# Read by others, not settings of a node: the command line's bootstrap address and its wish for tracebacks,
# and the choice between compiled and pure, at run time and at build time.
_OTHER_VARIABLES = frozenset(
    {
        "QUORATE_BOOTSTRAP",
        "QUORATE_BUILD_CODEC",
        "QUORATE_CLIENT_RACK",
        "QUORATE_CODEC",
        "QUORATE_TRACEBACK",
    }
)

# Kubernetes sets these in every pod of a namespace that has a service called "quorate" or "quorate-…".
# Refusing them would keep a node from starting because of its own service.
_SERVICE_LINK = re.compile(
    r"QUORATE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


@dataclass(frozen=True, slots=True)
class RawValue:
    """What a source says about a key, before it is parsed."""

    key: str
    value: object
    #: in words, for errors
    origin: str
    #: the origin says which key it is, as a flag of its own does: errors need not say it again
    origin_names_key: bool = False


def from_file(path: str) -> list[RawValue]:
    """The keys of a TOML file; tables are joined with dots (``[log]`` + ``segment.bytes``)."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        raise InvalidConfig(f"configuration file {path} does not exist", file=path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"configuration file {path} cannot be read: {error}", file=path) from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidConfig(f"configuration file {path} is not valid TOML: {error}", file=path) from None
    return [RawValue(key, value, f"{path}:{_line_of(text, key)}") for key, value in _flatten(document)]


def from_environment(environment: Mapping[str, str], known: Mapping[str, str]) -> list[RawValue]:
    """The variables that begin with QUORATE_. ``known`` maps a variable's name to its key.

    An unknown one is passed on under a key made from its name, so that it is refused like any other
    unknown key: a misspelt variable that is ignored is a setting that somebody believes in.
    """
    found = []
    for variable, text in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in _OTHER_VARIABLES:
            continue
        if variable not in known and _SERVICE_LINK.fullmatch(variable):
            continue
        key = known.get(variable, variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", "."))
        found.append(RawValue(key, text, f"environment variable {variable}"))
    return found


def from_set_options(options: Iterable[str]) -> list[RawValue]:
    """``KEY=VALUE`` texts in the order given; a later one wins."""
    found = []
    for option in options:
        key, equals, text = option.partition("=")
        if not equals or not key.strip():
            raise InvalidConfig(f"--set {option}: expected KEY=VALUE")
        found.append(RawValue(key.strip(), text.strip(), f"--set {key.strip()}"))
    return found


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _line_of(text: str, key: str) -> int:
    """The line that completes the key's value: the first one up to which the file already holds it.

    tomllib keeps no positions. Parsing growing prefixes is quadratic, and files have tens of lines.
    """
    lines = text.splitlines(keepends=True)
    for number in range(1, len(lines) + 1):
        try:
            document = tomllib.loads("".join(lines[:number]))
        except tomllib.TOMLDecodeError:
            continue  # inside an array or a text of several lines
        if any(found == key for found, _ in _flatten(document)):
            return number
    return len(lines)
