"""A picture as data: axes and marks, which matplotlib, plotly and SVG draw alike.

Everything that a picture shows is computed once, in
:mod:`streameval.plots.displays`; the drawers compute nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from streameval.events.values import FloatArray, Weight

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
"""Colours that people of every colour vision can tell apart, legible on white and on black:
those of Okabe and Ito without yellow, and grey."""

MUTED = "#7F7F7F"
"""For what a value is compared with: chance, all events."""

STYLES: tuple[Style, ...] = ("solid", "dashed", "dotted")

Style: TypeAlias = Literal["solid", "dashed", "dotted"]

Corner: TypeAlias = Literal["best", "lower right", "lower left", "upper right", "upper left"]

_MOST_POINTS = 4_000
"""More points of a line than a picture has pixels only make a file larger."""

_LABEL_CHARACTERS = 24


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a picture."""

    label: str
    limits: tuple[float | None, float | None] = (None, None)
    ticks: tuple[tuple[float, str], ...] | None = None
    time: bool = False
    """Its values are datetimes."""
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points, with a name for the legend."""

    x: Sequence[Any] | FloatArray
    y: FloatArray
    name: str = ""
    color: str = COLORS[0]
    style: Style = "solid"
    markers: bool = False
    joined: bool = True
    """Whether a line joins the points; else there are only markers."""
    steps: bool = False
    hover: tuple[FloatArray, FloatArray] | None = None
    """What the coordinates stand for, where the scale is not linear."""
    many: bool = False
    """Thin, with small markers."""


@dataclass(frozen=True, slots=True)
class Area:
    """A closed polygon."""

    x: FloatArray
    y: FloatArray
    name: str = ""
    color: str = COLORS[0]


@dataclass(frozen=True, slots=True)
class Band:
    """A range of y for each interval of x between neighbouring edges; nan leaves a gap."""

    edges: Sequence[Any]
    low: FloatArray
    high: FloatArray
    color: str = COLORS[0]


@dataclass(frozen=True, slots=True)
class Bars:
    """A histogram: a height between neighbouring edges."""

    edges: FloatArray
    heights: FloatArray
    name: str = ""
    color: str = COLORS[0]
    hatch: str = ""
    """A pattern of matplotlib and plotly, ``/``, beside the colour."""


@dataclass(frozen=True, slots=True)
class Whiskers:
    """An interval at each point, of y; ``across``: of x."""

    x: FloatArray
    y: FloatArray
    low: FloatArray
    high: FloatArray
    color: str = COLORS[0]
    across: bool = False


@dataclass(frozen=True, slots=True)
class VerticalLine:
    """A line over the whole height, and a range beside it where there is one."""

    at: float
    low: float = float("nan")
    high: float = float("nan")


@dataclass(frozen=True, slots=True)
class Heatmap:
    """A matrix: shade by share, and a text in each cell, if there are texts."""

    shares: FloatArray
    texts: tuple[tuple[str, ...], ...] = ()
    small: bool = False


@dataclass(frozen=True, slots=True)
class Support:
    """The weight of the events of each pane, behind the lines in the lowest quarter.

    Without weights only the range of x is set, to the outer edges.
    """

    edges: Sequence[Any]
    weights: Sequence[Weight]


@dataclass(frozen=True, slots=True)
class Note:
    """Words in place of what is undefined."""

    text: str


Mark: TypeAlias = Line | Area | Band | Bars | Whiskers | VerticalLine | Heatmap | Support | Note


@dataclass(frozen=True, slots=True)
class Picture:
    """Axes, marks in the order in which they are drawn, and a size in inches."""

    title: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    size: tuple[float, float] = (5.0, 4.5)
    square: bool = False
    """One unit of x is as long as one of y."""
    legend: str = ""
    """The legend's title."""
    corner: Corner = "best"
    """The legend's corner of few lines; of many it is beside the picture."""
    grid: bool = True
    bounds: tuple[float, float] | None = None
    """The range of the metric on y: no tick is outside it."""

    def description(self) -> str:
        """The picture in words, for those who do not see it."""
        axes = f"{self.y.label or 'rows'} by {self.x.label}".strip()
        names = [name for mark in self.marks if (name := getattr(mark, "name", ""))]
        return ". ".join([self.title, axes, *names[:8]])

    def lines(self) -> list[Line]:
        """The lines of values, without what they are compared with."""
        lines = [mark for mark in self.marks if isinstance(mark, Line)]
        return [line for line in lines if line.color != MUTED] or lines

    @property
    def turned(self) -> bool:
        """Whether x has names and no scale, and they are turned, as they are many or long."""
        named = any(isinstance(mark, (Heatmap, Bars)) for mark in self.marks)
        texts = [text for _, text in self.x.ticks or ()] if named else []
        return max(map(len, texts), default=0) * len(texts) > 40

    def named(self) -> int:
        """How many entries the legend has."""
        return sum(bool(getattr(mark, "name", "")) for mark in self.marks)


MANY_NAMES = 6
"""With more entries, the legend is beside the picture."""


def line_look(number: int) -> tuple[str, Style]:
    """Colour and style of a line: 18 differ before one is repeated.

    >>> line_look(0), line_look(6)
    (('#0072B2', 'solid'), ('#0072B2', 'dashed'))
    """
    # Grey is for what a line is compared with.
    colors = COLORS[:-1]
    return colors[number % len(colors)], STYLES[number // len(colors) % len(STYLES)]


def one_line(text: object, most: int = _LABEL_CHARACTERS) -> str:
    """Text of a stream as one short line.

    >>> one_line("a\\nb"), one_line("x" * 30, 5)
    ('a b', 'xxxx…')
    """
    line = "".join(letter if letter.isprintable() else " " for letter in str(text))
    return line if len(line) <= most else line[: most - 1] + "…"


def thinned(x: FloatArray, y: FloatArray, *others: FloatArray) -> tuple[FloatArray, ...]:
    """The points of a long curve that a picture can show, evenly along it, with both ends."""
    if len(x) <= _MOST_POINTS:
        return (x, y, *others)
    steps = np.abs(np.diff(x)) + np.abs(np.diff(y))
    along = np.concatenate(([0.0], np.cumsum(steps)))
    wanted = np.linspace(0.0, along[-1], _MOST_POINTS)
    kept = np.unique(np.concatenate(([0], np.searchsorted(along, wanted), [len(x) - 1])))
    kept = kept[kept < len(x)]
    return tuple(column[kept] for column in (x, y, *others))
