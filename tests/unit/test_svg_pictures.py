"""Pictures as SVG, without matplotlib: every mark, hostile text, few bytes; lines of several."""

from __future__ import annotations

import itertools
import math
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streameval as se
from streameval import plots
from streameval.evaluator.reports import SeriesRow
from streameval.plots import DISPLAYS, SeriesDisplay, available_displays
from streameval.plots.picture import MUTED, Axis, Bars, Heatmap, Line, Mark, Picture
from streameval.plots.with_svg import _DRAWN, draw

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = ["<b>&amp;\"'", "a\nb\x00", "$x$", "猫" * 40, "--><script>", "\ud800", "x" * 10_000]


def scored(shift: float = 0.0, count: int = 240) -> se.Evaluator:
    truth = [n % 3 == 0 for n in range(count)]
    ev = se.Evaluator(window=se.Panes("4h", pane="1h"), time_unit="s", slices=("c",))
    ev.update_many(
        truth,
        score=[(n * 37 % 100) / 200 + (0.4 - shift) * y for n, y in enumerate(truth)],
        event_time=[9e8 + 60 * n for n in range(count)],
        slices={"c": [HOSTILE[n % 3] for n in range(count)]},
    )
    return ev


def classes() -> se.Evaluator:
    rows = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4], [0.5, 0.2, 0.3]]
    ev = se.Evaluator("multiclass", labels=["a", "b", "c"])
    ev.update_many(["a", "b", "c", "b"] * 9, proba=rows * 9)
    return ev


def numbers() -> se.Evaluator:
    ev = se.Evaluator("regression", metrics=["median_absolute_error"])
    return ev.update_many([1.0, 2.0, 3.0], [1.5, 1.0, 3.0])


def read(text: str) -> ElementTree.Element:
    """The element, without anything that a page would load, run or confuse."""
    root = ElementTree.fromstring(text)
    tags = {one.tag.removeprefix(SVG) for one in root.iter()}
    assert tags <= {"svg", "title", "desc", "g", "rect", "path", "text"}
    assert not any(name in one.attrib for one in root.iter() for name in ("id", "href", "onload"))
    assert not re.search(r"\bnan\b|\binf\b", " ".join(re.findall(r'[dxy]="([^"]*)"', text)))
    return root


def texts(root: ElementTree.Element) -> list[str]:
    return [one.text or "" for one in root.iter(f"{SVG}text")]


def test_every_display_is_an_element_with_its_axes_and_legend() -> None:
    drawn: set[type[Mark]] = set()
    shown = [
        *available_displays(scored(), intervals=0.9, reference=scored(0.3)),
        *available_displays(classes(), reference=classes()),
        *available_displays(numbers(), names=["residuals", "actual_vs_predicted"]),
    ]
    assert {name for name, display, _ in shown if display} == set(DISPLAYS)
    for name, display, _ in shown:
        if display is None:
            continue
        picture = display.picture
        root = read(draw(picture))
        drawn |= {type(mark) for mark in picture.marks}
        named = [mark.name for mark in picture.marks if getattr(mark, "name", "")]
        assert {picture.x.label, picture.y.label, *named} - {""} <= {*texts(root)}, name
        assert (root.get("role"), root[0].text) == ("img", picture.title)
        assert root[1].text == picture.description()
    empty = SeriesDisplay.of_rows({"a": []}, "f1").picture
    assert "undefined" in " ".join(texts(read(draw(empty))))
    assert drawn | {type(mark) for mark in empty.marks} == set(_DRAWN)


def points(root: ElementTree.Element, color: str) -> list[tuple[float, float]]:
    """Those of the first line of a colour, as shares of the axes from the lower left."""
    axes = root.find(f".//{SVG}svg")
    assert axes is not None
    width, height = float(axes.get("width", "")), float(axes.get("height", ""))
    path = next(one for one in axes.iter(f"{SVG}path") if one.get("stroke") == color)
    pairs = re.findall(r"[ML]([-\d.]+) ([-\d.]+)", path.get("d", ""))
    return [(float(x) / width, 1 - float(y) / height) for x, y in pairs]


def test_lines_are_where_their_values_are() -> None:
    x, y = np.array([0.0, 0.25, 0.5, 1.0]), np.array([0.0, 0.5, math.nan, 1.0])
    look = Axis("x", (0.0, 1.0)), Axis("y", (0.0, 1.0))
    line = Line(x, y, "<i>")
    found = points(read(draw(Picture("t", *look, (line,)))), line.color)
    assert np.allclose(found, [(0.0, 0.0), (0.25, 0.5), (1.0, 1.0)], atol=0.002)
    steps = Line(x[:2], y[:2], steps=True)
    found = points(read(draw(Picture("t", *look, (steps,)))), steps.color)
    assert np.allclose(found, [(0, 0), (0.25, 0), (0.25, 0.5)], atol=0.002)


def test_bars_begin_at_zero_and_cells_have_their_shade() -> None:
    bars = Bars(np.array([0.0, 1.0, 2.0]), np.array([1.0, 4.0]))
    text = draw(Picture("t", Axis("x", (0.0, 2.0)), Axis("y", (0.0, 4.0)), (bars,)))
    heights = [float(b) - float(a) for a, b in re.findall(r"([\d.]+)V[\d.]+H[\d.]+V([\d.]+)", text)]
    assert heights == [0.0, 0.0]
    cut = [(float(a), float(b)) for a, b in re.findall(r" ([\d.]+)V([\d.]+)H", text)]
    (low, high), (_, highest) = cut
    assert (low - high) * 4 == pytest.approx(low - highest, abs=0.5)
    ends = (-0.5, 1.5)
    cells = Heatmap(np.array([[1.0, 0.5], [0.0, 0.25]]), (("9", "8"), ("7", "6")))
    text = draw(Picture("t", Axis("x", ends, ()), Axis("y", ends, (), reverse=True), (cells,)))
    assert re.findall(r'fill-opacity="([\d.]+)"', text) == ["0.60", "0.30", "0.00", "0.15"]


def test_text_of_a_stream_is_text() -> None:
    ev = se.Evaluator("multiclass")
    ev.update_many(HOSTILE, HOSTILE[1:] + HOSTILE[:1])
    for name, display, reason in available_displays(ev, names=["confusion"]):
        root = read(draw(display.picture))
        assert (len(draw(display.picture)) < 40_000, name, reason) == (True, "confusion", "")
        assert "<b>&amp;\"'" in texts(root)
    axis = Axis(HOSTILE[0] * 50)
    read(draw(Picture(HOSTILE[1], axis, axis, (Line(np.zeros(1), np.zeros(1), HOSTILE[4]),))))


@pytest.mark.parametrize("ends", [(-1.7e308, 1.7e308), (0.0, 5e-324), (1e15, 1e15 + 1), (3.0, 3.0)])
def test_scores_of_any_size(ends: tuple[float, float]) -> None:
    ev = se.Evaluator().update_many([True, False] * 2, score=[*ends, *ends])
    for _, display, _ in available_displays(ev):
        if display is not None:
            read(draw(display.picture))


@pytest.mark.parametrize(
    ("starts", "values"),
    [
        ([datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)], [0.5]),
        ([datetime(2026, 3, 1, 0, 0, second, tzinfo=UTC) for second in range(3)], [0.5, 0.5]),
        ([datetime(2020 + n, 1, 1, tzinfo=UTC) for n in range(7)], [math.nan] * 6),
        ([0, 1_000_000_000], [1.0]),
    ],
)
def test_panes_of_any_time(starts: list[datetime | int], values: list[float]) -> None:
    ends = [one if isinstance(one, int) else one.isoformat() for one in starts]
    rows = [
        SeriesRow(start, end, value, "", 3, None)  # type: ignore[arg-type]
        for (start, end), value in zip(itertools.pairwise(ends), values, strict=True)
    ]
    found = texts(read(draw(SeriesDisplay.of_rows(rows, "f1").picture)))
    assert len([text for text in found if re.search(r"\d", text)]) >= 2


def test_several_evaluators_share_a_picture() -> None:
    """A line of each, named with its area, and what they are compared with once."""
    both = {"old": scored(), "new": scored(0.3)}
    for name, kind in DISPLAYS.items():
        if not kind.several:  # type: ignore[attr-defined]
            continue
        picture = kind.computed(both).picture  # type: ignore[attr-defined]
        lines = picture.lines()
        assert [line.name.split(" (")[0] for line in lines] == ["old", "new"], name
        assert len({line.color for line in lines}) == 2
        compared = [mark for mark in picture.marks if getattr(mark, "color", "") == MUTED]
        assert len(compared) == (name not in ("pr_gain", "series"))
    alone = DISPLAYS["roc"].computed(both["new"]).picture.lines()[0]  # type: ignore[attr-defined]
    overlaid = DISPLAYS["roc"].computed(both).picture.lines()[1]  # type: ignore[attr-defined]
    assert np.array_equal(alone.y, overlaid.y)
    assert f"AUC = {both['new']['roc_auc']:.2f}" in overlaid.name
    several = {"old": classes(), "new": classes()}
    looks = [(line.name, line.color, line.style) for line in _lines("det", several)]
    assert [name for name, _, _ in looks] == [f"{m}, {c}" for m in several for c in "abc"]
    assert [look[1] for look in looks[:3]] == [look[1] for look in looks[3:]]
    assert {look[2] for look in looks[:3]} != {look[2] for look in looks[3:]}
    assert [line.name.split(" (")[0] for line in _lines("roc", several)] == [
        f"{model}, macro average" for model in several
    ]
    with pytest.raises(se.InputError, match="expected at most 20 lines in a picture, got 24"):
        _lines("det", {f"m{n}": classes() for n in range(8)})


def _lines(name: str, sources: dict[str, se.Evaluator]) -> list[Line]:
    found: list[Line] = DISPLAYS[name].computed(sources).picture.lines()  # type: ignore[attr-defined]
    return found


def test_a_comparison_has_what_models_share() -> None:
    pytest.importorskip("matplotlib")
    c = se.Comparison()
    scores = {"champion": [0.9, 0.6, 0.4, 0.1], "challenger": [0.9, 0.1, 0.4, 0.1]}
    c.update_many([True, False, True, False], score=scores)
    display = c.plot("roc", intervals=None)
    assert [line.get_label() for line in display.lines_] == [
        "champion (AUC = 0.75)",
        "challenger (AUC = 1.00)",
    ]
    remedy = r"got 'confusion'; c\['champion'\]\.plot\('confusion'\) draws it of one model"
    with pytest.raises(se.InputError, match=f"which have a line of each model, {remedy}"):
        c.plot("confusion")
    assert c.total.plot("det").ax_.get_lines()


def test_without_matplotlib(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the base installation draws, and what the rest says."""
    for package in ("matplotlib", "plotly"):
        monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.delitem(sys.modules, f"streameval.plots.with_{package}", raising=False)
        monkeypatch.delattr(plots, f"with_{package}", raising=False)
    ev = se.Evaluator().update_many([True, False, True, False], score=[0.9, 0.6, 0.4, 0.1])
    display: Any = ev.plot("roc", intervals=0.9, params={"drop_intermediate": False})
    assert display.ax_ is None
    assert display._repr_png_() is None
    assert display._repr_html_() == display.to_svg()
    for name in ("a.svg", "a.html"):
        display.save(name)
    needs = "needs the package 'matplotlib', which is not installed; run: pip install"
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: display.save("a.png"), f"a picture in .png (not in .svg or .html) {needs}"),
        (lambda: ev.plot("roc", color="k"), f"plotting {needs} 'streameval[plots]'"),
        (lambda: ev.plot("roc", ax=1), f"plotting {needs} 'streameval[plots]'"),
        (display.plot, f"plotting {needs} 'streameval[plots]'"),
        (display.to_plotly, "a figure of plotly needs the package 'plotly'"),
    ]
    for call, message in calls:
        with pytest.raises(se.MissingExtraError, match=re.escape(message)):
            call()
    assert {file.name for file in here.iterdir()} == {"a.svg", "a.html"}
    root = read((here / "a.svg").read_text("utf-8"))
    assert root.find(f"{SVG}rect") is not None  # on white, whatever shows it
    assert (here / "a.html").read_text("utf-8").startswith("<!DOCTYPE html>")
