"""One tester for the laws that every state of streameval keeps.

A state is described once by a :class:`StateSpec`; :func:`check_law` then tries
one law on it with Hypothesis. :func:`law_cases` gives states and laws to ``parametrize``.

An event is whatever ``events`` draws; only the spec's own functions look into
it. ``update_many`` gets a list of events, which may be empty. ``read`` returns
the derived values that are kept current (W2, sums over classes); it is called
at random moments on the way and compared at the end.

A law that a state does not keep is named in ``excused`` with the reason. It is
then required to fail, so that no excuse outlives its need.

States whose float sums depend on the order give ``same=assert_near``; weights
such as 0.5 and 1.5 add without rounding and need no tolerance.
"""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from streameval.errors import InputError, StateError
from tests.support.examples import most_examples, number_of_examples


def assert_same(left: Any, right: Any, where: str = "state", *, near: bool = False) -> None:
    """Equal in type and value, down to the dtype of arrays and the bits of floats.

    With ``near`` floats may differ by 1e-9 relative.
    """
    same = type(left) is type(right)
    inner: list[tuple[str, Any, Any]] = []
    if same and isinstance(left, dict):
        same = left.keys() == right.keys()
        inner = [(f".{key}", value, right.get(key)) for key, value in left.items()]
    elif same and isinstance(left, (list, tuple)):
        same = len(left) == len(right)
        inner = [(f"[{n}]", *pair) for n, pair in enumerate(zip(left, right, strict=False))]
    elif same and isinstance(left, np.ndarray):
        same = left.dtype == right.dtype and left.shape == right.shape
        if near and left.dtype == np.float64:
            inner = [("", left.tolist(), right.tolist())]
        else:
            same = same and left.tobytes() == right.tobytes()
    elif same and isinstance(left, float):
        close = near and math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12)
        same = close or left.hex() == right.hex()
    elif same:
        same = bool(left == right)
    if not same:
        raise AssertionError(f"{where}: {left!r} against {right!r}")
    for place, *pair in inner:
        assert_same(*pair, where + place, near=near)


assert_near = partial(assert_same, near=True)
"""As :func:`assert_same`, but floats may differ by 1e-9 relative."""

_DTYPES = {np.dtype("<i8"), np.dtype("<f8"), np.dtype("bool"), np.dtype("u1")}


def assert_portable(value: Any, where: str = "state") -> None:
    """Only values that a state file can carry: no objects, no nan, no big-endian array."""
    if value is None or type(value) in (bool, int, str):
        return
    if type(value) is float:
        if not math.isfinite(value):
            raise AssertionError(f"{where}: {value} is not finite")
    elif type(value) is list:
        for n, item in enumerate(value):
            assert_portable(item, f"{where}[{n}]")
    elif type(value) is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise AssertionError(f"{where}: key {key!r} is no str")
            assert_portable(item, f"{where}.{key}")
    elif type(value) is np.ndarray and value.ndim == 1 and value.dtype in _DTYPES:
        if value.dtype == np.float64 and not np.isfinite(value).all():
            raise AssertionError(f"{where}: {value!r} is not finite")
    else:
        raise AssertionError(f"{where}: {value!r} cannot be written to a state file")


@dataclass(frozen=True)
class StateSpec:
    """All that the tester has to know about one state class.

    Args:
        name: Shown as the test's id.
        empty: Makes a state that has seen nothing.
        events: Draws one event.
        update_many: Feeds a list of events (possibly empty) in one call.
        update: Feeds one event; its parts are the arguments unless given.
        revert: Takes one event back, likewise; None where the state does not offer it.
        read: Derived values that are kept current; anything ``same`` compares.
        same: Raises AssertionError unless two ``to_state`` dicts, or two
            values of ``read``, are equal.
        excused: Law -> why this state does not keep it.
        from_state: ``from_state`` of the class unless given.
        max_events: Longest list of events drawn at once.
        pickled: Whether Python's own ways of copying are for it; an inner state has ``copy`` only.
        of_base: Whether a base merges, copies and writes it, whose laws another spec tries.
    """

    name: str
    empty: Callable[[], Any]
    events: st.SearchStrategy[Any]
    update_many: Callable[[Any, list[Any]], None]
    update: Callable[[Any, Any], None] = lambda state, event: state.update(*event)
    revert: Callable[[Any, Any], None] | None = lambda state, event: state.revert(*event)
    read: Callable[[Any], object] = lambda state: None
    same: Callable[[Any, Any], None] = assert_same
    excused: Mapping[str, str] = field(default_factory=dict)
    from_state: Callable[[Any], Any] | None = None
    max_events: int = 10
    pickled: bool = True
    of_base: bool = False

    def restore(self, data: Any) -> Any:
        """A state from its written form, checked."""
        made = (self.from_state or type(self.empty()).from_state)(data)
        made._check()
        return made

    def fed(self, events: list[Any]) -> Any:
        """A new state fed one event at a time: the plainest path."""
        state = self.empty()
        state._check()
        for event in events:
            self.update(state, event)
            state._check()
        return state

    def merged(self, left: Any, *others: Any) -> Any:
        """A copy of ``left`` with the others merged into it."""
        result = left.copy()
        for other in others:
            result.merge(other)
            result._check()
        return result

    def assert_equal(self, left: Any, right: Any) -> None:
        """Equal as written, as compared by ``==`` and in all that is derived."""
        self.same(left.to_state(), right.to_state())
        self.same(self.read(left), self.read(right))
        left._check()
        right._check()
        if self.same is assert_same and not left == right:
            raise AssertionError("to_state() is equal but == is False")


def columns(events: list[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Events as columns; ``width`` empty ones when there is no event."""
    return [list(column) for column in zip(*events, strict=True)] or [[] for _ in range(width)]


def _draw_events(spec: StateSpec, data: st.DataObject, label: str = "events") -> list[Any]:
    return data.draw(st.lists(spec.events, max_size=spec.max_events), label=label)


def _draw_state(spec: StateSpec, data: st.DataObject, label: str) -> Any:
    """A state that may or may not have derived its aggregates."""
    state = spec.fed(_draw_events(spec, data, label))
    if data.draw(st.booleans(), label=f"read {label}"):
        spec.read(state)
    return state


def _grouping(spec: StateSpec, data: st.DataObject) -> None:
    """a + b = b + a, (a + b) + c = a + (b + c), a + a; and b stays as it is, then and later."""
    a, b, c = (_draw_state(spec, data, name) for name in "abc")
    before = copy.deepcopy(b.to_state())
    ab = spec.merged(a, b)
    spec.same(b.to_state(), before)
    spec.assert_equal(ab, spec.merged(b, a))
    spec.assert_equal(spec.merged(ab, c), spec.merged(a, spec.merged(b, c)))
    late = data.draw(spec.events, label="late event")
    spec.update(ab, late)
    spec.read(ab)
    spec.same(b.to_state(), before)
    after = copy.deepcopy(ab.to_state())
    spec.update(b, late)
    spec.same(ab.to_state(), after)
    ab._check()
    b._check()
    if not hasattr(a, "provenance"):  # an evaluator refuses what it holds already
        twice = spec.merged(a, a.copy())
        a.merge(a)
        spec.assert_equal(a, twice)


def _split(spec: StateSpec, data: st.DataObject) -> None:
    """One at a time, in batches, or any mix; read, copied, written between; and with what has
    seen nothing merged into it or the other way round: all the same.
    """
    state = spec.empty()
    seen: list[Any] = []
    steps = st.sampled_from(["update", "update_many", "read", "copy", "round_trip"])
    for step in data.draw(st.lists(steps, max_size=8), label="steps"):
        if step == "update":
            event = data.draw(spec.events, label="event")
            spec.update(state, event)
            seen.append(event)
        elif step == "update_many":
            events = _draw_events(spec, data)
            spec.update_many(state, events)
            seen += events
        elif step == "read":
            spec.read(state)
        elif step == "copy":
            state = state.copy()
        else:
            state = spec.restore(state.to_state())
        state._check()
    whole = spec.fed(seen)
    spec.assert_equal(state, whole)
    batch = spec.empty()
    spec.update_many(batch, seen)
    for made in (batch, spec.merged(state, spec.empty()), spec.merged(spec.empty(), state)):
        spec.assert_equal(made, whole)


def _shards(spec: StateSpec, data: st.DataObject) -> None:
    """Shards merged in order are the whole."""
    shards = data.draw(
        st.lists(st.lists(spec.events, max_size=spec.max_events), max_size=4), label="shards"
    )
    whole = spec.fed([event for shard in shards for event in shard])
    spec.assert_equal(spec.merged(spec.empty(), *map(spec.fed, shards)), whole)


def _order(spec: StateSpec, data: st.DataObject) -> None:
    """The order of arrival leaves no trace."""
    events = _draw_events(spec, data)
    shuffled = data.draw(st.permutations(events), label="shuffled")
    spec.assert_equal(spec.fed(shuffled), spec.fed(events))


def _revert(spec: StateSpec, data: st.DataObject) -> None:
    """What is taken back was never there."""
    assert spec.revert is not None, "no revert given"
    kept, undone = _draw_events(spec, data, "kept"), _draw_events(spec, data, "undone")
    mixed = data.draw(
        st.permutations([(e, True) for e in kept] + [(e, False) for e in undone]), label="mixed"
    )
    state = spec.fed([event for event, _ in mixed])
    for event in data.draw(st.permutations(undone), label="reverts"):
        if data.draw(st.booleans(), label="read"):
            spec.read(state)
        spec.revert(state, event)
        state._check()
    spec.assert_equal(state, spec.fed([event for event, stays in mixed if stays]))
    for event in kept:
        spec.revert(state, event)
        state._check()
    spec.assert_equal(state, spec.empty())


def _copy(spec: StateSpec, data: st.DataObject) -> None:
    """Written and read, or copied in any way, it is the same state, and goes its own way."""
    state = _draw_state(spec, data, "a")
    written = state.to_state()
    assert_portable(written)
    before = copy.deepcopy(written)
    ways = [type(state).copy]
    if spec.pickled:
        ways += [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
        ways += [copy.copy] if hasattr(state, "__copy__") else []
    twins = [spec.restore(written), data.draw(st.sampled_from(ways), label="copied by")(state)]
    event = data.draw(spec.events, label="event")
    for twin in twins:
        # The last bits of derived values may not depend on having been written either.
        assert_same(twin.to_state(), before)
        assert_same(spec.read(twin), spec.read(state))
        spec.assert_equal(twin, state)
        spec.update(twin, event)
        spec.update_many(twin, [event])
        spec.read(twin)
        twin._check()
        assert_same(state.to_state(), before)
    after = [copy.deepcopy(twin.to_state()) for twin in twins]
    spec.update(state, data.draw(spec.events, label="other event"))
    state._check()
    assert_same([twin.to_state() for twin in twins], after)
    assert_same(written, before)


def _hostile(spec: StateSpec, data: st.DataObject) -> None:
    """A damaged dict gives StateError, or a sound state that is written just like it."""
    written = copy.deepcopy(_draw_state(spec, data, "a").to_state())
    damaged = _damaged(written, data)
    given = copy.deepcopy(damaged)
    try:
        state = spec.restore(damaged)
    except StateError:
        return
    except Exception as error:
        raise AssertionError(f"from_state raised {error!r}, not StateError") from error
    assert_same(state.to_state(), given)
    spec.read(state)
    event = data.draw(spec.events, label="event")
    try:
        spec.update(state, event)
    except InputError:
        return
    state._check()


_JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 2, 2**31, 2**53, 2**63 - 1, 2**63, 2**70, 10**400]),
    st.sampled_from([-1.0, -0.0, 0.0, 0.5, 5e-324, 1e308, math.nan, math.inf]),
    st.sampled_from(["", "a", "1", b"a", (), {1: 2}, {"a": 1}, set(), np.int64(1), np.float64(1)]),
    st.lists(st.sampled_from([None, True, 0, 1, 2**70, 0.5, "a", "b", []]), max_size=3),
    st.sampled_from(
        [
            np.zeros(0, dtype="<i8"),
            np.zeros(0, dtype="<f8"),
            np.array([1], dtype="<i8"),
            np.array([0, 1], dtype="<i8"),
            np.array([-1, 2**62], dtype="<i8"),
            np.array([2**63 - 1, 2**63 - 1, 2**63 - 1], dtype="<i8"),
            np.array([0.5, 1.5], dtype="<f8"),
            np.array([math.nan, 1e308], dtype="<f8"),
            np.array([0, 1], dtype=">i8"),
            np.array([0, 1], dtype="<i4"),
            np.array([0, 1], dtype="u1"),
            np.array([True, False]),
            np.array([None, "a"], dtype=object),
            np.array([["a"]]),
            np.zeros((2, 2), dtype="<i8"),
            np.array(1),
        ]
    ),
).map(copy.deepcopy)


def _damaged(value: Any, data: st.DataObject) -> Any:
    """The written form with one to three things changed, anywhere inside."""
    for _ in range(data.draw(st.integers(1, 3), label="damages")):
        value = _damage_somewhere(value, data)
    return value


def _damage_somewhere(value: Any, data: st.DataObject) -> Any:
    inner: list[Any] = []
    if type(value) is dict:
        inner = [key for key in value if type(value[key]) in (dict, list, np.ndarray)]
        inner += list(value)
    elif type(value) is list:
        inner = list(range(len(value)))
    if inner and data.draw(st.integers(0, 3), label="go inside"):
        key = data.draw(st.sampled_from(inner), label="where")
        value[key] = _damage_somewhere(value[key], data)
        return value
    return _damage_here(value, data)


def _damage_here(value: Any, data: st.DataObject) -> Any:
    if data.draw(st.integers(0, 3), label="replace") == 0:
        return data.draw(_JUNK, label="junk")
    if type(value) is dict:
        key = data.draw(st.sampled_from([*value, "extra"]), label="key")
        if value.pop(key, None) is None:
            value[key] = data.draw(_JUNK, label="junk")
        return value
    flat = isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim == 1)
    if flat and len(value):
        return _damage_sequence(value, data)
    if isinstance(value, (int, float)):
        # 0.5 cannot be added to an int that no float reaches.
        change = st.sampled_from([1, -1, 2**60] if abs(value) > 1e300 else [1, -1, 0.5, 2**60])
        return data.draw(st.sampled_from([-value, value + data.draw(change)]), label="number")
    if isinstance(value, str):
        return data.draw(st.sampled_from([value + "x", value[1:], ""]), label="text")
    return data.draw(_JUNK, label="junk")


def _damage_sequence(value: Any, data: st.DataObject) -> Any:
    place = data.draw(st.integers(0, len(value) - 1), label="place")
    how = data.draw(st.sampled_from(["drop", "repeat", "reverse", "swap", "element"]), label="how")
    items = list(value)
    if how == "drop":
        del items[place]
    elif how == "repeat":
        items.insert(place, items[place])
    elif how == "reverse":
        items.reverse()
    elif how == "swap":
        items[0], items[place] = items[place], items[0]
    elif isinstance(value, np.ndarray):
        extremes = [-1, 0, 1, 2, 255, 2**40, 2**62, -(2**63), math.nan, math.inf, -0.5, 1e300]
        element = data.draw(st.sampled_from(extremes), label="element")
        result = value.copy()
        with np.errstate(all="ignore"):
            result[place : place + 1] = np.array([element]).astype(value.dtype)
        return result
    else:
        items[place] = data.draw(_JUNK, label="element")
    return np.array(items, dtype=value.dtype) if isinstance(value, np.ndarray) else items


_CHECKS: dict[str, Callable[[StateSpec, st.DataObject], None]] = {
    "grouping": _grouping,
    "split": _split,
    "shards": _shards,
    "order": _order,
    "revert": _revert,
    "copy": _copy,
    "hostile": _hostile,
}

LAWS: tuple[str, ...] = tuple(_CHECKS)
"""Names of all laws; parametrize over them."""

_OF_A_CLASS = ("split", "revert", "hostile")
"""Laws of what an event adds, and of what is read of a written form."""


def law_cases(specs: list[StateSpec]) -> list[Any]:
    """Each state with each law that says something about it, as ``parametrize`` takes them."""
    return [
        pytest.param(spec, law, id=f"{spec.name}-{law}")
        for spec in specs
        for law in (_OF_A_CLASS if spec.of_base else LAWS)
        if law != "revert" or spec.revert is not None
    ]


def check_law(spec: StateSpec, law: str, *, max_examples: int = 40) -> None:
    """Try one law on a state; raises with the smallest counterexample found."""
    unknown = set(spec.excused) - set(LAWS)
    if unknown:
        raise ValueError(f"{spec.name}: excused from laws that do not exist: {sorted(unknown)}")
    check = _CHECKS[law]
    excused = law in spec.excused

    # Each state has seven laws, of which every example tries several paths.
    few = most_examples() is not None and law != "hostile"
    number = min(6, max_examples) if few else number_of_examples(max_examples)

    @settings(
        max_examples=200 if excused else number,
        # A law that should fail must fail in every run.
        derandomize=excused or settings().derandomize,
        phases=[Phase.generate] if excused else [Phase.generate, Phase.shrink],
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @hypothesis_given(st.data())
    def examples(data: st.DataObject) -> None:
        check(spec, data)

    if excused:
        with pytest.raises((AssertionError, InputError, StateError)):
            examples()
    else:
        examples()
