"""Sums over the epochs of a fading window in whole units, kept current by each event."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from streameval.errors import InputError
from streameval.events.event import EventFields
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.probability import ProbabilitySums
from streameval.states.ranking.wide_ranking import WideClassScores, WideRanking
from streameval.states.registry import STATES
from streameval.states.state_set import StatePlan

_MOST_EPOCHS = 256
"""Epochs from the base to the newest, beyond which all is summed anew, in smaller integers."""

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
    """States of all epochs together, in whole units of one of them.

    From one epoch to the next the unit doubles: an event that weighs u units of epoch e weighs
    u·2^(e − base) here. Every number is an integer, so that an event adds to it, and an epoch
    that is dropped is taken out, without a trace: the same as a sum of all that are left.

    Args:
        plan: What the epochs keep.

    Attributes:
        base: The epoch whose units these are; no epoch that is kept is older.
        advanced_to: The newest epoch when the last one that had faded out was taken out; None
            before the first.

    >>> from streameval.states.confusion import ConfusionCounts
    >>> sums = FadingSums(StatePlan.everything("binary"))
    >>> sums.begin("confusion", 7, [(8, ConfusionCounts.from_matrix([[3, 0], [0, 1]], [0, 1]))])
    True
    >>> sums.count((1, 0, 0.25, 5), 9, 1)
    >>> sums.whole("confusion").to_array().tolist()
    [[6, 0], [20, 2]]
    """

    __slots__ = ("_plan", "_states", "advanced_to", "base")

    def __init__(self, plan: StatePlan) -> None:
        self._plan = plan
        self._states: dict[str, Any] = {}
        self.base = 0
        self.advanced_to: int | None = None

    def keeps(self, name: str) -> bool:
        """Whether a state's sum is kept current."""
        return name in self._states

    def whole(self, name: str) -> Any:
        """A state's sum, which changes with the next event; None where it is not kept."""
        return self._states.get(name)

    @property
    def distinct(self) -> int:
        """Number of distinct scores, where they are kept."""
        ranking: WideRanking | None = self._states.get("index")
        return 0 if ranking is None else ranking.distinct

    def begin(self, name: str, oldest: int, parts: Iterable[tuple[int, Any]]) -> bool:
        """Sum a state of all epochs, and keep it current from now on, unless it is too large.

        Args:
            name: One of :data:`SUMMED`.
            oldest: The oldest epoch that is kept.
            parts: The epochs, each with its state; all weights are whole.
        """
        if not self._states:
            self.base = oldest
        whole = SUMMED[name](self._plan)
        try:
            whole.add_multiples((part, 1 << (number - self.base)) for number, part in parts)
        except InputError:
            return False  # more labels than are kept current, or than one state takes
        self._states[name] = whole
        return True

    def forget(self) -> None:
        """Keep nothing current, until it begins again."""
        self._states.clear()

    def count(self, event: EventFields, number: int, sign: int) -> None:
        """Count an event with the units that it weighs in its epoch, or (−1) take it back."""
        if not self._states:
            return
        bits = number - self.base
        if bits > _MOST_EPOCHS:
            self.forget()
            return
        true, predicted, score, weight = event
        weight = sign * weight << bits  # type: ignore[operator]
        task = self._plan.task_row
        try:
            for name, whole in self._states.items():
                if STATES[name].fed_by == "labels":
                    if predicted is not None:
                        whole.add_whole(true, predicted, weight)
                elif score is None:
                    continue
                else:
                    whole.add_whole(*task.of_scores(true, predicted, score, weight))
        except InputError:
            self.forget()

    def drop(self, number: int, part: Callable[[str], Any]) -> None:
        """Take out an epoch, given as the function from the name of a state to its part in it."""
        for name, whole in self._states.items():
            whole.add_multiples([(part(name), -1 << (number - self.base))])

    def check_equal(self, other: Any, name: str) -> None:
        """Assert that another's sum of this state is the same."""
        mine, theirs = self.whole(name), other.whole(name)
        if name == "index":
            assert list(mine.groups()) == list(theirs.groups())
            assert (mine.totals, mine.twice_wins) == (list(theirs.totals), theirs.twice_wins)
        else:
            assert mine == theirs
        if isinstance(theirs, WideRanking | WideClassScores):
            theirs._check()
