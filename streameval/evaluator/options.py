"""The arguments of an evaluator: checked, turned into its parts, and read from a saved state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from streameval.errors import InputError, StateError, listed, shown
from streameval.evaluator.slices import Slicer, part_of
from streameval.evaluator.view import ViewContext
from streameval.events import time as clock
from streameval.events.binary import BinaryIntake
from streameval.events.event import Task
from streameval.events.multiclass import ClassIntake
from streameval.events.values import Label
from streameval.metrics.metric import undefined_number
from streameval.metrics.registry import find, metric_names
from streameval.states.state_set import StatePlan
from streameval.windows.cumulative import Cumulative
from streameval.windows.kinds import KINDS, kind_of, window_note
from streameval.windows.last import LAST
from streameval.windows.panes import PANES
from streameval.windows.window import WindowSpec


@dataclass(frozen=True, slots=True)
class Setup:
    """The parts of an evaluator that has seen nothing yet."""

    options: dict[str, Any]
    """Plain canonical data of all arguments, as a state file holds them."""
    question: ViewContext
    """How it answers; with the plan and the intake."""
    slicer: Slicer
    window: WindowSpec


def set_up(
    task: Task,
    *,
    positive: object,
    threshold: float,
    labels: Iterable[object] | None,
    metrics: Iterable[str] | None,
    bins: int,
    window: WindowSpec | None,
    slices: Iterable[str | Iterable[str]],
    max_slices: int,
    time_unit: str | None,
    undefined: float | None,
    temporal: bool,
) -> Setup:
    """Check the arguments of :class:`streameval.Evaluator`, which says what they mean.

    Raises:
        InputError: One of them is not what it should be.
        MetricError: An unknown metric.
    """
    if not isinstance(task, str) or task not in ("binary", "multiclass"):
        raise InputError("task", expected='"binary" or "multiclass"', got=shown(task))
    if not isinstance(bins, int) or isinstance(bins, bool) or not 1 <= bins <= 10_000:
        raise InputError("bins", expected="a number of bins from 1 to 10000", got=shown(bins))
    labels = None if labels is None else listed(labels, "labels", "a list of labels")
    if type(temporal) is not bool:
        raise InputError("temporal", expected="True or False", got=shown(temporal))
    names = None
    if metrics is not None:
        names = sorted({find(name, task).name for name in metric_names(metrics)})
    intake: BinaryIntake | ClassIntake = (
        BinaryIntake(positive, threshold, labels) if task == "binary" else ClassIntake(labels)
    )
    classes = intake.classes if isinstance(intake, ClassIntake) and intake.closed else None
    plan = _plan(task, names, bins, classes, temporal=temporal)
    spec: WindowSpec = Cumulative() if window is None else window
    if kind_of(spec) is None:
        # A number of events or a length is the usual mistake.
        likely = {int: LAST, str: PANES}.get(type(window))
        names = [f"{kind.spec.__name__}(...)" for kind in KINDS.values() if kind.sizes]
        raise InputError(
            "window",
            expected=f"{', '.join(names)} or None",
            got=shown(window),
            remedy=f"pass window=streameval.{likely.spec.__name__}({shown(window)})"
            if likely
            else "",
        )
    if plan.ordered and not spec.keeps_order:
        raise InputError(
            "temporal",
            expected="a window that keeps the order of events: Last(n), or none",
            got=type(spec).__name__,
            remedy="leave out temporal= and kappa_temporal",
        )
    options: dict[str, Any] = {
        "task": task,
        "metrics": names,
        "bins": bins,
        "temporal": plan.ordered,
        "undefined": None if undefined is None else undefined_number(undefined),
        "window": spec.to_options(),
    }
    notes: dict[str, Any] = {}
    if isinstance(intake, BinaryIntake):
        notes = {"positive": intake.positive, "threshold": intake.threshold}
        options.update(notes)
        options["labels"] = list(intake.labels) if intake.closed else None
    else:
        options["labels"] = list(intake.classes) if intake.closed else None
    known = isinstance(time_unit, str) and time_unit in clock.TIME_UNITS
    if time_unit is not None and not known:
        raise InputError("time_unit", expected="s, ms, us or ns", got=shown(time_unit))
    if not isinstance(spec, Cumulative):
        notes["window"] = window_note(spec)
    slicer = Slicer(slices, max_slices)
    options["time_unit"] = time_unit
    options["slices"] = [list(names) for names in slicer.dimensions]
    options["max_slices"] = max_slices
    return Setup(options, ViewContext(plan, intake, undefined, notes, names), slicer, spec)


def _plan(
    task: Task,
    names: list[str] | None,
    bins: int,
    labels: tuple[Label, ...] | None,
    *,
    temporal: bool,
) -> StatePlan:
    if names is None:
        return StatePlan.everything(task, bins, labels=labels, temporal=temporal)
    states = {state for name in names for state in find(name, task).states}
    return StatePlan.for_states(task, states, bins, labels=labels, temporal=temporal)


_PARTS = ("options", "window", "timeline", "slices", "slices_overflowed", "negative")

_OPTION_TYPES: dict[str, tuple[type, ...]] = {
    "task": (str,),
    "positive": (str, int),
    "threshold": (float, int),
    "labels": (list, type(None)),
    "metrics": (list, type(None)),
    "bins": (int,),
    "temporal": (bool,),
    "undefined": (float, int, type(None)),
    "window": (dict,),
    "time_unit": (str, type(None)),
    "slices": (list,),
    "max_slices": (int,),
}


def checked_options(data: dict[str, Any]) -> dict[str, Any]:
    """The constructor's options of a saved state, their types checked."""
    options = part_of(data.get("options") if isinstance(data, dict) else data, "options")
    wanted = set(_OPTION_TYPES)
    parts = set(_PARTS)
    task = options.get("task")
    if isinstance(task, str) and task == "multiclass":  # an array is compared item by item
        wanted -= {"positive", "threshold"}
        parts -= {"negative"}
    if set(data) != parts:
        raise StateError(f"expected the parts {sorted(parts)}, got {shown(sorted(data))}")
    if set(options) != wanted:
        raise StateError(f"options: expected {sorted(wanted)}, got {shown(sorted(options))}")
    for name, value in options.items():
        wrong = isinstance(value, bool) != (name == "temporal")
        if wrong or not isinstance(value, _OPTION_TYPES[name]):
            raise StateError(f"options.{name}: got {shown(value)}, which is of the wrong type")
    for name in ("labels", "metrics"):
        for item in options[name] or ():
            if not isinstance(item, (str, int)) or (name == "metrics" and type(item) is not str):
                raise StateError(f"options.{name}: got {shown(item)} in the list")
    for item in options["slices"]:
        if not isinstance(item, list) or not all(isinstance(name, str) for name in item):
            raise StateError(f"options.slices: expected lists of names, got {shown(item)}")
    return options
