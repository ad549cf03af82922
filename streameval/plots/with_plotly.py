"""Draws pictures with plotly."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np

from streameval.errors import MissingExtraError
from streameval.plots.picture import (
    MANY_NAMES,
    MUTED,
    Area,
    Axis,
    Band,
    Bars,
    Heatmap,
    Line,
    Note,
    Picture,
    Support,
    VerticalLine,
    Whiskers,
)

try:
    import plotly.graph_objects as go
except ImportError:
    raise MissingExtraError("a figure of plotly", package="plotly", extra="plots") from None

_PIXELS = 96
"""In an inch."""

_TEXT = "#767676"
"""A grey with a contrast above 4.5 on white and on black."""

_GRID = "rgba(128,128,128,0.25)"
_DASHES = {"solid": "solid", "dashed": "dash", "dotted": "dot"}
_CORNERS = {
    "best": (0.98, 0.98),
    "upper right": (0.98, 0.98),
    "upper left": (0.02, 0.98),
    "lower right": (0.98, 0.02),
    "lower left": (0.02, 0.02),
}


def draw(picture: Picture) -> Any:
    """The picture as a figure, with a transparent background."""
    figure = go.Figure()
    width, height = (round(inches * _PIXELS * 1.15) for inches in picture.size)
    beside = picture.named() > MANY_NAMES
    figure.update_layout(
        title={"text": text(picture.title), "font": {"size": 16}},
        width=width + (200 if beside else 0),
        height=height + 40,
        margin={"l": 70, "r": 30, "t": 55, "b": 60},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": _TEXT},
        xaxis=_axis(picture.x, picture),
        yaxis=_axis(picture.y, picture),
        showlegend=picture.named() > 0,
        barmode="overlay",
        bargap=0,
        legend=_legend(picture, beside),
    )
    if picture.square or any(isinstance(mark, Heatmap) for mark in picture.marks):
        figure.update_yaxes(scaleanchor="x", scaleratio=1, constrain="domain")
        figure.update_xaxes(constrain="domain")
    for mark in picture.marks:
        _DRAWN[type(mark)](figure, mark)
    return figure


def _legend(picture: Picture, beside: bool) -> dict[str, Any]:
    look: dict[str, Any] = {"title": {"text": text(picture.legend)}, "bgcolor": "rgba(0,0,0,0)"}
    if beside:
        return look | {"x": 1.02, "y": 1.0, "xanchor": "left", "yanchor": "top"}
    x, y = _CORNERS[picture.corner]
    return look | {
        "x": x,
        "y": y,
        "xanchor": "right" if x > 0.5 else "left",
        "yanchor": "top" if y > 0.5 else "bottom",
    }


def _axis(axis: Axis, picture: Picture) -> dict[str, Any]:
    look: dict[str, Any] = {
        "title": {"text": text(axis.label)},
        "showgrid": picture.grid,
        "gridcolor": _GRID,
        "zeroline": False,
        "linecolor": MUTED,
        "showline": True,
        "ticks": "outside",
        "tickcolor": MUTED,
    }
    low, high = axis.limits
    if (low, high) != (None, None):
        look["range"] = [high, low] if axis.reverse else [low, high]
    if low is not None and high is None:
        look["rangemode"] = "tozero"
        del look["range"]
    if axis.ticks is not None:
        look["tickvals"] = [place for place, _ in axis.ticks]
        look["ticktext"] = [text(name) for _, name in axis.ticks]
    return look


def _values(column: Sequence[Any] | Any) -> list[Any]:
    """Coordinates as plain values; nan, which is a gap, as None."""
    if len(column) and isinstance(column[0], datetime):
        return [value.isoformat() for value in column]
    numbers = np.asarray(column, dtype=np.float64).tolist()
    return [value if math.isfinite(value) else None for value in numbers]


def _add_line(figure: Any, line: Line) -> None:
    mode = "+".join(
        part for part, shown in (("lines", line.joined), ("markers", line.markers)) if shown
    )
    look: dict[str, Any] = {}
    if line.hover is not None:
        raw = np.column_stack(line.hover).tolist()
        look = {"customdata": raw, "hovertemplate": "%{customdata[0]:.4g}, %{customdata[1]:.4g}"}
    if line.color == MUTED:
        look["hoverinfo"] = "skip"
    figure.add_scatter(
        x=_values(line.x),
        y=_values(line.y),
        mode=mode,
        name=text(line.name),
        showlegend=bool(line.name),
        line={
            "color": line.color,
            "dash": _DASHES[line.style],
            "width": 1 if line.many else 1.5 if line.color == MUTED else 2,
            "shape": "hv" if line.steps else "linear",
        },
        marker={"color": line.color, "size": 3 if line.many else 7},
        connectgaps=False,
        **look,
    )


def _faint(color: str, alpha: float) -> str:
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def _add_area(figure: Any, area: Area) -> None:
    _add_polygon(figure, _values(area.x), _values(area.y), _faint(area.color, 0.15), area.name)


def _add_polygon(figure: Any, x: list[Any], y: list[Any], color: str, name: str = "") -> None:
    figure.add_scatter(
        x=x,
        y=y,
        fill="toself",
        fillcolor=color,
        line={"width": 0},
        mode="lines",
        name=text(name),
        showlegend=bool(name),
        hoverinfo="skip",
    )


def _add_band(figure: Any, band: Band) -> None:
    edges = _values(band.edges)
    ends = zip(edges[:-1], edges[1:], _values(band.low), _values(band.high), strict=True)
    x: list[Any] = []
    y: list[Any] = []
    for start, end, low, high in ends:
        if low is not None and high is not None:
            x += [start, end, end, start, start, None]
            y += [low, low, high, high, low, None]
    _add_polygon(figure, x, y, _faint(band.color, 0.2))


def _add_bars(figure: Any, bars: Bars) -> None:
    widths = np.diff(bars.edges)
    figure.add_bar(
        x=_values(bars.edges[:-1] + widths / 2),
        y=_values(bars.heights),
        width=_values(widths),
        name=text(bars.name),
        marker={
            "color": _faint(bars.color, 0.5),
            "line": {"width": 0},
            "pattern": {"shape": bars.hatch[:1], "fgcolor": bars.color, "size": 5},
        },
    )


def _add_whiskers(figure: Any, whiskers: Whiskers) -> None:
    middle = whiskers.x if whiskers.across else whiskers.y
    error = {
        "type": "data",
        "symmetric": False,
        "array": _values(np.clip(whiskers.high - middle, 0, None)),
        "arrayminus": _values(np.clip(middle - whiskers.low, 0, None)),
        "color": whiskers.color,
        "thickness": 1.5,
        "width": 0 if whiskers.across else 3,
    }
    figure.add_scatter(
        x=_values(whiskers.x),
        y=_values(whiskers.y),
        mode="markers",
        marker={"opacity": 0, "size": 1},
        showlegend=False,
        hoverinfo="skip",
        **{"error_x" if whiskers.across else "error_y": error},
    )


def _add_vertical_line(figure: Any, line: VerticalLine) -> None:
    if math.isfinite(line.low):
        figure.add_vrect(x0=line.low, x1=line.high, fillcolor=MUTED, opacity=0.15, line_width=0)
    figure.add_vline(x=line.at, line={"color": MUTED, "width": 1.5, "dash": "dot"})


def _add_heatmap(figure: Any, cells: Heatmap) -> None:
    figure.add_heatmap(
        z=cells.shares.tolist(),
        text=[[text(cell) for cell in row] for row in cells.texts] or None,
        texttemplate="%{text}" if cells.texts else None,
        textfont={"size": 9 if cells.small else 13},
        colorscale="Blues",
        zmin=0,
        zmax=1,
        showscale=False,
        hovertemplate="true %{y}, predicted %{x}: %{text}<extra></extra>" if cells.texts else None,
        hoverinfo=None if cells.texts else "skip",
    )


def _add_support(figure: Any, support: Support) -> None:
    if not support.weights:
        return
    edges = _values(support.edges)
    x = [edge for pair in pairwise(edges) for edge in pair]
    y = [float(weight) for weight in support.weights for _ in range(2)]
    most = max(y) or 1.0
    figure.add_scatter(
        x=x,
        y=y,
        yaxis="y2",
        mode="lines",
        line={"width": 0},
        fill="tozeroy",
        fillcolor=_faint(MUTED, 0.27),
        name="support",
        showlegend=False,
        hovertemplate="support %{y:,}<extra></extra>",
    )
    figure.update_layout(
        yaxis={"domain": [0.27, 1.0]},
        yaxis2={
            "domain": [0.0, 0.22],
            "range": [0, most * 1.05],
            "title": {"text": "support"},
            "showgrid": False,
            "zeroline": False,
            "nticks": 3,
        },
        xaxis={"anchor": "y2"},
    )


def _add_note(figure: Any, note: Note) -> None:
    place = {"xref": "paper", "yref": "paper", "x": 0.5, "y": 0.6}
    figure.add_annotation(text=text(note.text), showarrow=False, **place)


_DRAWN: Mapping[type, Callable[[Any, Any], None]] = {
    Line: _add_line,
    Area: _add_area,
    Band: _add_band,
    Bars: _add_bars,
    Whiskers: _add_whiskers,
    VerticalLine: _add_vertical_line,
    Heatmap: _add_heatmap,
    Support: _add_support,
    Note: _add_note,
}


def text(words: str) -> str:
    """Words that plotly parses neither as its markup nor as mathematics."""
    return html.escape(words, quote=False).replace("$", "\u200b$")
