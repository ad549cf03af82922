"""Sums over the epochs of a fading window in whole units, kept current by each event."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from streameval.errors import InputError, StateError
from streameval.events.event import EventFields
from streameval.events.values import Label
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.class_scores import ClassScores
from streameval.states.probability import ProbabilitySums
from streameval.states.ranking.score_groups import ScoreGroups
from streameval.states.ranking.wide_ranking import WideRanking, new_ranking
from streameval.states.registry import STATES
from streameval.states.score_index import ScoreIndex
from streameval.states.state_set import StatePlan

_MOST_CLASSES = 128  # whose rankings are kept: each event changes them all
# Epochs from the base to the oldest, beyond which sums are divided by a power of two; and beyond
# which sums are made anew that cannot be divided.
_STEP, _MOST_EPOCHS = 16, 192


class WideClassScores:
    """One-vs-rest pairs as :class:`ClassScores` has them, of weights of any size."""

    __slots__ = ("_rankings", "declared", "total")

    exact = True

    def __init__(self, declared: tuple[Label, ...] | None = None) -> None:
        self.declared = declared
        self.total = 0
        self._rankings: dict[Label, WideRanking] = {}

    @property
    def whole(self) -> WideClassScores:
        """The columns that areas are computed from."""
        return self

    @property
    def labels(self) -> list[Label]:
        """True classes, and columns with a score other than 0, ascending."""
        return sorted(
            label
            for label, ranking in self._rankings.items()
            if ranking.totals[1] or any(score for score, _, _ in ranking.groups())
        )

    @property
    def classes(self) -> list[Label]:
        """The declared classes, or all labels, ascending."""
        return self.labels if self.declared is None else sorted(self.declared)

    def true_count(self, label: Label) -> int:
        """The weight of the events of one true class."""
        return self._rankings[label].totals[1] if label in self._rankings else 0

    def one_vs_rest_wins(self, column: Label) -> int:
        """Twice the weight of the pairs that a class wins over all others in its column."""
        return self._rankings[column].twice_u if column in self._rankings else 0

    def mean_share(self) -> float:
        """nan: the mean follows from the wins."""
        return math.nan

    def _learn(self, labels: Iterable[Label]) -> None:
        """Begin the columns of labels that are new; raises InputError for too many."""
        new = {label for label in labels if label not in self._rankings}
        if len(self._rankings) + len(new) > _MOST_CLASSES:
            raise InputError("proba", expected=f"at most {_MOST_CLASSES} classes", got="more")
        for label in new:
            self._rankings[label] = new_ranking()
            if self.total:
                self._change(label, "add_whole", False, 0.0, self.total)

    def _change(self, label: Label, method: str, *arguments: Any) -> None:
        """Call a ranking's method; a ranking of too small integers becomes the reference."""
        try:
            getattr(self._rankings[label], method)(*arguments)
        except OverflowError:
            reference = WideRanking()
            for score, positives, negatives in self._rankings[label].groups():
                reference.add_whole(True, score, positives)
                reference.add_whole(False, score, negatives)
            self._rankings[label] = reference
            getattr(reference, method)(*arguments)

    def add_whole(
        self, y_true: Label, proba: Mapping[Label, float], weight: int, y_pred: Label | None = None
    ) -> None:
        """Add an event, with a negative weight remove one that is there."""
        self._learn((y_true, *proba))
        self.total += weight
        for label in self._rankings:
            self._change(label, "add_whole", label == y_true, proba.get(label, 0.0), weight)

    def merge(self, other: ClassScores, times: int) -> None:
        """Add class scores of integer weights so many times; negative to remove them."""
        self._learn(other.labels)
        self.total += other.total * times  # type: ignore[assignment]
        for label in self._rankings:
            self._change(label, "add_groups", other.one_vs_rest_groups(label), times)

    def shift_right(self, bits: int) -> None:
        """Divide all weights, multiples of 2**bits, by 2**bits."""
        self.total >>= bits
        for ranking in self._rankings.values():
            ranking.shift_right(bits)

    def content(self) -> object:
        """What equal class scores have in common, after a check of the invariants."""
        for ranking in self._rankings.values():
            ranking._check()
            assert sum(ranking.totals) == self.total
        return self.total, {label: [*self._rankings[label].groups()] for label in self.labels}


class ScaledState:
    """A state with float weights that is made when an attribute is read that is not known yet."""

    __slots__ = ("_kind", "_known", "_made", "_make")

    def __init__(self, kind: type[Any], make: Callable[[], Any], known: dict[str, Any]) -> None:
        self._kind = kind
        self._make = make
        self._known = {"exact": False, "level": 0, "max_scores": None, **known}
        self._made: Any = None

    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:  # metrics check the class of an argument
        return self._kind

    def _state(self) -> Any:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __getattr__(self, name: str) -> Any:
        known = self._known
        return known[name] if name in known else getattr(self._state(), name)

    def __eq__(self, other: object) -> bool:
        return bool(self._state() == (other._state() if type(other) is ScaledState else other))

    __hash__ = None  # type: ignore[assignment]


def scaled_index(ranking: Any, units: int, bits: int) -> Any:
    """The score index of a ranking's weights over ``units * 2**bits``."""

    def make() -> ScoreIndex:
        groups = ScoreGroups(*ranking.scaled(units, bits))
        return ScoreIndex.from_state({"exact": False, **groups._asdict()})

    unit = units << bits
    negatives, positives = ranking.totals
    known = {
        "positives": positives / unit,
        "negatives": negatives / unit,
        "auc": ranking.auc,
        "twice_u": ranking.twice_u / unit**2,
        "distinct": ranking.distinct,
    }
    return ScaledState(ScoreIndex, make, known)


SUMMED: dict[str, Callable[[StatePlan], Any]] = {
    "confusion": lambda plan: plan.confusion(),
    "index": lambda plan: WideRanking(),
    "probability": lambda plan: ProbabilitySums(plan.bins),
    "class_probability": lambda plan: ClassProbabilitySums(
        plan.bins, probabilities=plan.probabilities
    ),
    "class_scores": lambda plan: WideClassScores(plan.labels),
}
"""States whose sum over the epochs is kept current once it was read: what makes an empty one."""


class FadingSums:
    """States of all epochs together, in whole units of one of them: the reference.

    ``NativeFadingSums`` (``fading_sums.pyx``) is the compiled one of binary events, which may
    also hold events that wait for the state of their epoch.
    """

    # From one epoch to the next the unit doubles: an event that weighs u units of epoch e weighs
    # u·2^(e − base) here. Every number is an integer, so that an event adds to it, and an epoch
    # that is dropped is removed, without a trace: the same as a sum of all that are left.

    __slots__ = ("_bases", "_plan", "_states", "advanced_to", "oldest_held")

    waiting = 0

    def __init__(self, plan: StatePlan) -> None:
        self._plan = plan
        self._states: dict[str, Any] = {}
        self._bases: dict[str, int] = {}
        # The newest epoch when the last one that had faded out was removed.
        self.advanced_to: int | None = None
        self.oldest_held = 0

    def hold(self, number: int) -> None:
        """Note that something was counted in the state of an epoch; for compiled sums."""

    def allow(self, number: int, units: int) -> None:
        """Note how much one class of an epoch may still weigh; for compiled sums."""

    def keeps(self, name: str) -> bool:
        """Whether a state's sum is kept current."""
        return name in self._states

    def whole(self, name: str) -> Any:
        """A state's sum, which changes with the next event; None if it is not kept."""
        return self._states.get(name)

    def base(self, name: str) -> int:
        """The epoch in whose units a state's sum is; no epoch that is kept is older."""
        return self._bases[name]

    @property
    def distinct(self) -> int:
        """Number of distinct scores, if they are kept."""
        return self._states["index"].distinct if "index" in self._states else 0

    def begin(self, name: str, oldest: int, parts: Iterable[tuple[int, Any]]) -> bool:
        """Sum a state of all epochs, of whole weights; False if there are too many labels."""
        whole = SUMMED[name](self._plan)
        try:
            for number, part in parts:
                whole.merge(part, 1 << (number - oldest))
        except (InputError, StateError):
            return False
        self._states[name], self._bases[name] = whole, oldest
        return True

    def forget(self) -> None:
        """Drop all sums; each is made anew when it is next read."""
        self._states.clear()

    def rebase(self, oldest: int) -> None:
        """Keep the integers short, once all epochs before this one have been dropped."""
        for name, whole in list(self._states.items()):
            bits = oldest - self._bases[name]
            if bits > _STEP and hasattr(whole, "shift_right"):
                whole.shift_right(bits)
                self._bases[name] = oldest
            elif bits > _MOST_EPOCHS:
                del self._states[name]

    def count(self, event: EventFields, number: int, sign: int) -> None:
        """Count an event with the units that it weighs in its epoch, or (−1) remove it."""
        true, predicted, score, units = event
        task = self._plan.task_row
        try:
            for name, whole in self._states.items():
                weight = sign * units << number - self._bases[name]  # type: ignore[operator]
                if STATES[name].input == "labels":
                    if predicted is not None:
                        whole.add_whole(true, predicted, weight)
                elif score is None:
                    continue
                else:
                    whole.add_whole(*task.of_scores(true, predicted, score, weight))
        except InputError:
            self.forget()

    def drop(self, number: int, part: Callable[[str], Any]) -> None:
        """Remove an epoch; ``part`` gives its state of a name."""
        for name, whole in self._states.items():
            whole.merge(part(name), -1 << (number - self._bases[name]))

    def check_equal(self, other: Any, name: str) -> None:
        """Assert that another's sum of this state is the same."""
        mine, theirs = self.whole(name), other.whole(name)
        if name == "index":
            theirs._check()
            assert list(mine.groups()) == list(theirs.groups())
            assert (mine.totals, mine.twice_u) == (theirs.totals, theirs.twice_u)
        elif name == "class_scores":
            assert mine.content() == theirs.content()
        else:
            assert mine == theirs
