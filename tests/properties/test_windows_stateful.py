"""Random actions on windows with slices, against lists of every event."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import streameval as se
from streameval.errors import InputError, StateError
from tests.support.window_model import (
    Item,
    Model,
    columns,
    plain,
    same,
)

SPECS = [
    se.Last(1),
    se.Last(6),
    se.Panes("60s", "20s", "40s"),
    se.Panes("30s"),
    se.Panes("40s", "20s", "20s", retain="5m"),
    se.Panes("3m", "20s", "40s"),
    se.Fading("30s"),
    se.Fading(4),
]
COUNTRIES = st.sampled_from(["PT", "DE", "FR", "ES"])
STEPS = st.sampled_from([0, 0, 1, 7, 19, 20, 21, 45, 200, -1, -15, -39, -40, -41, -100])
SHARES = [{"a": 1.0}, {"a": 0.5, "b": 0.5}, {"b": 0.25, "c": 0.75}, {"a": 0.2, "b": 0.3, "c": 0.5}]
BINARY = st.tuples(st.booleans(), st.sampled_from([0.0, 0.25, 0.5, 0.50001, 1.0]), st.just(None))
MULTI = st.tuples(st.sampled_from("abc"), st.just(None), st.sampled_from(SHARES))
ASKED = {
    "binary": ("accuracy", "f1", "matthews_corrcoef", "roc_auc", "log_loss", "binormal_auc"),
    "multiclass": ("accuracy", "f1_macro", "cohen_kappa", "log_loss", "roc_auc_ovr"),
}


def agree(found: Any, fresh: se.Evaluator, names: Any, tolerance: float) -> None:
    """The same bits, or nearly the same value where a tolerance is given."""
    for name in names:
        mine, theirs = float(found[name]), float(fresh[name])
        if tolerance:
            assert same(mine, theirs, tolerance), (name, mine, theirs)
        else:
            assert repr(mine) == repr(theirs), (name, mine, theirs)


class WindowMachine(RuleBasedStateMachine):
    """One evaluator of any window, and lists that say what it should answer."""

    @initialize(
        spec=st.sampled_from(SPECS),
        task=st.sampled_from(["binary", "multiclass"]),
        most=st.sampled_from([2, 100]),
    )
    def open(self, spec: Any, task: Any, most: int) -> None:
        self.spec, self.task, self.most = spec, task, most
        self.timed = spec.needs_time
        self.ev = self.opened()
        self.model = Model(spec)
        self.home: dict[str, str] = {}
        self.now = 1000
        self.ever: list[Item] = []
        # Items by slice, in order of arrival: Last keeps n of each.
        self.slices: dict[str, list[Item]] = {}

    def opened(self) -> se.Evaluator:
        return se.Evaluator(
            task=self.task, window=self.spec, slices=("country",), max_slices=self.most,
            time_unit="s",
        )  # fmt: skip

    def item(self, drawn: tuple[Any, Any, Any], step: int, weight: int, country: str) -> Item:
        true, score, proba = drawn if (drawn[1] is None) == (self.task != "binary") else (
            (drawn[0] == "a", 0.25, None) if self.task == "binary" else ("b", None, SHARES[3])
        )  # fmt: skip
        self.now = max(self.now, self.now + step)
        when = self.now + min(0, step)
        return Item(true, score, proba, None, weight, when, {"country": country})

    def note(self, item: Item) -> None:
        if not self.model.add(item):
            return
        country = item.slices["country"]
        if country not in self.home:
            room = sum(home != "(other)" for home in self.home.values()) < self.most
            self.home[country] = country if room else "(other)"
        self.ever.append(item)
        mine = self.slices.setdefault(self.home[country], [])
        mine.append(self.model.items[-1])
        if isinstance(self.spec, se.Last):
            del mine[: -self.spec.n]

    drawn = st.tuples(BINARY | MULTI, STEPS, st.sampled_from([1, 1, 1, 2, 5]), COUNTRIES)

    @rule(drawn=drawn)
    def update(self, drawn: Any) -> None:
        item = self.item(*drawn)
        self.ev.update(**item.arguments(timed=self.timed, sliced=True))
        self.note(item)

    @rule(drawn=st.lists(drawn, min_size=1, max_size=9))
    def update_many(self, drawn: list[Any]) -> None:
        items = [self.item(*each) for each in drawn]
        self.ev.update_many(**columns(items, timed=self.timed, sliced=True))
        for item in items:
            self.note(item)

    @precondition(lambda self: self.ever and (self.timed or isinstance(self.spec, se.Last)))
    @rule(place=st.integers(0, 40))
    def revert(self, place: int) -> None:
        # Sums know weights and not events, so of a heavier event of the same score
        # a part may be taken out: only events that were added and not yet reverted are used.
        candidates = self.model.items if self.timed else self.ever
        if not candidates:
            return
        item = candidates[-1 - place % len(candidates)]
        lists = [self.model.items, self.slices[self.home[item.slices["country"]]]]
        found = [self.newest_like(item, items) for items in lists]
        arguments = item.arguments(timed=self.timed, sliced=True)
        if None in found or not self.remembered(item):
            self.refused(self.ev.revert, **arguments)
            return
        self.ev.revert(**arguments)
        for items, where in zip(lists, found, strict=True):
            del items[where]

    def newest_like(self, item: Item, items: list[Item]) -> int | None:
        """A window does not tell events apart that differ in their slices alone."""
        wanted = item.arguments(timed=self.timed)
        return max(
            (n for n, other in enumerate(items) if other.arguments(timed=self.timed) == wanted),
            default=None,
        )

    def remembered(self, item: Item) -> bool:
        if isinstance(self.spec, se.Last):
            return True
        assert self.model.latest is not None
        if isinstance(self.spec, se.Panes):
            pane = self.spec.pane_us // 10**6
            return item.time // pane >= (self.model.latest - self.spec.retain_us // 10**6) // pane
        span = self.spec.span // 10**6
        return item.time // span > self.model.latest // span - 64

    def refused(self, call: Any, error: type[Exception] = InputError, **given: Any) -> None:
        before = self.ev.to_bytes()
        with pytest.raises(error):
            call(**given)
        assert self.ev.to_bytes() == before

    @rule(country=COUNTRIES, step=STEPS)
    def revert_what_never_came(self, country: str, step: int) -> None:
        event: dict[str, Any] = {"y_true": True, "score": 0.77}
        if self.task == "multiclass":
            event = {"y_true": "z", "proba": {"z": 1.0}}
        if self.timed:
            event["event_time"] = self.now + step
        self.refused(self.ev.revert, **event, slices={"country": country})

    @rule(bad=st.sampled_from(["weight", "slices", "y_true", "event_time"]), drawn=drawn)
    def refuse(self, bad: str, drawn: Any) -> None:
        item = self.item(*drawn)
        self.now = max(1000, self.model.latest or 0) if self.timed else self.now
        if bad == "event_time" and not self.timed:
            return
        wrong = {bad: "noon" if bad == "event_time" else -1.5}
        self.refused(self.ev.update, **item.arguments(timed=self.timed, sliced=True) | wrong)
        given = columns([item] * 2, timed=self.timed, sliced=True)
        self.refused(self.ev.update_many, **given | {bad: 7})

    @rule(drawn=st.lists(drawn, min_size=1, max_size=6))
    def merge(self, drawn: list[Any]) -> None:
        if self.most < 100:
            return  # which slices have room would depend on who comes first
        items = [self.item(*each) for each in drawn]
        other = self.opened()
        other.update_many(**columns(items, timed=self.timed, sliced=True))
        theirs = other.to_bytes()
        if not self.timed and self.model.items:
            self.refused(self.ev.merge, StateError, other=other)
            return
        if not self.timed and self.ever and (self.model.count or self.slices):
            return  # everything was taken back, yet slices and the count go on
        self.ev.merge(other)
        assert other.to_bytes() == theirs
        if not self.timed:
            for item in items:
                self.note(item)
            return
        shard = Model(self.spec)
        kept = [item for item in items if shard.add(item)]
        assert shard.latest is not None
        latest = self.model.latest
        self.model.latest = shard.latest if latest is None else max(latest, shard.latest)
        for name, count in shard.arrived.items():
            self.model.arrived[name] += count
        for item in kept:
            country = item.slices["country"]
            self.ever.append(item)
            self.model.items.append(item)
            self.home.setdefault(country, country)
            self.slices.setdefault(country, []).append(item)

    @rule()
    def save_and_load(self) -> None:
        data = self.ev.to_bytes()
        self.ev = se.from_bytes(data)
        assert self.ev.to_bytes() == data

    @rule()
    def read(self) -> None:
        self.ev.report()
        self.ev.slice_report("accuracy")

    @invariant()
    def answers_are_those_of_the_lists(self) -> None:
        if not hasattr(self, "ev"):
            return
        tolerance = 1e-9 if isinstance(self.spec, se.Fading) else 0.0
        self.compare(self.ev, self.model.inside(), tolerance, ASKED[self.task])
        names = {key[0][1] for key in self.ev.slices()}
        assert names == set(self.slices)
        for key, view in self.ev.slices().items():
            inside = self.model.inside(self.slices[str(key[0][1])])
            self.compare(view, inside, tolerance, ASKED[self.task][:1] + ASKED[self.task][3:4])
        if isinstance(self.spec, se.Panes):
            assert self.ev.arrivals == self.model.arrived
        for name, count in self.ev.retained.items():
            if f"{name}_at_most" in self.ev.retained:
                assert count <= self.ev.retained[f"{name}_at_most"]

    def compare(self, asked: Any, inside: Any, tolerance: float, names: tuple[str, ...]) -> None:
        # What weighs next to nothing beside the rest is lost in rounding.
        fresh = plain(self.task, [(item, weight) for item, weight in inside if weight > 1e-30])
        if inside and fresh.report(["accuracy"]).rows[0].support:
            agree(asked, fresh, names, tolerance)

    def teardown(self) -> None:
        if hasattr(self, "ev"):
            self.ev._check()


TestWindows = WindowMachine.TestCase
TestWindows.settings = settings(
    max_examples=int(os.environ.get("STREAMEVAL_STATEFUL_EXAMPLES", "60")),
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow],
    # Shrinking 25 steps takes minutes, and a failure prints its steps anyway.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
