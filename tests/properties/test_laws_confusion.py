"""ConfusionCounts keeps every law of a state, and the law tester can fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from streameval.errors import StateError
from streameval.states.confusion import ConfusionCounts
from tests.support.confusion_kinds import KINDS, cells_of
from tests.support.laws import (
    LAWS,
    StateSpec,
    assert_near,
    assert_portable,
    assert_same,
    check_law,
    columns,
)

WORDS = st.sampled_from(["ham", "spam", "Ham", "", "été", "\U0001f600", np.str_("spam")])
NUMBERS = st.sampled_from([0, 1, True, 1.0, np.int64(1), np.float32(2), -3, 2**40, 10**30])
WHOLE = st.sampled_from([1, 1, 1, 2, 3.0, np.int32(7), 2**53])
# Multiples of a power of two, so that float sums are exact in any order.
HALVES = st.sampled_from([1, 0.5, 1.5, 0.25, 3])


def read(counts: ConfusionCounts) -> object:
    """All that is derived."""
    sums = counts.sums
    return {
        "sums": [
            sums.active,
            sums.with_true,
            sums.with_predicted,
            sums.precision,
            sums.recall,
            sums.f1,
            sums.true_predicted,
            sums.true_squared,
            sums.predicted_squared,
        ],
        "total": [counts.total, counts.correct, counts.exact],
        "classes": list(counts.per_class()),
        "binary": [list(counts.binary(label)) for label in counts.labels],
        "array": counts.to_array().tolist(),
    }


def spec(name: str, labels: Any, weights: Any, **options: Any) -> StateSpec:
    return StateSpec(
        **{
            "name": name,
            "empty": ConfusionCounts,
            "events": st.tuples(labels, labels, weights),
            "update": lambda state, event: state.update(*event),
            "update_many": lambda state, events: state.update_many(*columns(events, 3)),
            "revert": lambda state, event: state.revert(*event),
            "read": read,
            **options,
        }
    )


def closed() -> ConfusionCounts:
    return ConfusionCounts(["c", "a", "b"])


SPECS = [
    spec("words", WORDS, WHOLE),
    spec("numbers", NUMBERS, WHOLE),
    spec("closed", st.sampled_from("abc"), WHOLE, empty=closed),
    spec(
        "fractions",
        WORDS,
        HALVES,
        revert=lambda state, event: state.revert(*event),
        excused={"revert": "float sums cannot be undone exactly"},
    ),
    spec(
        # The sums of compiled cells have 64 bits, their products 128; all events of a law together
        # must stay below what a written state may claim (2**127).
        "heavy cells",
        st.sampled_from("ab"),
        st.sampled_from([1, 2**53, 2**61, 2**62, 2**100, 2**120]),
        update=lambda state, event: state.add_cells([event]),
        update_many=lambda state, events: state.add_cells(events),
        excused={"revert": "no event may have such a weight, only cells"},
    ),
    spec(
        "any fraction",
        st.sampled_from("ab"),
        st.floats(1e-3, 1e3),
        same=assert_near,
        excused={"revert": "float sums cannot be undone exactly"},
    ),
]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
@pytest.mark.parametrize("kind", KINDS)
def test_confusion_counts_keeps_the_law(kind: str, spec: StateSpec, law: str) -> None:
    with cells_of(KINDS[kind]):
        check_law(spec, law, max_examples=20)


class Bag:
    """A sum of ints that keeps every law; its subclasses break one each."""

    def __init__(self) -> None:
        self.items: list[int] = []

    def update(self, item: int) -> None:
        self.items = sorted([*self.items, item])

    def update_many(self, items: list[int]) -> None:
        self.items = sorted([*self.items, *items])

    def revert(self, item: int) -> None:
        kept = self.items.copy()
        kept.remove(item)
        self.items = kept

    def merge(self, other: Bag) -> None:
        self.items = sorted(self.items + other.items)

    def copy(self) -> Bag:
        twin = type(self)()
        twin.items = self.items.copy()
        return twin

    def to_state(self) -> dict[str, Any]:
        return {"items": np.array(self.items, dtype=np.int64)}

    @classmethod
    def from_state(cls, data: Any) -> Bag:
        items = data.get("items") if isinstance(data, dict) else None
        if not (
            isinstance(items, np.ndarray)
            and items.dtype == np.int64
            and items.ndim == len(data) == 1
            and items.tolist() == sorted(items.tolist())
        ):
            raise StateError("bad")
        bag = cls()
        bag.items = items.tolist()
        return bag

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bag) and self.items == other.items

    def _check(self) -> None:
        assert self.items == sorted(self.items)


class KeepsEmpty(Bag):
    def merge(self, other: Bag) -> None:
        self.items = sorted(self.items + (other.items or [0]))


class SkipsLast(Bag):
    def update_many(self, items: list[int]) -> None:
        super().update_many(items[:-1] if len(items) > 2 else items)


class DropsDuplicates(Bag):
    def merge(self, other: Bag) -> None:
        self.items = sorted({*self.items, *other.items})


class InOrder(Bag):
    def update(self, item: int) -> None:
        self.items = sorted([*self.items, item if len(self.items) % 2 else 0])


class SharesOperand(Bag):
    def merge(self, other: Bag) -> None:
        if not self.items:
            self.items = other.items
        else:
            super().merge(other)

    def update(self, item: int) -> None:
        self.items.append(item)
        self.items.sort()


class ForgetsOne(Bag):
    def to_state(self) -> dict[str, Any]:
        return {"items": np.array(self.items[:3], dtype=np.int64)}


class RevertsAll(Bag):
    def revert(self, item: int) -> None:
        self.items = [other for other in self.items if other != item]


class SharesCopy(Bag):
    def copy(self) -> Bag:
        twin = type(self)()
        twin.items = self.items
        return twin

    def update(self, item: int) -> None:
        self.items.append(item)
        self.items.sort()


class Trusts(Bag):
    @classmethod
    def from_state(cls, data: Any) -> Bag:
        bag = cls()
        bag.items = data["items"].tolist()
        return bag


class NeverEqual(Bag):
    def __eq__(self, other: object) -> bool:
        return False


def bag_spec(kind: type[Bag], **options: Any) -> StateSpec:
    return StateSpec(
        **{
            "name": kind.__name__,
            "empty": kind,
            "events": st.integers(0, 3),
            "update": lambda bag, item: bag.update(item),
            "update_many": lambda bag, items: bag.update_many(items),
            "revert": lambda bag, item: bag.revert(item),
            "read": lambda bag: sum(bag.items),
            **options,
        }
    )


@pytest.mark.parametrize("law", LAWS)
def test_a_sound_state_passes(law: str) -> None:
    check_law(bag_spec(Bag), law, max_examples=20)


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (KeepsEmpty, "identity"),
        (SkipsLast, "split"),
        (DropsDuplicates, "shards"),
        (InOrder, "order"),
        (SharesOperand, "operand"),
        (ForgetsOne, "round_trip"),
        (RevertsAll, "revert"),
        (SharesCopy, "copy"),
        (Trusts, "hostile"),
        (NeverEqual, "grouping"),
    ],
)
def test_the_tester_catches_a_broken_state(kind: type[Bag], law: str) -> None:
    # An excused law has to fail: so this passes only if the fault is found.
    check_law(bag_spec(kind, excused={law: "broken on purpose"}), law)


def test_an_excuse_that_is_not_needed_is_an_error() -> None:
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        check_law(bag_spec(Bag, excused={"order": "no reason"}), "order")
    with pytest.raises(ValueError, match="laws that do not exist: \\['ordre'\\]"):
        check_law(bag_spec(Bag, excused={"ordre": "misspelt"}), "order")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ([1], [1, 2]),
        ({"a": 1}, {"b": 1}),
        (np.array([1]), np.array([1.0])),
        (np.array([1.0]), np.array([1.0 + 2**-52])),
    ],
)
def test_assert_same_tells_apart(left: object, right: object) -> None:
    assert_same(left, left)
    with pytest.raises(AssertionError):
        assert_same(left, right)


def test_assert_near_allows_rounding_and_no_more() -> None:
    assert_near({"a": [1.0]}, {"a": [1.0 + 1e-10]})
    assert_near(np.array([1.0]), np.array([1.0 + 1e-10]))
    for wrong in ({"a": [1.0 + 1e-8]}, {"a": [1]}, {"a": [1.0, 1.0]}, {"b": [1.0]}):
        with pytest.raises(AssertionError):
            assert_near({"a": [1.0]}, wrong)
    with pytest.raises(AssertionError):
        assert_near(np.array([1.0]), np.array([1.1]))


@pytest.mark.parametrize(
    "value",
    [float("nan"), (1,), {1: 2}, np.int64(1), np.zeros((2, 2)), np.zeros(1, ">i8"), b"", object()],
)
def test_assert_portable_refuses(value: object) -> None:
    with pytest.raises(AssertionError):
        assert_portable({"key": [value]})
