"""Just enough SVG: elements with escaped attributes. Colours are classes, so that a page can be dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["Point", "broken_line", "element", "group", "text", "titled"]

Point = tuple[float, float]


def element(name: str, content: str = "", **attributes: str | float) -> str:
    """``class_`` and ``text_anchor`` are written ``class`` and ``text-anchor``."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"' for key, value in attributes.items()
    )
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def group(children: Iterable[str], **attributes: str | float) -> str:
    return element("g", "".join(children), **attributes)


def text(x: float, y: float, words: str, **attributes: str | float) -> str:
    return element("text", escape(words), x=x, y=y, **attributes)


def titled(shape: str, title: str, **attributes: str | float) -> str:
    """Browsers show the title while the pointer rests on the shape."""
    return group([element("title", escape(title)), shape], **attributes)


def broken_line(points: Sequence[Point | None], **attributes: str | float) -> str:
    """A line through the points, lifted where there is none; a point by itself shows as a dot."""
    path, is_down = [], False
    for number, point in enumerate(points):
        if point is None:
            is_down = False
            continue
        path.append(f"{'L' if is_down else 'M'}{_value(point[0])} {_value(point[1])}")
        if not is_down and (number + 1 == len(points) or points[number + 1] is None):
            path.append("h0")
        is_down = True
    return element("path", "", d="".join(path), fill="none", **attributes)


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return escape(value)
    return f"{value:.1f}".removesuffix(".0")
