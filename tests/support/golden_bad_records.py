"""Bad records by field and carrier; ``tests/golden/bad_records.json`` has their errors as text.

Run as a module it writes the file again.
"""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import streameval as se
from streameval.cli import main
from streameval.errors import StreamevalError
from streameval.service.config.settings import EvaluatorSettings, FieldSettings
from streameval.service.decode.decoder import RecordDecoder
from streameval.service.sources.raw import RawBatch

FILE = Path(__file__).parents[1] / "golden" / "bad_records.json"

_NOW = 1_800_000_000.0

GOOD: dict[str, str] = {
    "label": "1",
    "guess": "0",
    "score": "0.5",
    "p": '{"0": 0.5, "1": 0.5}',
    "w": "2",
    "at": '"2026-01-01T00:00:00Z"',
    "country": '"PT"',
    "id": '"a"',
}
"""The fields of a good record, as JSON."""

_BINARY = {"y_true": "label", "score": "score"}
_SEVERAL = {"y_true": "label", "proba": "p", "task": "multiclass"}

ROLES: dict[str, tuple[str, dict[str, Any]]] = {
    "y_true": ("label", _BINARY),
    "y_pred": ("guess", {"y_true": "label", "y_pred": "guess"}),
    "score": ("score", _BINARY),
    "proba": ("p", _SEVERAL),
    "listed": ("p", _SEVERAL | {"labels": [0, 1]}),
    "positive": ("p", {"y_true": "label", "proba": "p", "positive": 1}),
    "weight": ("w", _BINARY | {"weight": "w"}),
    "time": ("at", _BINARY | {"time": "at", "window": se.Fading("1h")}),
    "seconds": ("at", _BINARY | {"time": "at", "time_unit": "s", "window": se.Fading("1h")}),
    "slice": ("country", _BINARY | {"by": "country"}),
    "id": ("id", {}),
    "number": ("score", {"y_true": "score", "y_pred": "w", "task": "regression"}),
    "set": (
        "country",
        {"y_true": "country", "y_pred": "country", "task": "multilabel", "label_separator": "|"},
    ),
    "indicator": ("label", {"y_true": "lab*", "y_pred": "lab*", "task": "multilabel"}),
}
"""From each use of a field to its name and the arguments of ``evaluate``; ids are the service's."""

VALUES: tuple[str, ...] = (
    *("null", "NaN", "-Infinity", "1e999", "-0.0", "0.7", "-2.5", "1e17", "2", "true", "false"),
    *('"0.9"', '""', '"1"', '"NA"', '"a\\nb"', '"\\ud800"', '"(missing)"', "[1]", "[]", "{}"),
    *("[0.5, 0.5]", "[0.5, NaN]", "[0.5, null]", "[0.5, 0.25, 0.25]", '["0.5", 0.5]'),
    *('{"0": "1"}', '{"0": NaN}', '{"0": null}', '{"0": 0.5}', '{"a": 1}', '{"0": 2, "1": -1}'),
    *('{"0": 0.5, "1": 0.5}', "5000000000", "1772323201000", '"2026-01-01T00:00:00"'),
    *('"2026-01-01"', '"yesterday"', "9" * 400, "9" * 30, '"' + "x" * 1025 + '"'),
)
"""Values of a field, as JSON."""

LINES: tuple[bytes, ...] = (
    *(b"", b" ", b"{", b"}", b"[", b"[]", b"{}", b"17", b"null", b'"text"', b"nonsense", b"[1, 2]"),
    *(
        b'{"label": 1',
        b'{"label": 1, "score": 1} {"label": 2}',
        b"\xef\xbb\xbf{}",
    ),
    *(b'{"label": "\xff", "score": 1}', b'{"label": 1, "score": 1, "x": "\xe9"}'),
    *(b'{"label": 1, "scores": 0.5}', b'{"score": 0.5}', b'{"label": 1, "score": 1, "x": NaN}'),
    *(b'{"label": 1, "score": 1, "x": "\\ud800"}', b'{"label": 1, "label": 2, "score": 0.5}'),
    *(b'{"label": 1, "score": 0.5, "score": "x"}', b'\xef\xbb\xbf{"label": 1, "score": 0.5}'),
    *(b'{"a":' * 50_000, b"[" * 50_000, b'{"label": 1, "score": ' + b"1" * 5000 + b"}"),
    *(b'{"\\u006cabel": 1, "score": 0.5}', b'{"label":\t1,\r"score" : 5E-1}', b"\x00", b"1,0.5"),
    *(b'{"label": 1, "score": 01}', b'{"label": 1, "score": .5}', b'{"label": 1, "score": +1}'),
    *(b'{"label": 1, "score": 1 /**/}', b"{'label': 1, 'score': 1}", b'{"label": -0, "score": -0}'),
)
"""Lines whose fault is not the value of one field, or that count.

A trailing comma is none of them: the words are those of Python's parser, others from 3.13 on.
"""

ROWS: tuple[bytes, ...] = (
    *(b"1", b"1,0.5,2", b'"1",0.5', b'"1,0.5', b'"1"x,0.5', b"1,\xff", b"1,0.5\r", b",", b"1,"),
    *(b"1,1_000", b"1, 0.5", b"NA,0.5", b"1,NA", b"01,0.5", b"1.0,0.5", b"spam,0.5", b"true,0.5"),
)
"""Rows of CSV under ``label,score``."""

NESTED: tuple[str, ...] = (
    *('{"m": {}}', '{"m": 3}', '{"m": null}', "{}", '{"m": {"s": "x"}}', '{"m": {"s": null}}'),
    *('{"m": {"s": 4}}', '{"m": [1]}', '{"m.s": 4}', '{"m": {"S": 1}}'),
)
"""Records whose score is ``m.s``, without their label."""


def texts(role: str, commanded: Iterable[str] = VALUES) -> dict[str, dict[str, str]]:
    """From each carrier to the text for each value of a field: of its error, or ``counted``.

    Commands are run for the values ``commanded``.
    """
    name, options = ROLES[role]
    found: dict[str, dict[str, str]] = {}
    if role in _SETTINGS:
        found["service"] = _of_service(role, name)
    if options:
        for carrier, carry in _CARRIERS.items():
            found[carrier] = {value: _call(carry, name, value, options) for value in VALUES}
        found["command"] = _commanded(name, options, commanded)
    return found


def line_texts() -> dict[str, dict[str, str]]:
    """The same for whole lines, rows and records with nested fields."""
    fields = FieldSettings(score="score", y_true="label")
    decoder = _decoder(fields, {})
    nested = FieldSettings(score="m.s", y_true="label")
    inner = [f'{{"label": 1, {text[1:]}'.replace(", }", "}") for text in NESTED]
    below = _BINARY | {"score": "m.s"}
    good = '{"label": 1, "m": {"s": 0}}'
    return {
        "service": {key_of(line): _decoded(decoder, line) for line in LINES},
        "jsonl": {
            key_of(line): _evaluated("a.jsonl", b"".join(_others()) + line, _BINARY)
            for line in LINES
        },
        "json": {
            key_of(line): _evaluated("a.json", _as_array([*_others(), line, *_others()]), _BINARY)
            for line in LINES
        },
        "csv": {
            key_of(row): _evaluated("a.csv", b"label,score\n0,0.5\n1,0.25\n" + row, _BINARY)
            for row in ROWS
        },
        "nested service": {line: _decoded(_decoder(nested, {}), line.encode()) for line in inner},
        "nested jsonl": {
            line: _evaluated("a.jsonl", f"{good}\n{line}\n".encode(), below) for line in inner
        },
    }


def key_of(value: str | bytes) -> str:
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
    return text if len(text) <= 60 else f"{text[:12]}… ({len(text)})"


def _line(name: str, value: str) -> bytes:
    fields = GOOD | {name: value}
    texts = (f'"{key}": {text}' for key, text in fields.items())
    return ("{" + ", ".join(texts) + "}\n").encode()


def _others() -> Iterator[bytes]:
    """Records of both classes, before and after the bad one."""
    yield _line("label", "0")
    yield _line("label", "1")


def _lines(name: str, value: str) -> list[bytes]:
    return [*_others(), _line(name, value), *_others()]


def _as_array(lines: list[bytes]) -> bytes:
    return b"[" + b",".join(lines) + b"]"


def _csv(name: str, value: str) -> tuple[str, bytes]:
    """The value as a data frame writes it: text as it is, null as an empty cell."""
    text = json.loads(value) if value.startswith('"') else value if value != "null" else ""
    plain = {key: good.strip('"') if good.startswith('"') else good for key, good in GOOD.items()}
    rows = [plain | {"label": "0"}, plain | {"label": "1"}, plain | {name: text}]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([GOOD, *(row.values() for row in rows)])
    return "a.csv", file.getvalue().encode(errors="surrogatepass")


def _columns(name: str, value: str, bad: int) -> dict[str, list[Any]]:
    """Three rows, of which the last ``bad`` have the value."""
    columns = {key: [json.loads(text)] * 3 for key, text in GOOD.items()}
    columns["label"] = [0, 1, 0]
    columns[name][3 - bad :] = [json.loads(value)] * bad
    return columns


def _parquet(name: str, value: str) -> tuple[str, bytes]:
    import pyarrow
    import pyarrow.parquet

    target = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(_columns(name, value, 3)), target)
    return "a.parquet", target.getvalue()


_CARRIERS: dict[str, Callable[[str, str], Any]] = {
    "jsonl": lambda name, value: ("a.jsonl", b"".join(_lines(name, value))),
    "json": lambda name, value: ("a.json", _as_array(_lines(name, value))),
    "csv": _csv,
    "parquet": _parquet,
    "mapping": lambda name, value: _columns(name, value, 1),
}


def _call(carried: Callable[[str, str], Any], name: str, value: str, options: Any) -> str:
    try:
        data = carried(name, value)
    except Exception as error:  # Arrow has no such column
        return f"not carried: {type(error).__name__}"
    if isinstance(data, tuple):
        return _evaluated(*data, options)
    return _outcome(lambda: se.evaluate(data, **options))


def _evaluated(file: str, data: bytes, options: dict[str, Any]) -> str:
    with _directory():
        Path(file).write_bytes(data)
        return _outcome(lambda: se.evaluate(file, **options))


def _outcome(call: Callable[[], Any]) -> str:
    try:
        evaluator = call()
    except StreamevalError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"raised {type(error).__name__}"
    return f"counted {evaluator.events}" if hasattr(evaluator, "events") else "counted"


@contextmanager
def _directory() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        yield


def _commanded(name: str, options: dict[str, Any], values: Iterable[str]) -> dict[str, str]:
    """The texts of ``streameval evaluate``, which says them in its options."""
    arguments = []
    for key, value in options.items():
        text = ",".join(map(str, value)) if isinstance(value, list) else value
        text = "fading:1h" if key == "window" else text
        arguments += [f"--{'slice' if key == 'by' else key.replace('_', '-')}", str(text)]
    found: dict[str, str] = {}
    for value in values:
        with _directory():
            Path("a.jsonl").write_bytes(b"".join(_lines(name, value)))
            out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
            with redirect_stdout(out), redirect_stderr(err):
                code = main(["evaluate", "a.jsonl", *arguments, "--format", "json"])
            found[value] = f"{code}: {err.getvalue()}"
    return found


def _decoder(fields: FieldSettings, evaluator: dict[str, Any], join: bool = False) -> RecordDecoder:
    return RecordDecoder(fields, EvaluatorSettings(**evaluator), join, 1 << 20, lambda: _NOW)


def _decoded(decoder: RecordDecoder, line: bytes) -> str:
    decoded = decoder.decode(RawBatch("kafka:a/0", "records", [line], range(7, 8), {}))
    if decoded.bad:
        (bad,) = decoded.bad
        return f"{bad.reason} {bad.place}: {bad.detail}"
    return "counted"


_SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "y_true": ({"score": "score"}, {}),
    "y_pred": ({"y_pred": "guess"}, {}),
    "score": ({"score": "score"}, {}),
    "proba": ({"proba": "p"}, {"task": "multiclass"}),
    "listed": ({"proba": "p"}, {"task": "multiclass", "labels": [0, 1]}),
    "positive": ({"score": "score"}, {"positive": "1", "labels": ["0", "1"]}),
    "weight": ({"score": "score", "weight": "w"}, {}),
    "time": ({"score": "score", "time": "at"}, {}),
    "seconds": ({"score": "score", "time": "at", "time_unit": "s"}, {}),
    "slice": ({"score": "score"}, {"slices": ["country"]}),
    "id": ({"score": "score", "id": "id"}, {}),
}


def _of_service(role: str, name: str) -> dict[str, str]:
    fields, evaluator = _SETTINGS[role]
    found = {}
    for value in VALUES:
        given = FieldSettings(y_true="label", **fields)
        decoder = _decoder(given, evaluator, join="id" in fields)
        found[value] = _decoded(decoder, _line(name, value).strip())
    return found


def everything() -> dict[str, dict[str, dict[str, list[str]]]]:
    """All texts by use and carrier, each with the values that it is for, as the file has them."""
    found = {role: texts(role) for role in ROLES} | {"lines": line_texts()}
    return {
        use: {carrier: grouped(of) for carrier, of in of_use.items()}
        for use, of_use in found.items()
    }


def grouped(of: dict[str, str]) -> dict[str, list[str]]:
    """From each text to the values that it is for."""
    groups: dict[str, list[str]] = {}
    for value, text in of.items():
        groups.setdefault(text, []).append(key_of(value))
    return groups


if __name__ == "__main__":
    uses = [
        f"{json.dumps(use)}: {{\n"
        + ",\n".join(f"{json.dumps(carrier)}: {json.dumps(of)}" for carrier, of in of_use.items())
        + "\n}"
        for use, of_use in everything().items()
    ]
    FILE.write_text("{\n" + ",\n".join(uses) + "\n}\n")
