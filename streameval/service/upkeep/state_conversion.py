"""Stored states under other options: what can be kept, derived, or has to begin anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streameval.evaluator.comparison import Comparison, Evaluation
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.slices import slice_order
from streameval.service.store.valid_from import Dimensions
from streameval.states.confusion import ConfusionCounts
from streameval.states.registry import STATES
from streameval.states.score_index import ScoreIndex
from streameval.states.state_set import StatePlan, StateSet
from streameval.windows import Panes, window_spec


def conversion(
    blank: Evaluator, fresh: set[str], threshold: float | None, cut: int | None
) -> Callable[[Evaluation], Evaluation]:
    """What makes evaluators, all but fresh states and panes before a cut, like a blank one."""
    options, plan = blank.options, blank.plan
    names_of = {frozenset(names): names for names in dimensions(blank)}

    def step(evaluator: Evaluation) -> Evaluation:
        assert isinstance(evaluator, Evaluator)  # states of several models are not converted
        data = evaluator.to_state()
        first = _first_pane(window_spec(options["window"]), evaluator.newest, cut)

        def changed(state: dict[str, Any]) -> dict[str, Any]:
            for buckets in ("panes", "epochs"):
                if buckets in state:
                    rows = [r for r in state[buckets] if r.get("pane", first) >= first]
                    return {buckets: [{**r, "tally": state_set(r["tally"])} for r in rows]}
            return state_set(state)

        def state_set(state: dict[str, Any]) -> dict[str, Any]:
            before = StateSet.from_state(state, evaluator.plan)
            return _changed_states(before, plan, fresh, threshold)

        slices = []
        for one in data["slices"]:
            values = dict(one["key"])
            names = names_of.get(frozenset(values))
            if names is not None:
                key = [[name, values[name]] for name in names]
                slices.append({"key": key, "window": changed(one["window"])})
        slices.sort(key=lambda one: slice_order(tuple(map(tuple, one["key"]))))
        return Evaluator.from_state(
            {**data, "options": options, "window": changed(data["window"]), "slices": slices}
        )

    return step


def with_metrics(metrics: list[str] | None, evaluation: Evaluation) -> Evaluation:
    """A comparison of the same states whose evaluators are made for these metrics."""
    data = evaluation.to_state()
    for part in data["models"]:
        part["evaluator"]["options"]["metrics"] = metrics
    return Comparison.from_state(data)


def dimensions(evaluator: Evaluator) -> Dimensions:
    """The names of each kind of slice."""
    return tuple(map(tuple, evaluator.options["slices"]))


def _first_pane(spec: object, newest: int | None, cut: int | None) -> int:
    """The oldest pane that is kept; any number for a window without panes."""
    if not isinstance(spec, Panes) or newest is None:
        return 0
    oldest = newest // spec.pane_us - spec.retained + 1
    return oldest if cut is None else max(oldest, cut // spec.pane_us)


def state_sets(window: dict[str, Any]) -> list[dict[str, Any]]:
    """The state sets of a window's state, one for each pane or epoch."""
    rows = window.get("panes", window.get("epochs", [{"tally": window}]))
    return [row["tally"] for row in rows]


def _changed_states(
    before: StateSet, plan: StatePlan, fresh: set[str], threshold: float | None
) -> dict[str, Any]:
    """The written form of a state set under another plan; labels are derived at a threshold."""
    after = StateSet(plan).to_state()
    for name in plan.keeps - fresh:
        row = STATES[name]
        source = None
        if row.source is not None and (
            name not in before.plan.keeps or before.plan.bins != plan.bins
        ):
            source = getattr(before, row.source)
        if name == "confusion" and threshold is not None:
            after[name] = _confusion_at(before.index, threshold).to_state(occurring=True)
        elif name == "label_weights" and threshold is not None:
            # Of the same events as the derived counts.
            after[name] = before.form("score_weights")
        elif source is not None:
            after[name] = row.write(row.derive(source, plan))
        elif getattr(before, name) is not None:
            after[name] = before.form(name)
    return after


def _confusion_at(index: ScoreIndex, threshold: float) -> ConfusionCounts:
    """The confusion matrix of the scores of an index at a threshold."""
    counts = ConfusionCounts()
    groups = index.groups()
    above = groups.scores >= threshold
    for true, weights in ((1, groups.positives), (0, groups.negatives)):
        for predicted, rows in ((1, above), (0, ~above)):
            total = sum(weights[rows].tolist())
            if total:
                counts.update(true, predicted, total)
    return counts
