"""Growth is drawn as it was measured, and sizes that are not there do not break the picture."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from bench.growth.dimensions import DIMENSIONS, FIGURES
from bench.growth.plot import plot


@pytest.mark.parametrize("sizes", [[1], [1, 10, 100]])
def test_every_figure_has_a_point_for_every_size(sizes: list[int]) -> None:
    figures = {name: [float(size) for size in sizes] for name in FIGURES}
    drawn = ElementTree.fromstring(plot("a < b", sizes, figures, FIGURES))
    points = list(drawn.iter("{http://www.w3.org/2000/svg}circle"))
    assert len(points) == len(sizes) * len(FIGURES)


def test_nothing_measured_but_zero_is_a_picture_all_the_same() -> None:
    ElementTree.fromstring(plot("zero", [1, 2], {name: [0.0, 0.0] for name in FIGURES}, FIGURES))


def test_sizes_grow_and_names_are_unique() -> None:
    assert len({each.name for each in DIMENSIONS}) == len(DIMENSIONS)
    for each in DIMENSIONS:
        assert list(each.sizes) == sorted(set(each.sizes))
