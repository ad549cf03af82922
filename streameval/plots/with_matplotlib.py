"""Draws pictures with matplotlib, without pyplot, which would keep a reference to each figure."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from streameval.errors import MissingExtraError
from streameval.plots.picture import (
    MANY_NAMES,
    MUTED,
    Area,
    Band,
    Bars,
    Heatmap,
    Line,
    Note,
    Picture,
    Support,
    VerticalLine,
    Whiskers,
    one_line,
)
from streameval.plots.with_svg import page_of

try:
    import matplotlib.dates
    import matplotlib.ticker
    from matplotlib.figure import Figure
except ImportError as error:
    package = (error.name or "matplotlib").partition(".")[0]
    raise MissingExtraError("plotting", package=package, extra="plots") from None

_LAST_DAY = 2_932_897 - 1e-6
"""The end of the year 9999, less a margin: later floats in days round to an invalid date."""


def draw(picture: Picture, ax: Any = None, options: Mapping[str, Any] | None = None) -> Any:
    """Draw into axes or a new figure; the axes, and the artists of lines, bars and cells."""
    if ax is None:
        beside = 2.2 if picture.named() > MANY_NAMES else 0.0
        width, height = picture.size
        ax = Figure(figsize=(width + beside, height), layout="constrained").subplots()
    ax.set_xlabel(plain(picture.x.label))
    ax.set_ylabel(plain(picture.y.label))
    if picture.grid:
        ax.grid(alpha=0.3)
        ax.set_axisbelow(True)
    values = {id(line) for line in picture.lines()}
    artists: list[Any] = []
    for mark in picture.marks:
        own = dict(options or {}) if id(mark) in values else {}
        drawn = _DRAWN[type(mark)](ax, mark, own)
        if id(mark) in values or isinstance(mark, (Bars, Heatmap)):
            artists.append(drawn)
    _scale(ax, picture)
    if picture.named():
        _legend(ax, picture)
    return ax, artists


def _legend(ax: Any, picture: Picture) -> None:
    look: dict[str, Any] = {"fontsize": "small", "title": plain(picture.legend) or None}
    if picture.named() > MANY_NAMES:
        look |= {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0.0}
        ax.legend(**look, fancybox=False)
    else:
        ax.legend(loc=picture.corner, **look)


def _scale(ax: Any, picture: Picture) -> None:
    if picture.square:
        ax.set_aspect("equal")
    for axis, side in ((picture.x, "x"), (picture.y, "y")):
        if axis.limits != (None, None):
            low, high = axis.limits
            getattr(ax, f"set_{side}lim")((high, low) if axis.reverse else (low, high))
        if axis.ticks is not None:
            places, texts = zip(*axis.ticks, strict=True) if axis.ticks else ((), ())
            getattr(ax, f"set_{side}ticks")(places, [plain(text) for text in texts])
    if picture.turned:
        ax.tick_params(axis="x", labelrotation=90)
    if picture.x.time and any(isinstance(mark, Line) for mark in picture.marks):
        locator = matplotlib.dates.AutoDateLocator()  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(matplotlib.dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    if picture.bounds is not None:
        low, high = picture.bounds
        ax.set_yticks([tick for tick in ax.get_yticks() if low <= tick <= high])


def _draw_line(ax: Any, line: Line, options: dict[str, Any]) -> Any:
    x = _numbers(line.x)
    look: dict[str, Any] = {
        "color": line.color,
        "linestyle": line.style if line.joined else "none",
        "linewidth": 0.8 if line.many else 1.2 if line.color == MUTED else 1.6,
        "label": plain(line.name, 80) or None,
        "drawstyle": "steps-post" if line.steps else "default",
    }
    if line.markers:
        look |= {"marker": "o", "markersize": 1.5 if line.many else 4 if line.joined else 5}
    # Aliases of the user, such as lw and c, replace what they stand for.
    for short, name in (("lw", "linewidth"), ("c", "color"), ("ls", "linestyle")):
        if short in options:
            options[name] = options.pop(short)
    (drawn,) = ax.plot(x, line.y, **(look | options))
    return drawn


def _draw_area(ax: Any, area: Area, options: dict[str, Any]) -> Any:
    label = plain(area.name, 80) or None
    return ax.fill(area.x, area.y, alpha=0.15, linewidth=0, color=area.color, label=label)


def _draw_band(ax: Any, band: Band, options: dict[str, Any]) -> Any:
    edges = _numbers(band.edges)
    look: dict[str, Any] = {"fill": True, "alpha": 0.2, "linewidth": 0, "color": band.color}
    return ax.stairs(band.high, edges, baseline=band.low, **look)


def _draw_bars(ax: Any, bars: Bars, options: dict[str, Any]) -> Any:
    label = plain(bars.name, 80) or None
    ax.stairs(bars.heights, bars.edges, color=bars.color, linewidth=1.2)
    look: dict[str, Any] = {"fill": True, "alpha": 0.4, "linewidth": 0, "hatch": bars.hatch or None}
    return ax.stairs(bars.heights, bars.edges, color=bars.color, label=label, **look)


def _draw_whiskers(ax: Any, whiskers: Whiskers, options: dict[str, Any]) -> Any:
    if whiskers.across:
        look: dict[str, Any] = {"linewidth": 1.5, "alpha": 0.6, "color": whiskers.color}
        return ax.hlines(whiskers.y, whiskers.low, whiskers.high, **look)
    ends = np.clip([whiskers.y - whiskers.low, whiskers.high - whiskers.y], 0, None)
    look = {"fmt": "none", "elinewidth": 1, "capsize": 2, "alpha": 0.6, "ecolor": whiskers.color}
    return ax.errorbar(whiskers.x, whiskers.y, yerr=ends, **look)


def _draw_vertical_line(ax: Any, line: VerticalLine, options: dict[str, Any]) -> Any:
    ax.axvline(line.at, color=MUTED, linewidth=1, linestyle=":")
    if np.isfinite(line.low):
        ax.axvspan(line.low, line.high, color=MUTED, alpha=0.15, linewidth=0)


def _draw_heatmap(ax: Any, cells: Heatmap, options: dict[str, Any]) -> Any:
    image = ax.imshow(cells.shares, cmap="Blues", vmin=0, vmax=1, aspect="equal")
    for row, texts in enumerate(cells.texts):
        for column, text in enumerate(texts):
            dark = cells.shares[row, column] > 0.55
            look: dict[str, Any] = {"fontsize": 7} if cells.small else {}
            color = "white" if dark else "black"
            ax.text(column, row, text, ha="center", va="center", color=color, **look)
    ax.tick_params(length=0)
    return image


def _draw_support(ax: Any, support: Support, options: dict[str, Any]) -> Any:
    edges = _numbers(support.edges)
    # Markers are in the middle of their panes; dates before the year 1 do not exist.
    ax.margins(x=0)
    ax.update_datalim([(edge, 0.0) for edge in (edges[0], edges[-1])], updatey=False)
    ax.autoscale_view(scaley=False)
    if not support.weights:
        return
    beneath = ax.twinx()
    beneath.margins(x=0)
    beneath.stairs(support.weights, edges, fill=True, color=MUTED, alpha=0.27)
    most = float(max(support.weights)) or 1.0
    whole = all(isinstance(weight, int) for weight in support.weights)
    beneath.set_ylim(0, 4 * most)
    low, high = ax.get_ylim()
    ax.set_ylim(low - 0.3 * (high - low), high)
    # Each axis has ticks only in the range of its own values.
    ax.set_yticks([tick for tick in ax.get_yticks() if low <= tick <= high])
    ticks = matplotlib.ticker.MaxNLocator(2, steps=[1, 2, 5, 10], integer=whole)
    beneath.set_yticks([tick for tick in ticks.tick_values(0, most) if 0 <= tick <= most])
    beneath.yaxis.set_major_formatter(lambda tick, _: f"{tick:,.10g}")
    beneath.set_ylabel("support", color=MUTED, y=0.125)
    beneath.tick_params(axis="y", colors=MUTED)
    beneath.set_zorder(ax.get_zorder() - 1)
    ax.patch.set_visible(False)


def _draw_note(ax: Any, note: Note, options: dict[str, Any]) -> Any:
    words = plain(note.text, 120)
    ax.text(0.5, 0.6, words, ha="center", transform=ax.transAxes, wrap=True)
    ax.set_yticks([])


_DRAWN: Mapping[type, Callable[[Any, Any, dict[str, Any]], Any]] = {
    Line: _draw_line,
    Area: _draw_area,
    Band: _draw_band,
    Bars: _draw_bars,
    Whiskers: _draw_whiskers,
    VerticalLine: _draw_vertical_line,
    Heatmap: _draw_heatmap,
    Support: _draw_support,
    Note: _draw_note,
}


def _numbers(values: Sequence[Any] | Any) -> Any:
    """Coordinates as numbers; datetimes as matplotlib's days."""
    if len(values) and isinstance(values[0], datetime):
        days: Any = matplotlib.dates.date2num(values)  # type: ignore[no-untyped-call]
        return np.minimum(days, _LAST_DAY)
    return np.asarray(values, dtype=np.float64)


def picture_bytes(figure: Any, ending: str) -> bytes:
    """A figure as the bytes of a file of this suffix."""
    picture = io.BytesIO()
    with warnings.catch_warnings():
        # Labels may be of any script; glyphs that the font lacks are drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(picture, format="svg" if ending == ".html" else ending[1:], dpi=150)
    data = picture.getvalue()
    if ending == ".html":
        data = page_of(data[data.index(b"<svg") :].decode()).encode()
    return data


def write_picture(figure: Any, path: str | os.PathLike[str], ending: str) -> None:
    """Write a figure to a file, which is opened once the picture is complete."""
    data = picture_bytes(figure, ending)
    with open(path, "wb") as file:
        file.write(data)


def plain(text: str, most: int | None = None) -> str:
    """One short line that matplotlib does not parse as mathematics."""
    line = one_line(text, len(text) if most is None else most)
    return line.replace("$", r"\$")
