"""Rules of ``--fail-if``: bounds beyond which a command exits with code 4, parsed and judged."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import typer

from streameval.cli.options import metric_calls
from streameval.cli.streams import GATE_FAILED, say
from streameval.errors import InputError, MetricError, OptionError, did_you_mean, shown
from streameval.evaluator.changes import change
from streameval.evaluator.comparison import Comparison, ComparisonView, Difference, Evaluation
from streameval.evaluator.reports import number, weight
from streameval.evaluator.slices import SliceKey, slice_name
from streameval.evaluator.view import View
from streameval.metrics.registry import call_name, find
from streameval.metrics.undefined import json_number
from streameval.records.spec import Dimensions
from streameval.uncertainty.interval import DEFAULT_LEVEL, Interval

SUPPORT = "support"
"""In place of a metric: the weight of the events."""

_SHOWN = 5
"""Further values of one line."""

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    # As the service writes the bounds of alerts.
    "below": operator.lt,
    "above": operator.gt,
}
_ENDS = ("low", "high", "p_value")

_RULE = re.compile(
    r"""\s*
    (?:(?P<wrong>.*?\S)\s+)??
    (?:slice\.(?P<slice>.*?\S)\s+)?
    (?:model\.(?P<model>.*?\S)\s+|(?P<difference>difference)(?:\.(?P<of>.*?\S))?\s+)?
    (?P<metric>\S+?)(?:\.(?P<end>[A-Za-z]\w*))?
    (?:\s*(?P<sign><=|>=|<|>)\s*|\s+(?P<word>below|above)\s+)
    (?P<bound>\S*)\s*""",
    re.DOTALL | re.VERBOSE,
)


class Rule(NamedTuple):
    """A bound; a command fails if one of the values that it selects is beyond it."""

    text: str
    metric: str
    """A name of the registry, or :data:`SUPPORT`."""
    params: Mapping[str, Any]
    end: str
    """``low`` or ``high`` of the interval, ``p_value`` of the test; empty for the value itself."""
    beyond: Callable[[float, float], bool]
    bound: float
    slice: str
    """Fields joined by ``+``, or the name of one slice; empty for all events."""
    model: str
    """Of several models the one that is judged; empty for each."""
    difference: bool
    """The difference is judged: from the first model, or from the state before."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the slices."""
        parts = re.split(r"(?<!\\), ", self.slice) if "=" in self.slice else self.slice.split("+")
        return tuple(part.partition("=")[0] for part in parts if part)

    def covers(self, key: SliceKey) -> bool:
        """Whether a slice is one of the rule's."""
        if "=" in self.slice:
            return slice_name(key) == self.slice
        return {name for name, _ in key} == set(self.fields)


def parse(text: str) -> Rule:
    """The rule that a text says; raises InputError, or MetricError for an unknown metric.

    >>> rule = parse("slice.country fbeta:beta=2.low < .6")
    >>> rule.slice, rule.metric, rule.params, rule.end, rule.bound
    ('country', 'fbeta', {'beta': 2}, 'low', 0.6)
    """
    option = f"--fail-if {shown(text)}"
    found = _RULE.fullmatch(text)
    if found is None:
        expected = f"a metric, one of {' '.join(_OPERATORS)}, and a number"
        got, remedy = "none of the signs after a metric", "write --fail-if 'f1 < 0.8'"
        raise InputError(option, expected=expected, got=got, remedy=remedy)

    def where(part: str) -> str:
        return f"{option}, character {found.start(part) + 1}"

    def check(part: str, expected: str, *near: str, fits: bool) -> None:
        if not fits:
            kind = found[part].partition(".")[0]
            remedy = "" if kind in near else did_you_mean(kind, near)
            raise InputError(where(part), expected=expected, got=shown(found[part]), remedy=remedy)

    paired, end = found["difference"] is not None, found["end"] or ""
    order = "slice.FIELD, then model.NAME or difference, then a metric"
    check("wrong", order, "slice", "model", "difference", fits=found["wrong"] is None)
    ends = _ENDS if paired else _ENDS[:2]
    words = f"{' or '.join(ends)} after the dot" + ("" if paired else ", as this is no difference")
    check("end", words, *ends, fits=end in ("", *ends))
    calls: Sequence[tuple[str, Mapping[str, Any]]] = [(SUPPORT, {})]
    if found["metric"] == SUPPORT:
        alone = "a metric, as support has no interval and no difference"
        check("metric", alone, fits=not (end or paired))
    else:
        try:
            calls = metric_calls(found["metric"]) or ()
            for name, _ in calls:
                find(name)
        except MetricError as error:
            raise MetricError(f"{where('metric')}: {error}") from None
        except InputError as error:
            raise error.of(where("metric")) from None
        check("metric", "one metric", fits=len(calls) == 1)
    try:
        bound = float(found["bound"])
    except ValueError:
        bound = math.nan
    check("bound", "a number", fits=math.isfinite(bound))
    beyond, model = _OPERATORS[found["sign"] or found["word"]], found["model"] or found["of"] or ""
    return Rule(text.strip(), *calls[0], end, beyond, bound, found["slice"] or "", model, paired)


class Reading(NamedTuple):
    """A value that a rule is about."""

    of: str
    """Which model and slice; empty for all events of the one model."""
    value: float
    support: float
    reason: str = ""
    """Why there is no value."""
    interval: Interval | Difference | None = None

    def number(self, end: str) -> float:
        """What is compared with a bound; nan where there is no such number."""
        return float(getattr(self.interval, end, math.nan)) if end else self.value

    def why(self) -> str:
        """Why there is no such number."""
        return self.reason or getattr(self.interval, "reason", "") or "there is no such number"


class Verdict(NamedTuple):
    """A rule, and every value that it is about."""

    rule: Rule
    readings: Sequence[Reading]

    def fails_on(self, one: Reading) -> bool:
        """Whether a value is beyond the bound, or cannot be judged."""
        found = one.number(self.rule.end)
        return math.isnan(found) or self.rule.beyond(found, self.rule.bound)

    @property
    def failed(self) -> list[Reading]:
        """The values that the rule fails on: the furthest beyond the bound first, nan last."""
        sign = -1 if self.rule.beyond(1, 0) else 1
        numbers = ((sign * one.number(self.rule.end), one) for one in self.readings)
        ordered = sorted(numbers, key=lambda pair: math.inf if pair[0] != pair[0] else pair[0])
        return [one for _, one in ordered if self.fails_on(one)]

    def line(self) -> str:
        """What failed, in one line."""
        (first, *others), rule = self.failed, self.rule
        words = "difference of " if rule.difference else ""
        words += call_name(rule.metric, rule.params) + (f" of {first.of}" if first.of else "")
        if math.isnan(first.number(rule.end)):
            words += f" cannot be judged: {first.why()}"
        else:
            words += f" is {number(first.value)}"
            low, high, p_value = map(first.number, _ENDS)
            words += "" if math.isnan(low) else f" [{low:.6g}, {high:.6g}]"
            words += "" if math.isnan(p_value) else f", p = {p_value:.4g}"
            words += "" if rule.metric == SUPPORT else f", support {weight(first.support)}"
        also = [(one.of, one.number(rule.end)) for one in others[:_SHOWN]]
        more = [f"{of} {'undefined' if n != n else number(n)}" for of, n in also]
        more += [f"{len(others) - _SHOWN:,} more"] if len(others) > _SHOWN else []
        return f"failed: {rule.text}: {words}" + (f"; also {', '.join(more)}" if more else "")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        values = []
        for one in self.readings:
            ends = {end: one.number(end) for end in _ENDS}
            values.append(
                {"of": one.of or "total", "value": json_number(one.value)}
                | {name: json_number(end) for name, end in ends.items() if not math.isnan(end)}
                | {"support": json_number(one.support), "passed": not self.fails_on(one)}
                | ({"reason": one.why()} if math.isnan(one.number(self.rule.end)) else {})
            )
        return {"rule": self.rule.text, "passed": not self.failed, "values": values}


@dataclass(slots=True)
class Gate:
    """The rules of a command, and how they were judged."""

    rules: tuple[Rule, ...]
    verdicts: list[Verdict] = field(default_factory=list)

    @classmethod
    def of(cls, texts: Sequence[str] | None) -> Gate:
        """The gate of an option; raises as :func:`parse`."""
        return cls(tuple(map(parse, texts or ())))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that have to be kept."""
        return tuple(rule.metric for rule in self.rules if rule.metric != SUPPORT)

    @property
    def needs_intervals(self) -> bool:
        """Whether the end of an interval is compared."""
        return any(rule.end for rule in self.rules)

    def check(
        self, slices: Dimensions, models: Sequence[str] = (), *, add: str, changes: bool = False
    ) -> None:
        """Raise InputError for a rule about slices, models or differences that there are not."""
        for rule in self.rules:
            option, joined = f"--fail-if {shown(rule.text)}", "+".join(rule.fields)
            paired = rule.difference and not changes
            known = models[1:] if paired else models
            if joined and set(rule.fields) not in map(set, slices):
                near = did_you_mean(joined, map("+".join, slices))
                remedy = near or f"{add} --slice {joined}"
                raise OptionError.requires(option, f"slices by {joined}", remedy=remedy)
            if (paired or rule.model) and not models:
                remedy = "`compare` has several, and `diff` the difference of two states"
                raise InputError(
                    option, expected="a rule of one model", got="one of several", remedy=remedy
                )
            if rule.model and rule.model not in known:
                expected, near = f"a model: {', '.join(known)}", did_you_mean(rule.model, known)
                raise InputError(option, expected=expected, got=shown(rule.model), remedy=near)
            if rule.end == "p_value" and changes:
                raise InputError(option, expected="low or high in diff", got="p_value")

    def judge(
        self,
        state: Evaluation,
        before: Evaluation | None = None,
        *,
        min_support: float | None = None,
        **tests: Any,
    ) -> None:
        """Read what the rules are about; where there is no value, a rule fails.

        `tests` are the level and the options of intervals and tests.
        """
        for rule in self.rules:
            least = min_support if rule.slice and min_support else 0
            # A support is nan where the value could not be read.
            found = [o for o in _readings(rule, state, before, tests) if not o.support < least]
            if not found:
                has = f"has a support of {least:g}" if least else "has events"
                has += " in both states" if rule.difference and before is not None else ""
                found = [Reading("", math.nan, 0, f"no slice {rule.slice} {has}")]
            self.verdicts.append(Verdict(rule, found))

    def judge_saved(
        self, state: Evaluation, before: Evaluation | None = None, **judged: Any
    ) -> None:
        """:meth:`judge` of states that were loaded; raises as :meth:`check`."""
        states: list[Evaluation] = [state] if before is None else [before, state]
        for one in states:
            models = one.models if isinstance(one, Comparison) else ()
            slices = tuple(map(tuple, one.options["slices"]))
            self.check(slices, models, add="evaluate with", changes=before is not None)
            for metric in self.metrics:
                find(metric, one.task)
        self.judge(state, before, **judged)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; empty without rules."""
        return {"gate": [one.to_dict() for one in self.verdicts]} if self.rules else {}

    def say(self) -> None:
        """Print a line for each rule that failed on the standard error."""
        for verdict in self.verdicts:
            if verdict.failed:
                say(verdict.line())

    def end(self) -> None:
        """Raise typer.Exit where a rule failed."""
        if any(verdict.failed for verdict in self.verdicts):
            raise typer.Exit(GATE_FAILED)


def _readings(
    rule: Rule, state: Evaluation, before: Any, tests: Mapping[str, Any]
) -> Iterator[Reading]:
    """The values that a rule is about."""
    paired = rule.difference and before is None
    changed = rule.difference and not paired
    shared = state.shared_events(before) if changed else ""
    for n, (model, evaluator) in enumerate(_models(state).items()):
        if rule.model not in ("", model) or (paired and n == 0):
            continue
        old = dict(_parts(rule, _models(before)[model])) if changed else {}
        for name, view in _parts(rule, state if paired else evaluator):
            if changed and name not in old:
                continue
            of = " of ".join(filter(None, (name, model)))
            try:
                if isinstance(view, ComparisonView):
                    options = {**tests, "level": tests.get("level") or DEFAULT_LEVEL, **rule.params}
                    found = view.difference(rule.metric, a=model, **options)
                    yield Reading(of, found.value, found.n, interval=found)
                else:
                    yield _value(rule, of, view, old.get(name), shared, tests)
            except MetricError as error:
                yield Reading(of, math.nan, math.nan, str(error))


def _models(state: Evaluation) -> Mapping[str, Any]:
    return state.evaluators if isinstance(state, Comparison) else {"": state}


def _parts(rule: Rule, state: Evaluation) -> Iterator[tuple[str, Any]]:
    """The total's view; or those of the rule's slices that hold events, by their names."""
    if not rule.slice:
        yield "", state.total
        return
    for key, view in state.slices().items():
        one = view[view.models[0]] if isinstance(view, ComparisonView) else view
        if rule.covers(key) and one.support:
            yield slice_name(key), view


def _value(
    rule: Rule, of: str, view: View, old: View | None, shared: str, tests: Mapping[str, Any]
) -> Reading:
    """The metric of a view, or with an `old` one its change."""
    if rule.metric == SUPPORT:
        return Reading(of, view.support, view.support)
    level = tests.get("level") or (DEFAULT_LEVEL if rule.end or old is not None else None)
    call, method = [(rule.metric, rule.params)], tests.get("method", "auto")
    (row,) = view.report(call, intervals=level, method=method)
    if old is not None:
        (earlier,) = old.report(call, intervals=level, method=method)
        found = change(rule.metric, earlier, row, shared).difference
        return Reading(of, found.value, row.support, interval=found)
    # Beside a value the reason says what was left out of it.
    value, reason = row.value, row.reason if math.isnan(row.value) else ""
    ends = (row.bounds.low, row.bounds.high) if row.bounds and not rule.end else ()
    if len({rule.beyond(end, rule.bound) for end in ends}) > 1:
        value, reason = math.nan, f"of joined scores: the exact value is in {row.bounds}"
    return Reading(of, value, row.support, reason, row.interval)
