"""Which shards an evaluator holds: what is refused, what is replaced, what is written."""

from __future__ import annotations

import base64
import copy
import gc
import pickle
from pathlib import Path
from typing import Any

import pytest

import streameval as se
from streameval.errors import InputError, StateError
from streameval.evaluator.comparison import Comparison, evaluation_from_bytes
from streameval.state_files.provenance import Provenance

# Written by a release that knew of no provenance.
OLD_FILE = base64.b64decode(
    "iXN0cmVhbWV2YWwNChoKAAEAAADDAQAAOAIAAAAAAAB7ImRhdGEiOnsibmVnYXRpdmUiOjAsIm9wdGlvbnMiOnsi"
    "YmlucyI6MTAsImxhYmVscyI6bnVsbCwibWF4X3NsaWNlcyI6MTAwMDAsIm1ldHJpY3MiOlsiYWNjdXJhY3kiXSwi"
    "cG9zaXRpdmUiOjEsInNsaWNlcyI6W10sInRhc2siOiJiaW5hcnkiLCJ0ZW1wb3JhbCI6ZmFsc2UsInRocmVzaG9s"
    "ZCI6MC41LCJ0aW1lX3VuaXQiOm51bGwsInVuZGVmaW5lZCI6bnVsbCwid2luZG93Ijp7ImtpbmQiOiJjdW11bGF0"
    "aXZlIn19LCJzbGljZXMiOltdLCJzbGljZXNfb3ZlcmZsb3dlZCI6MCwidGltZWxpbmUiOm51bGwsIndpbmRvdyI6"
    "eyJjb25mdXNpb24iOnsiY2xvc2VkIjpmYWxzZSwibGFiZWxzIjpbMCwxXSwicHJlZGljdGVkIjoiJGFycmF5Omlu"
    "dDY0OjI6MCIsInRydWUiOiIkYXJyYXk6aW50NjQ6MjoxNiIsIndlaWdodCI6IiRhcnJheTppbnQ2NDoyOjMyIn19"
    "fSwia2luZCI6ImV2YWx1YXRvciJ9AAAAAAAAAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAABAAAAAAAAAAEAAAAAAAAA"
    "AQAAAAAAAAAgESdu2/nJrge03juEtb3ndgSO/yM8IRNBB7zxj0irYg=="
)


def counted(*y_pred: bool, **options: Any) -> se.Evaluator:
    ev = se.Evaluator(metrics=["accuracy"], **options)
    for one in y_pred:
        ev.update(True, one)
    return ev


def named(shard: str, *y_pred: bool, **position: Any) -> se.Evaluator:
    ev = counted(*y_pred)
    ev.name_shard(shard, **position)
    return ev


def compared(y_pred: bool) -> Comparison:
    c = Comparison(metrics=["accuracy"])
    c.update(True, {"champion": y_pred, "challenger": True})
    return c


def test_a_file_of_an_older_release_is_read_and_is_the_shard_of_its_checksum() -> None:
    ev = se.from_bytes(OLD_FILE)
    assert ev["accuracy"] == 0.5
    assert ev.provenance == {"contents": [OLD_FILE[-32:-16].hex()], "shards": []}
    assert ev.to_bytes() == ev.to_bytes(provenance=True) == OLD_FILE
    with pytest.raises(StateError, match=f"got the content {OLD_FILE[-32:-24].hex()} again"):
        ev.merge(se.from_bytes(OLD_FILE))


def test_what_was_saved_and_read_is_the_same_shard_and_the_same_file(tmp_path: Path) -> None:
    ev = counted(True, False)
    ev.save(tmp_path / "a")
    assert ev.provenance == {"contents": [], "shards": []}
    read = se.load(tmp_path / "a")
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


def test_a_merge_holds_the_shards_of_all_and_copies_keep_them() -> None:
    parts = [se.from_bytes(counted(*[True] * n).to_bytes()) for n in (1, 2, 3)]
    whole = se.merge(parts)
    assert len(whole.provenance["contents"]) == 3
    data = whole.to_bytes(provenance=True)
    assert whole.to_bytes() == counted(*[True] * 6).to_bytes() != data
    again = [whole.copy(), copy.deepcopy(whole), pickle.loads(pickle.dumps(whole))]
    for twin in [*again, se.from_bytes(data)]:
        assert twin == whole
        assert twin.provenance == whole.provenance
        with pytest.raises(StateError, match="count twice"):
            twin.merge(parts[1])
        assert twin.to_bytes(provenance=True) == data
        twin.merge(parts[1], allow_overlap=True)
        assert twin["support"] == 8
        assert twin.provenance == whole.provenance
    assert whole["support"] == 6


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
    # Another process cannot know the object.
    assert se.merge([pickle.loads(pickle.dumps(b)), b])["support"] == 4


def test_evaluators_that_are_gone_take_no_memory() -> None:
    total, delta = counted(True), counted(True)
    for _ in range(2000):
        total.merge(delta)
        delta = total.delta()
        delta.update(True, True)
    del delta
    gc.collect()
    assert len(total._provenance._live) < 200
    assert total["support"] == 2001


def test_empty_states_are_never_refused() -> None:
    empty = counted()
    total = counted(True)
    for one in (empty, empty, empty.copy(), *[se.from_bytes(empty.to_bytes())] * 2, total.delta()):
        total.merge(one)
    assert se.merge([empty, empty, total]) == total
    empty.update(True, True)
    total.merge(empty)  # only now its events count
    assert total["support"] == 2
    template = counted()
    workers = [template.copy() for _ in range(2)]
    for worker in workers:
        worker.update(True, True)
    assert se.merge(workers)["support"] == 2
    panes = se.Evaluator(window=se.Panes("1h"), time_unit="s", metrics=["accuracy"])
    assert panes.is_empty
    assert se.merge([panes, panes]).is_empty
    panes.update(True, True, event_time=1_700_000_000)
    assert not panes.is_empty


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
        ({"shard": "a b"}, "got 'a b'"),
        ({"shard": "a\n"}, r"got 'a\\n'"),
        ({"shard": 7}, "shard: expected a name .* got 7"),
        ({"epoch": -1}, "epoch: expected a whole number from 0 on, got -1"),
        ({"epoch": True}, "epoch: expected a whole number from 0 on, got True"),
        ({"epoch": 3}, "epoch: expected 2, the epoch of shard 'a' that is held already, got 3"),
        ({"sequence": (5, 5)}, r"sequence: expected the first position.*, got \(5, 5\)"),
        ({"sequence": "0:5"}, "sequence: expected the first position"),
        ({"sequence": (0.0, 5)}, "sequence: expected the first position"),
    ],
)
def test_what_is_no_shard(given: dict[str, Any], message: str) -> None:
    ev = named("a", True, epoch=2)
    with pytest.raises(InputError, match=message):
        ev.name_shard(**{"shard": "a", "epoch": 2, **given})
    assert ev.provenance["shards"] == [["a", 2, 0, 2**63 - 1]]


def test_the_newest_epoch_of_a_list_replaces_older_ones() -> None:
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
    with pytest.raises(StateError, match=r"evaluators\[0\]: .* holds epoch 2 of shard 'a' \(epoch"):
        se.merge([se.merge([old, other]), new])
    with pytest.raises(StateError, match="got epoch 1 beside epoch 2 in this one; an older epoch"):
        new.merge(old)
    assert se.merge([old, new, other], allow_overlap=True)["support"] == 4


def test_comparisons_are_protected_alike(tmp_path: Path) -> None:
    a, b = compared(True), compared(False)
    a.save(tmp_path / "a")
    whole = Comparison.load(tmp_path / "a")
    whole.merge(b)
    for again in (b, b.copy(), Comparison.load(tmp_path / "a"), whole):
        with pytest.raises(StateError, match="expected each shard once"):
            whole.merge(again)
    a.merge(b)
    assert whole.to_bytes() == a.to_bytes() != whole.to_bytes(provenance=True)
    for twin in (
        Comparison.from_bytes(whole.to_bytes(provenance=True)),
        pickle.loads(pickle.dumps(whole)),
    ):
        assert twin.provenance == whole.provenance != {"contents": [], "shards": []}
    whole.merge(whole, allow_overlap=True)
    assert whole["champion"]["support"] == 4
    b.name_shard("eu-1", epoch=2, sequence=(0, 10))
    assert Comparison.from_bytes(b.to_bytes(provenance=True)).provenance == b.provenance
    empty = Comparison(metrics=["accuracy"])
    assert empty.is_empty
    for _ in range(2):
        whole.merge(Comparison.from_bytes(empty.to_bytes()))


def test_parts_of_a_store_or_an_engine_have_no_identity() -> None:
    data = counted(True).to_bytes()
    total = evaluation_from_bytes(data)
    assert isinstance(total, se.Evaluator)
    total.merge(evaluation_from_bytes(data))  # type: ignore[arg-type]
    total.merge(evaluation_from_bytes(named("a", True).to_bytes(provenance=True)))  # type: ignore[arg-type]
    assert total["support"] == 3
    assert total.provenance == {"contents": [], "shards": []}


def test_a_shard_takes_few_bytes() -> None:
    many = Provenance()
    for number in range(10_000):
        part = Provenance()
        part.contents.add(number.to_bytes(16, "big"))
        many.add(part)
    ev = counted(True)
    plain = len(ev.to_bytes())
    ev._provenance = many
    assert len(ev.to_bytes(provenance=True)) - plain < 36 * 10_000
    ev._provenance = Provenance()
    for number in range(10_000):
        ev.name_shard("eu-1", sequence=(number, number + 1))
    assert len(ev.to_bytes(provenance=True)) - plain < 100


BAD: list[Any] = [
    None,
    [],
    {},
    {"contents": [], "shards": []},
    {"contents": {}, "shards": []},
    {"contents": ["00"], "shards": []},
    {"contents": ["g" * 32], "shards": []},
    {"contents": ["A" * 32], "shards": []},
    {"contents": ["b" * 32, "a" * 32], "shards": []},
    {"contents": ["a" * 32, "a" * 32], "shards": []},
    {"contents": [7], "shards": []},
    {"contents": ["a" * 32]},
    {"contents": ["a" * 32], "shards": [], "more": 1},
    *(
        {"contents": [], "shards": shards}
        for shards in (
            ["a"],
            [["a"]],
            [["a", 0]],
            [["a", 0, 5]],
            [["a", 0, 5, 5]],
            [["a", 0, 5, 4]],
            [["a", 0, -1, 4]],
            [["a", -1, 0, 4]],
            [["a", 0, 0, 2**63]],
            [["a", 0, 0, 5, 5, 6]],
            [["a", True, 0, 5]],
            [["a", 0, 0.0, 5]],
            [["a b", 0, 0, 5]],
            [["", 0, 0, 5]],
            [[7, 0, 0, 5]],
            [["b", 0, 0, 5], ["a", 0, 0, 5]],
            [["a", 1, 0, 5], ["a", 0, 0, 5]],
            [["a", 0, 0, 5], ["a", 0, 6, 7]],
            [["a", 0, 0, 5], ["a", 0, 0, 5]],
        )
    ),
]


@pytest.mark.parametrize("data", BAD, ids=str)
def test_what_is_no_provenance(data: Any) -> None:
    with pytest.raises(StateError, match=r"^provenance: expected"):
        Provenance.from_data(data)
