"""A configuration is a frozen dataclass whose fields are settings.

Each field is declared with ``setting()``: its key as people write it, the kind of its value, what it
is, and its trade-off in a sentence. Everything else follows from that one declaration: parsing,
checks, error texts, the documentation page. An instance is always valid: the checks run in
``__post_init__`` (through ``check_settings``), so that code which builds one directly is held to
the same bounds as a file.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from quorate.core.config.kinds import Kind
from quorate.errors import InvalidConfig

__all__ = ["REQUIRED", "Setting", "check_settings", "setting", "settings_of"]

ValueT = TypeVar("ValueT")


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


#: Stands where a setting has no default: whoever runs a node has to choose it.
REQUIRED: Final = _Required()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """All that is known about one key."""

    #: the dataclass field
    attribute: str
    #: as it stands in a file and after ``--set``, with dots
    key: str
    kind: Kind[object]
    #: REQUIRED or the value when no source names the key
    default: object
    about: str
    trade_off: str

    @property
    def environment_name(self) -> str:
        return "QUORATE_" + self.key.upper().replace(".", "_")


def setting(
    key: str,
    kind: Kind[ValueT],
    *,
    default: ValueT | _Required,
    about: str,
    trade_off: str,
) -> Any:  # as dataclasses.field: the annotation beside it is the type of the field
    """Declare a field of a configuration dataclass."""
    metadata = {"key": key, "kind": kind, "about": about, "trade_off": trade_off}
    if isinstance(default, _Required):
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def settings_of(config_class: type[Any]) -> tuple[Setting, ...]:
    """The settings of a configuration class in the order of their declaration."""
    return tuple(
        Setting(
            attribute=field.name,
            key=field.metadata["key"],
            kind=field.metadata["kind"],
            default=REQUIRED if field.default is dataclasses.MISSING else field.default,
            about=field.metadata["about"],
            trade_off=field.metadata["trade_off"],
        )
        for field in dataclasses.fields(config_class)
        if "key" in field.metadata
    )


def check_settings(config: object) -> None:
    """Refuse values that no source could have supplied."""
    for each in settings_of(type(config)):
        try:
            each.kind.parse(getattr(config, each.attribute))
        except ValueError as error:
            raise InvalidConfig(f"{each.key}: {error}; expected {each.kind.accepts}", key=each.key) from None
