"""One row of the registry, and the checks of a metric's arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar, get_type_hints

import numpy as np

from streameval.errors import InputError, MetricError, did_you_mean, shown
from streameval.events.values import Label, is_number
from streameval.metrics.averages import Rule
from streameval.states.registry import STATES

BINARY = frozenset({"binary"})
MULTICLASS = frozenset({"multiclass"})
MULTILABEL = frozenset({"multilabel"})
REGRESSION = frozenset({"regression"})
BOTH = BINARY | MULTICLASS
PREDICTIONS = frozenset({"predictions"})
CLASS_PREDICTIONS = frozenset({"class_predictions"})
NOWHERE: frozenset[str] = frozenset()

DIRECTIONS = ("up", "down", "none")

LABEL_PARAMS = ("labels", "costs")
"""Parameters made of labels, which an evaluator translates to those that its states count."""

FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "proportion": "a share of independent events",
        "confusion": "a smooth function of the confusion's cells",
        "label_micro": "a function of the labels' counts added up",
        "label_samples": "a mean over events of a ratio of each one's labels",
        "label_mean": "a mean over labels of a function of each one's counts",
        "label_ranking": "a mean over events of a ranking, or a loss, of each one's labels",
        "auc": "AUC, or a linear function of it",
        "class_auc": "AUCs of the scores of several classes, averaged or pooled",
        "loss": "a mean of a loss of each event",
        "score": "a mean of scores or of probabilities",
        "error": "a mean of a function of each event's numbers, or its root",
        "fit": "a function of variances and covariances of true and predicted numbers",
        "calibration": "gaps between probabilities and frequencies, over bins",
        "bootstrap": "anything else that resampled events have too",
        "none": "a number without a sampling error, or one that depends on order",
    }
)
"""What kinds of numbers metrics are, by the name that rows have."""


def undefined_number(value: object) -> float:
    """The number to return in place of an undefined value; raises InputError."""
    if is_number(value):
        with suppress(OverflowError):  # an int beyond every float
            return float(value)
    raise InputError("undefined", expected="a number or None", got=shown(value))


_Row = TypeVar("_Row")


def row_named(
    kind: str, name: object, rows: Mapping[str, _Row], known: tuple[str, ...] = ()
) -> _Row:
    """The row of a name; MetricError where there is none, with the rows and what is `known` too."""
    if not isinstance(name, str) or name not in rows:
        near = did_you_mean(name.lower().replace(" ", "_"), rows) if isinstance(name, str) else ""
        there = ", ".join((*known, *rows))
        raise MetricError(f"no {kind} is called {shown(name)}; {near or f'there are {there}'}")
    return rows[name]


def check_parameters(name: str, given: Iterable[str], taken: Collection[str]) -> None:
    """Raise MetricError for a parameter that a metric, curve or rule does not take."""
    for parameter in given:
        if parameter not in taken:
            takes = ", ".join(taken) or "none"
            near = did_you_mean(parameter, taken)
            raise MetricError(
                f"{name} takes no parameter {shown(parameter)}; it takes {takes}"
                + (f"; {near}" if near else "")
            )


def call(name: str, function: Callable[..., Any], state: object, params: Mapping[str, Any]) -> Any:
    """Call a curve or cut-point; raises MetricError for a parameter that it does not take."""
    check_parameters(name, params, list(inspect.signature(function).parameters)[1:])
    _check_flags(function, params)
    return function(state, **params)


def _check_flags(function: Callable[..., Any], params: Mapping[str, Any]) -> None:
    taken = inspect.signature(function).parameters
    for name, value in params.items():
        if type(taken[name].default) is bool and not isinstance(value, (bool, np.bool_)):
            raise MetricError(f"{name}: expected True or False, got {shown(value)}")


def public_name(state_type: type) -> str:
    """The name of a state's class; the two classes of a score index have others of their own."""
    return state_type.__name__.removeprefix("Native").removeprefix("Reference")


def _kind_name(kind: Any) -> str:
    return " or ".join(map(public_name, getattr(kind, "__args__", (kind,))))


_NOTHING: Any = object()

_Function = TypeVar("_Function", bound=Callable[..., Any])


def of_states(function: _Function) -> _Function:
    """The function, raising MetricError where an argument is not the state that it reads."""

    @functools.wraps(function)
    def checked(state: Any = _NOTHING, /, *more: Any, **options: Any) -> Any:
        try:
            # The most frequent call: without options it takes half the time.
            if not more and not options:
                return function(state)
            if state is _NOTHING:
                return function(**options)
            return function(state, *more, **options)
        except Exception:
            _check_call(function, () if state is _NOTHING else (state, *more), options)
            raise

    return checked  # type: ignore[return-value]


def _check_call(
    function: Callable[..., Any], states: tuple[Any, ...], options: Mapping[str, Any]
) -> None:
    """Raises MetricError where an argument of a function of states is not such a state."""
    name, signature = function.__name__, inspect.signature(function)
    hints = get_type_hints(function)
    wanted = [
        hints[parameter.name]
        for parameter in signature.parameters.values()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        and parameter.default is parameter.empty
    ]
    several = zip(states, wanted, strict=False)
    if len(states) < len(wanted) or not all(isinstance(s, kind) for s, kind in several):
        kinds = " and ".join(_kind_name(kind) for kind in wanted)
        got = " and ".join(type(state).__name__ for state in states) or "nothing"
        raise MetricError(
            f"{name} is a function of {kinds}, got {got}; for labels and scores count "
            "them with streameval.Evaluator, then read it by name"
        ) from None
    check_parameters(name, options, list(signature.parameters)[len(wanted) :])


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric's row: name, function, the state that it reads, range and meaning.

    The function takes the state first (then the states of `also`, in that order) and everything
    else by keyword. It always takes ``undefined=``, returns a float, and returns
    :class:`~streameval.metrics.undefined.Undefined` where there is no value.

    >>> row = Metric(
    ...     name="share", function=lambda counts, undefined=None: 0.5, state="confusion",
    ...     definition="always one half",
    ... )
    >>> row.bind()("any state")
    0.5
    """

    name: str
    """As scikit-learn spells its scorer, where there is one."""
    function: Callable[..., float]
    """Called as ``function(state, undefined=None, **params)``; `fixed` is bound already."""
    state: str
    """The state that it reads; a name of :data:`~streameval.states.registry.STATES`."""
    definition: str
    """One line: what the number is."""
    tasks: frozenset[str] = BOTH
    """The tasks that have the metric: :data:`BINARY`, :data:`MULTICLASS` or :data:`BOTH`, or those
    without labels."""
    low: float = 0.0
    high: float = 1.0
    direction: str = "up"
    """``up``: larger is better; ``down``; ``none``: neither."""
    params: tuple[str, ...] = ()
    """What a caller may set by keyword, besides ``undefined``."""
    needs_positive: bool = False
    """The function takes ``positive=``: the label of the positive class."""
    shown: frozenset[str] = NOWHERE
    """The tasks whose report has the metric by default."""
    fixed: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Parameters that the name fixes, such as ``average="macro"``; `function` has them bound."""
    also: tuple[str, ...] = ()
    """Further states it reads, passed after `state`."""
    synonyms: tuple[str, ...] = ()
    """Other names in use, for the hint in an error."""
    general: Callable[..., float] | None = None
    """The function with parameters, if `function` takes none because it is fast."""
    rule: Rule | None = None
    """For a metric of one class, or its average over classes, how a class's value is computed."""
    average: str = "binary"
    """With `rule`: ``binary`` (one class), ``macro``, ``weighted``, ``samples`` (over events) or
    ``micro``, to which a weighted mean that equals the micro average belongs."""
    family: str = "bootstrap"
    """What kind of number it is, which decides its interval; a name of :data:`FAMILIES`."""

    @property
    def states(self) -> tuple[str, ...]:
        """Every state that the function takes, in the order of its arguments."""
        return (self.state, *self.also)

    @property
    def mean_of(self) -> Rule | None:
        """For a mean over classes, the rule of a class's value."""
        return self.rule if self.average in ("macro", "weighted") else None

    @property
    def needs_scores(self) -> bool:
        """Whether it reads a state of scores, or probabilities, rather than of labels."""
        return any(STATES[name].input == "scores" for name in self.states)

    @property
    def ordered(self) -> bool:
        """Whether it reads a state that depends on the order of events."""
        return any(STATES[name].ordered for name in self.states)

    def bind(
        self, *, positive: Label | None = None, undefined: float | None = None, **params: Any
    ) -> Callable[..., float]:
        """The metric as a function of its states alone; parameters are checked once, here.

        `positive` is ignored where the metric has none; `undefined` is a number in place of an
        undefined value. Raises MetricError for a parameter that the metric does not take, or no
        `positive` where it needs one.
        """
        check_parameters(self.name, params, self.params)
        function = self.function
        if params:
            function = self.general or function
            _check_flags(function, params)
        if self.needs_positive:
            if positive is None:
                raise MetricError(f"{self.name} is about one class: pass positive=...")
            params["positive"] = positive
        if undefined is not None:
            params["undefined"] = undefined_number(undefined)
        return functools.partial(function, **params) if params else function
