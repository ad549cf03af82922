"""Which shards an evaluator holds: refused, replaced, written; and ``merge`` of many shards."""

from __future__ import annotations

import copy
import gc
import pickle
import tempfile
import warnings
import weakref
from pathlib import Path
from typing import Any

import pytest

import streameval as se
from streameval.errors import InputError, StateError
from streameval.evaluator.comparison import Comparison, evaluation_from_bytes
from streameval.state_files.provenance import Provenance


def counted(*y_pred: bool, **options: Any) -> se.Evaluator:
    ev = se.Evaluator(metrics=["accuracy"], **options)
    for one in y_pred:
        ev.update(True, one)
    return ev


def loaded(ev: se.Evaluator) -> se.Evaluator:
    """The evaluator as a file of its bytes is read."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(ev.to_bytes())
        file.flush()
        return se.load(file.name)


def named(shard: str, *y_pred: bool, **position: Any) -> se.Evaluator:
    ev = counted(*y_pred)
    ev.name_shard(shard, **position)
    return ev


def compared(y_pred: bool) -> Comparison:
    both = {"champion": y_pred, "challenger": True}
    return Comparison(metrics=["accuracy"]).update(True, both)


UPDATE: dict[Any, tuple[Any, Any]] = {
    counted: (True, True),
    compared: (True, {"champion": True, "challenger": True}),
}


def test_what_was_saved_and_read_is_the_same_shard_and_the_same_file(tmp_path: Path) -> None:
    ev = counted(True, False)
    ev.save(tmp_path / "a")
    assert ev.provenance == {"contents": [ev.to_bytes()[-32:-16].hex()], "shards": []}
    read = se.load(tmp_path / "a")
    assert read.provenance == ev.provenance
    read.merge(counted())
    read.save(tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes() == ev.to_bytes()
    with pytest.raises(StateError, match=r"name the shards .* \(name_shard\(\)\), or pass allow"):
        se.merge([se.load(tmp_path / "a"), se.load(tmp_path / "b")])
    # What it counts further belongs to the shard that it was.
    read.update(True, True)
    read.save(tmp_path / "b")
    with pytest.raises(StateError, match=r"evaluators\[1\]: .* evaluators\[0\] holds too"):
        se.merge([se.load(tmp_path / "b"), se.load(tmp_path / "a")])
    assert se.load(tmp_path / "b")["support"] == 3


def test_events_that_were_never_written_are_known_by_their_evaluator() -> None:
    a, b, c = counted(True), counted(False), counted(False)
    a.merge(b)
    with pytest.raises(StateError, match="got the events of an evaluator again"):
        a.merge(b)
    b.update(True, True)
    with pytest.raises(StateError, match="got the events of an evaluator again"):
        a.merge(b)
    c.merge(b)
    for one, other in ((a, c), (c, a), (b, a), (a, a.copy()), (c, b.copy())):
        with pytest.raises(StateError, match="got the events of an evaluator again"):
            one.merge(other)
    a.merge(counted(False))  # alike, and other events: they were counted here
    a.merge(a, allow_overlap=True)
    assert a["support"] == 6
    assert a.provenance == {"contents": [], "shards": []}


@pytest.mark.parametrize("make", [counted, compared], ids=["evaluator", "comparison"])
def test_events_are_known_wherever_their_evaluator_has_gone(make: Any, tmp_path: Path) -> None:
    ev = make(True)
    before = make(False)
    before.merge(ev)  # it knows what its operand is later known by
    data = ev.to_bytes()
    pickled = pickle.dumps(ev)
    twins = [pickle.loads(pickled), pickle.loads(pickled), copy.deepcopy(ev), copy.copy(ev), ev]
    ev.save(tmp_path / "ev")
    twins.append(type(ev).load(tmp_path / "ev") if make is compared else se.load(tmp_path / "ev"))
    for one in [*twins, before]:
        for other in twins:
            with pytest.raises(StateError, match="expected each shard once"):
                one.merge(other)
    ev.update(*UPDATE[make])
    twins.append(pickle.loads(pickle.dumps(ev)))  # its own pickles overlap, whatever came between
    for other in twins:
        with pytest.raises(StateError, match="expected each shard once"):
            ev.merge(other)
    assert ev.to_bytes() != data
    # A pickle of the whole knows the evaluators that still hold parts of it.
    a, b = make(True), make(True)
    a.merge(b)
    with pytest.raises(StateError, match="expected each shard once"):
        b.merge(pickle.loads(pickle.dumps(a)))
    # Its bytes say what it holds, if they are to.
    read = Comparison.from_bytes if make is compared else se.from_bytes
    before.name_shard("eu-1", epoch=2, sequence=(0, 10))
    written = before.to_bytes(provenance=True)
    assert before.to_bytes() != written
    assert read(written).provenance == before.provenance != {"contents": [], "shards": []}
    # Evaluators that are alike are others.
    one, other = make(True), make(True)
    one.merge(pickle.loads(pickle.dumps(other)))
    one.merge(copy.deepcopy(make(True)))


def test_the_bytes_of_an_evaluator_are_its_events_where_chance_cannot_make_them_equal() -> None:
    many = counted()
    many.update_many([True] * 1000, [True, False] * 500)
    older = many.to_bytes()
    total = counted(True)
    total.merge(many)
    many.update(True, True)
    for data in (older, many.to_bytes()):
        for one in (many, total):
            with pytest.raises(StateError, match="got the content"):
                one.merge(se.from_bytes(data))
    with pytest.raises(StateError, match=r"evaluators\[1\]: expected each shard once"):
        se.merge([many, many.to_bytes()])
    with pytest.raises(StateError, match="expected each shard once"):
        se.merge([older, older])


def test_equal_bytes_of_few_events_are_counted_with_one_warning() -> None:
    part = counted(True).to_bytes()
    message = r"evaluators\[1\] is counted although evaluators\[0\] .*name_shard.* \(and 3 more\)"
    with pytest.warns(UserWarning, match=message) as said:
        whole = se.merge([part] * 5)
    assert len(said) == 1
    assert said[0].filename == __file__
    assert whole["support"] == 5
    with pytest.warns(UserWarning, match="it is counted although this one holds") as said:
        whole.merge(se.from_bytes(part))
    assert said[0].filename == __file__
    # Of the file of such a merge nothing is left to chance.
    with pytest.raises(StateError, match="expected each shard once"):
        loaded(whole).merge(loaded(whole))
    ev = counted(True)
    ev.to_bytes()
    with pytest.warns(UserWarning, match="which of fewer than 1,000 events may be chance"):
        ev.merge(se.from_bytes(part))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        se.merge([part, named("a", True).to_bytes(provenance=True), counted(True)])
        Comparison.from_bytes(compared(True).to_bytes()).merge(compared(True))


def test_what_is_gone_and_what_adjoins_takes_no_memory() -> None:
    total, delta = counted(True), counted(True)
    for _ in range(300):
        total.merge(delta)
        delta = total.delta()
        delta.update(True, True)
    del delta
    gc.collect()
    assert len(total._provenance._live) < 200
    assert total["support"] == 301
    plain = len(total.to_bytes())
    for number in range(1_000):
        total.name_shard("eu-1", sequence=(number, number + 1))
    assert len(total.to_bytes(provenance=True)) - plain < 100


WINDOWS: list[Any] = [None, se.Panes("1h"), se.Fading("1h"), se.Fading(10)]


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_empty_states_are_never_refused(window: Any) -> None:
    timed = window is not None and window.needs_time
    event: dict[str, Any] = {"event_time": 1_700_000_000} if timed else {}
    total = counted(window=window, time_unit="s").update(True, True, **event)
    empty = total.emptied()
    delta = total.delta(newest=total.newest if timed else None)
    template = empty.copy()
    for one in (delta, delta, loaded(delta), empty, empty.copy(), se.from_bytes(empty.to_bytes())):
        assert one.is_empty
        total.merge(one)
    assert total["support"] == 1
    assert not loaded(total).is_empty
    # Only now its events count.
    delta.update(True, True, **event)
    assert not delta.is_empty
    if window == se.Fading(10):
        return  # whose order shards do not share
    total.merge(delta)
    assert total["support"] == 2
    workers = [template.copy(), copy.deepcopy(template), pickle.loads(pickle.dumps(template))]
    for worker in workers:
        worker.update(True, True, **event)
    assert se.merge(workers)["support"] == 3


def test_sequences_of_a_shard_adjoin_and_must_not_overlap() -> None:
    first = named("eu-1", True, epoch=2, sequence=(0, 1000))
    second = named("eu-1", True, epoch=2, sequence=(1000, 1500))
    other = named("eu-2", True)
    whole = se.merge([second, other, first])
    assert whole.provenance["shards"] == [["eu-1", 2, 0, 1500], ["eu-2", 0, 0, 2**63 - 1]]
    third = named("eu-1", False, epoch=2, sequence=(1400, 1600))
    message = r"evaluators\[2\]: .* shard 'eu-1' \(epoch 2, sequence 1400:1500\) .*evaluators\[1\]"
    with pytest.raises(StateError, match=message):
        se.merge([first, second, third])
    with pytest.raises(StateError, match=r"got shard 'eu-2' \(epoch 0\) again, which this one"):
        whole.merge(named("eu-2", False))
    first.name_shard("eu-1", epoch=2, sequence=(0, 1200))
    assert first.provenance["shards"] == [["eu-1", 2, 0, 1200]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shard": ""}, "shard: expected a name of 1 to 200 printed characters without blanks"),
        ({"shard": "a\n"}, r"got 'a\\n'"),
        ({"shard": 7}, "shard: expected a name .* got 7"),
        ({"epoch": True}, "epoch: expected a whole number from 0 on, got True"),
        ({"epoch": 3}, "epoch: expected 2, the epoch of shard 'a' that is held already, got 3"),
        ({"sequence": (5, 5)}, r"sequence: expected the first position.*, got \(5, 5\)"),
        ({"sequence": (0.0, 5)}, "sequence: expected the first position"),
    ],
)
def test_what_is_no_shard(given: dict[str, Any], message: str) -> None:
    ev = named("a", True, epoch=2)
    with pytest.raises(InputError, match=message):
        ev.name_shard(**{"shard": "a", "epoch": 2, **given})
    assert ev.provenance["shards"] == [["a", 2, 0, 2**63 - 1]]


def test_the_newest_epoch_of_a_list_replaces_older_ones(tmp_path: Path) -> None:
    old, new = named("a", False, False, epoch=1), named("a", True, epoch=2)
    other = named("b", True)
    for states in ([old, new, other], [new, other, old]):
        with pytest.warns(UserWarning, match=r"evaluators\[\d\] is left out: evaluators\[\d\] hol"):
            whole = se.merge(states)
        assert whole["support"] == 2
        assert whole.provenance["shards"][0][:2] == ["a", 2]
    with pytest.warns(UserWarning, match=r"evaluators\[1\] is left out"):
        assert se.merge(iter([new, old, other]))["support"] == 2
    with pytest.raises(StateError, match=r"got epoch 2 beside epoch 1 in evaluators\[0\]; the old"):
        se.merge(iter([old, new]))
    paths = [tmp_path / "p-e1", tmp_path / "p-e2"]
    for ev, path in zip((old, new), paths, strict=True):
        ev.save(path)
    data = [ev.to_bytes(provenance=True) for ev in (old, new)]
    for states in (paths, paths[::-1], data, data[::-1], [old, paths[1]], [paths[0], data[1]]):
        with pytest.warns(UserWarning, match=r"is left out: .* holds epoch 2 of shard 'a'"):
            assert se.merge(states) == new
    with pytest.raises(StateError, match=r"evaluators\[0\]: .* holds epoch 2 of shard 'a' \(epoch"):
        se.merge([se.merge([old, other]), new])
    with pytest.raises(StateError, match="got epoch 1 beside epoch 2 in this one; an older epoch"):
        new.merge(old)
    assert se.merge([old, new, other], allow_overlap=True)["support"] == 4


def test_parts_of_a_store_or_an_engine_have_no_identity() -> None:
    data = counted(True).to_bytes()
    total = evaluation_from_bytes(data)
    assert isinstance(total, se.Evaluator)
    total.merge(evaluation_from_bytes(data))  # type: ignore[arg-type]
    total.merge(evaluation_from_bytes(named("a", True).to_bytes(provenance=True)))  # type: ignore[arg-type]
    assert total["support"] == 3
    assert total.provenance == {"contents": [], "shards": []}


A, B = "a" * 32, "b" * 32
ROW: list[Any] = ["a", 0, 0, 5]
BAD: list[Any] = [
    None,
    {"contents": [A]},
    {"contents": [A], "shards": [], "more": 1},
    *(
        {"contents": contents, "shards": []}
        for contents in ([], {}, ["00"], ["g" * 32], [A.upper()], [B, A], [A, A], [7])
    ),
    # The last ones: in order, of one epoch, apart, once.
    *(
        {"contents": [], "shards": shards}
        for shards in (
            ["a"], [ROW[:3]], [[*ROW, 5, 6]], [["a b", 0, 0, 5]], [["a", True, 0, 5]],
            [["a", 0, 0.0, 5]], [["a", 0, 5, 5]], [["a", 0, 0, 2**63]], [["b", 0, 0, 5], ROW],
            [["a", 1, 0, 5], ROW], [ROW, ["a", 0, 6, 7]], [ROW, ROW],
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("data", BAD, ids=str)
def test_what_is_no_provenance(data: Any) -> None:
    with pytest.raises(StateError, match=r"^provenance: expected"):
        Provenance.from_data(data)


# Many shards -------------------------------------------------------------------------------


SHARDS = 300
METRICS = "accuracy"


def _shard(n: int) -> se.Evaluator:
    ev = se.Evaluator(metrics=METRICS)
    ev.update(n % 3 == 0, n % 7 < 4)
    return ev


def test_of_three_hundred_shards_nine_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    live: dict[int, weakref.ref[se.Evaluator]] = {}
    most = made = 0
    begin = se.Evaluator.__init__

    def counted(self: se.Evaluator, *given: Any, **named: Any) -> None:
        nonlocal most, made
        begin(self, *given, **named)
        key = made = made + 1
        live[key] = weakref.ref(self, lambda _: live.pop(key))
        most = max(most, len(live))

    monkeypatch.setattr(se.Evaluator, "__init__", counted)
    total = se.merge(_shard(n) for n in range(SHARDS))
    assert made >= SHARDS
    # 2**9 > 300: a state for each digit, the new shard, and the copy of one.
    assert most <= 9 + 2
    whole = se.Evaluator(metrics=METRICS)
    numbers = range(SHARDS)
    whole.update_many([n % 3 == 0 for n in numbers], [n % 7 < 4 for n in numbers])
    assert total.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize("count", [1, 2, 7])
def test_shards_in_every_form(tmp_path: Path, count: int) -> None:
    shards = [_shard(n) for n in range(count)]
    whole = shards[0].copy()
    for shard in shards[1:]:
        whole.merge(shard)
    before = [shard.to_bytes() for shard in shards]
    paths = [tmp_path / f"{n:03d}.state" for n in range(count)]
    for shard, path in zip(shards, paths, strict=True):
        shard.save(path)
    forms: tuple[list[Any], ...] = (shards, before, paths, list(map(str, paths)))
    mixed = [forms[n % 4][n] for n in range(count)]
    for given in (shards, iter(shards), before, paths, map(str, paths), mixed):
        # Some are alike, and bytes and files carry the shards that they are of.
        assert se.merge(given, allow_overlap=True).confusion == whole.confusion
    assert [shard.to_bytes() for shard in shards] == before


def test_the_shard_that_differs_is_named(tmp_path: Path) -> None:
    shards = [_shard(n) for n in range(4)]
    other, path = se.Evaluator(metrics="f1"), tmp_path / "other.state"
    other.save(path)
    cases: list[tuple[list[Any], str]] = []
    for place, pair in enumerate(("0 1", "0 1", "2 3", "2 3", "0 4")):
        told = r"^evaluators\[{}\] and evaluators\[{}\]: .*metrics".format(*pair.split())
        cases.append(([*shards[:place], other, *shards[place:]], told))
    cases.append(([shards[0], path], r"evaluators\[0\] and .*other\.state: .*metrics"))
    cases.append(([tmp_path / "missing.state"], r"missing\.state"))
    for given, message in cases:
        with pytest.raises(se.StateError, match=message):
            se.merge(given)
