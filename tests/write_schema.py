"""Writes what is generated from the snapshot's structs and the table of endpoints.

    python -m tests.write_schema

``serve/openapi.json``: its components and the paths under ``/api`` that the table has; the
other paths in it are written by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

import streameval
from streameval.serve.answers import ENDPOINTS, EVENT, STATUS, Accepted, Alive, Endpoint, Ready
from streameval.serve.asking import LONGEST_TEXT, Parameter
from streameval.serve.fault import Error
from streameval.stream.snapshot import SERVED_CURVES

__all__ = ["OPENAPI", "generated"]

OPENAPI = Path(streameval.__file__).parent / "serve" / "openapi.json"

_COLUMNS = 100
_REF = "#/components/schemas/{name}"
_FAULTS = {
    "400": ("BadParameter", "A parameter that is unknown or has a wrong value."),
    "401": ("NoToken", "The token is missing or wrong."),
    "404": ("NoSuchName", "No such name."),
    "429": ("WrongTokens", "Too many wrong tokens of this client are being compared."),
    "503": ("Unpublished", "Nothing has been published yet."),
}
_PATH_PARAMETERS: dict[str, dict[str, Any]] = {
    "name": {"schema": {"enum": list(SERVED_CURVES)}, "description": "The curve."},
    "metric": {"schema": {"type": "string"}, "description": "The metric."},
}


def generated() -> dict[Path, str]:
    """Every generated file and what it should hold."""
    document = json.loads(OPENAPI.read_text(encoding="utf-8"))
    shapes = [*(one.shape for one in ENDPOINTS.values()), EVENT, STATUS, Alive, Ready, Accepted]
    _, found = msgspec.json.schema_components([*shapes, Error], ref_template=_REF)
    document["components"]["schemas"] = {
        name: _tidied(schema) for name, schema in sorted(found.items())
    }
    document["components"]["responses"] = {
        name: _answer(text, "Error") for name, text in _FAULTS.values()
    }
    paths = {path: {"get": _operation(path, one)} for path, one in ENDPOINTS.items()}
    byhand = {path: one for path, one in document["paths"].items() if path not in paths}
    document["paths"] = paths | byhand
    return {OPENAPI: _lines(document) + "\n"}


def _lines(value: Any, indent: int = 0) -> str:
    """JSON with whatever fits on a line of 100 columns on one."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) + indent < _COLUMNS or not isinstance(value, dict | list):
        return text
    inner = " " * (indent + 2)
    if isinstance(value, list):
        items = [_lines(one, indent + 2) for one in value]
    else:
        items = [f"{json.dumps(key)}: {_lines(one, indent + 2)}" for key, one in value.items()]
    first, last = "[]" if isinstance(value, list) else "{}"
    body = f",\n{inner}".join(items)
    return f"{first}\n{inner}{body}\n{' ' * indent}{last}"


def _operation(path: str, endpoint: Endpoint) -> dict[str, Any]:
    own = [piece[1:-1] for piece in path.split("/") if piece.startswith("{")]
    answers = {"200": _answer(endpoint.summary, endpoint.shape.__name__)}
    faults = {
        code: {"$ref": f"#/components/responses/{name}"}
        for code, (name, _) in _FAULTS.items()
        if own or code != "404"
    }
    parameters = [
        *({"name": name, "in": "path", "required": True, **_PATH_PARAMETERS[name]} for name in own),
        *map(_parameter, endpoint.parameters),
    ]
    return {
        "summary": endpoint.summary,
        "responses": answers | faults,
        **({"parameters": parameters} if parameters else {}),
    }


def _answer(text: str, name: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": _REF.format(name=name)}}}
    return {"description": text, "content": content}


def _parameter(given: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "maxLength": LONGEST_TEXT}
    if isinstance(given.default, int):
        schema = {"type": "integer", "minimum": 0, "maximum": given.most}
    elif given.choices:
        schema = {"enum": list(given.choices)}
    if given.default != "":
        schema["default"] = given.default
    described = {"schema": schema, "description": given.about}
    return {"name": given.name, "in": "query", "required": False, **described}


def _tidied(schema: Any) -> Any:
    """The schema without titles, and with a union of plain types as a list of them."""
    if isinstance(schema, list):
        return [_tidied(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    tidy = {
        key: " ".join(value.split()) if key == "description" else _tidied(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }
    united = tidy.get("anyOf", [])
    if united and all(one.keys() == {"type"} for one in united):
        types = [one["type"] for one in united]
        if "number" in types:  # which an integer is
            types.remove("integer") if "integer" in types else None
        del tidy["anyOf"]
        tidy["type"] = types if len(types) > 1 else types[0]
    return tidy


def main() -> None:
    """Write the files that differ, and name them."""
    for path, text in generated().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"{path} written")


if __name__ == "__main__":
    main()
