"""The arguments of an evaluator: checked, and read from a saved state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streameval.errors import InputError, StateError, shown
from streameval.evaluator.slices import part_of
from streameval.events import time as clock
from streameval.events.values import Label
from streameval.metrics.registry import find
from streameval.states.ranking.coarse_score import checked_limit
from streameval.states.registry import STATES, states_of
from streameval.states.state_set import StatePlan
from streameval.tasks.registry import TASKS, TaskName, one_of_tasks, task_names
from streameval.windows.cumulative import Cumulative
from streameval.windows.kinds import KINDS, kind_of, parse_window
from streameval.windows.last import LAST, Last
from streameval.windows.panes import PANES
from streameval.windows.replicated import Bootstrap, Replicated
from streameval.windows.window import WindowSpec


def check_arguments(
    task: object,
    bins: object,
    temporal: object,
    intervals: object,
    probabilities: object,
    time_unit: object,
) -> None:
    """Raise InputError where one of these arguments of the constructor is not of its values."""
    row = TASKS.get(task) if isinstance(task, str) else None
    if row is None or not row.evaluated:
        raise InputError("task", expected=one_of_tasks(), got=shown(task))
    if not isinstance(bins, int) or isinstance(bins, bool) or not 1 <= bins <= 10_000:
        raise InputError("bins", expected="a number of bins from 1 to 10000", got=shown(bins))
    for name, value in (
        ("temporal", temporal),
        ("intervals", intervals),
        ("probabilities", probabilities),
    ):
        if type(value) is not bool:
            raise InputError(name, expected="True or False", got=shown(value))
    known = isinstance(time_unit, str) and time_unit in clock.TIME_UNITS
    if time_unit is not None and not known:
        raise InputError("time_unit", expected="s, ms, us or ns", got=shown(time_unit))


def known_window(window: object) -> WindowSpec:
    """The specification of a window; raises InputError where the argument is none."""
    if isinstance(window, str) and (":" in window or window in KINDS):
        return parse_window(window)
    spec: Any = Cumulative() if window is None else window
    if kind_of(spec) is None:
        # A number of events or a length is the usual mistake.
        likely = {int: LAST, str: PANES}.get(type(window))
        try:
            if likely is not None:
                likely.spec(window)
        except InputError:
            likely = None
        names = [f"{kind.spec.__name__}(...)" for kind in KINDS.values() if kind.sizes]
        raise InputError(
            "window",
            expected=f"{', '.join(names)} or None",
            got=shown(window),
            remedy=f"pass window=streameval.{likely.spec.__name__}({shown(window)})"
            if likely
            else "",
        )
    known: WindowSpec = spec
    return known


def checked_window(window: object, plan: StatePlan) -> WindowSpec:
    """The specification of the windows, which every state of the plan can be kept in."""
    spec = known_window(window)
    if plan.max_scores is not None and kind_of(spec) is LAST:
        raise InputError(
            "max_scores",
            expected="another window",
            got=f"max_scores={plan.max_scores}, which conflicts with {spec}",
            remedy="leave out max_scores: the window keeps its n events anyhow",
        )
    if plan.ordered and not spec.keeps_order:
        raise InputError(
            "temporal",
            expected="a window that keeps the order of events: Last(n), or none",
            got=type(spec).__name__,
            remedy="leave out temporal= and kappa_temporal",
        )
    return spec


def replicated(spec: WindowSpec, bootstrap: object, plan: StatePlan) -> WindowSpec:
    """The specification with replicates of each window, where some are wanted."""
    if bootstrap is None:
        return spec
    if not isinstance(bootstrap, Bootstrap):
        raise InputError(
            "bootstrap",
            expected='Bootstrap(replicates=200, unit="user") or None',
            got=shown(bootstrap),
        )
    if isinstance(spec, Last):
        raise InputError(
            "bootstrap",
            expected="a window of which replicates hold the same time: none, Panes or Fading",
            got="Last(n), whose n events differ between replicates",
            remedy="conflicts with window=Last(...); use Panes",
        )
    if plan.ordered:
        raise InputError(
            "bootstrap",
            expected="metrics that do not depend on the order of events",
            got="kappa_temporal",
            remedy="conflicts with temporal= and kappa_temporal",
        )
    return Replicated(spec, bootstrap)


def plan_of(
    task: TaskName,
    names: list[str] | None,
    bins: int,
    declared: list[Label] | None,
    *,
    temporal: bool,
    max_scores: int | None,
    intervals: bool,
    probabilities: bool,
) -> StatePlan:
    """The states that the named metrics need; None: that all of the task's need."""
    # Labels that the task has fixed are no part of a plan.
    fixed = declared is None or TASKS[task].classes is not None
    labels = None if fixed else tuple(declared or ())
    states = None
    if names is not None:
        states = frozenset([state for name in names for state in find(name, task).states])
    limit = checked_limit(max_scores)
    given = task, states, bins, temporal, limit, intervals, probabilities
    registered = (*STATES.values(), *TASKS.values())
    known = _PLANS.get(given) if labels is None else None
    if known is not None and known[0] == registered:
        return known[1]
    if temporal and not any(row.ordered for row in states_of(task, STATES)):
        raise InputError(
            "temporal",
            expected="a task whose events have one label, for kappa_temporal",
            got=f"task={shown(task)}",
            remedy="leave out temporal=",
        )
    more: Any = {"labels": labels, "temporal": temporal, "intervals": intervals}
    more |= {"max_scores": limit, "probabilities": probabilities}
    if states is None:
        plan = StatePlan.everything(task, bins, **more)
    else:
        plan = StatePlan.for_states(task, states, bins, **more)
    if labels is None:
        if len(_PLANS) > _MOST_PLANS:
            _PLANS.clear()
        _PLANS[given] = registered, plan
    return plan


_MOST_PLANS = 100
_PLANS: dict[tuple[Any, ...], tuple[tuple[object, ...], StatePlan]] = {}
"""The plans without labels, each with the states and tasks that were registered when it was made:
to make one takes a third of the time of an evaluator."""

_PARTS = ("options", "window", "timeline", "slices", "slices_overflowed")

_OPTION_TYPES: dict[str, tuple[type, ...]] = {
    "task": (str,),
    "labels": (list, type(None)),
    "metrics": (list, type(None)),
    "bins": (int,),
    "temporal": (bool,),
    "undefined": (float, int, str, type(None)),
    "window": (dict,),
    "time_unit": (str, type(None)),
    "slices": (list,),
    "max_slices": (int,),
}
_LATER_OPTIONS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "intervals": ("True", lambda value: value is True),
    "probabilities": ("False", lambda value: value is False),
    "bootstrap": (
        "replicates and unit",
        lambda value: isinstance(value, dict) and set(value) == {"replicates", "unit"},
    ),
    "max_scores": ("a number", lambda value: type(value) is int),
}
"""Options of a later version, and what they are where they are set: else they are not written."""


def checked_options(data: dict[str, Any]) -> dict[str, Any]:
    """The constructor's options of a saved state, their types checked."""
    options = part_of(data.get("options") if isinstance(data, dict) else data, "options")
    name = options.get("task")
    # An unknown one is refused with the options.
    names = task_names()
    task = TASKS[name if isinstance(name, str) and name in names else names[0]]
    types = {**_OPTION_TYPES, **task.options}
    parts = {*_PARTS, *task.parts}
    if set(data) != parts:
        raise StateError(f"expected the parts {sorted(parts)}, got {shown(sorted(data))}")
    if set(options) - set(_LATER_OPTIONS) != set(types):
        raise StateError(f"options: expected {sorted(types)}, got {shown(sorted(options))}")
    for name, value in options.items():
        if name in _LATER_OPTIONS:
            words, accepts = _LATER_OPTIONS[name]
            if not accepts(value):
                raise StateError(
                    f"options.{name}: expected {words} or no such key, got {shown(value)}"
                )
            continue
        wrong = isinstance(value, bool) != (name == "temporal")
        if wrong or not isinstance(value, types[name]):
            raise StateError(f"options.{name}: got {shown(value)}, which is of the wrong type")
    for name in ("labels", "metrics"):
        for item in options[name] or ():
            if not isinstance(item, (str, int)) or (name == "metrics" and type(item) is not str):
                raise StateError(f"options.{name}: got {shown(item)} in the list")
    for item in options["slices"]:
        if not isinstance(item, list) or not all(isinstance(name, str) for name in item):
            raise StateError(f"options.slices: expected lists of names, got {shown(item)}")
    return options
