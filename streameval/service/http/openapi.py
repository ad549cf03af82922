"""The description of the API that ``/openapi.json`` serves, made of the answers' types."""

from __future__ import annotations

import functools
import json
from typing import Any

import msgspec

from streameval.metrics.curves import EVERY_SERVED_CURVE
from streameval.service.http.api import (
    ENDPOINTS,
    EVENT,
    STATUS,
    Accepted,
    Alive,
    CaughtUp,
    Endpoint,
    Parameter,
    Ready,
)
from streameval.service.http.errors import Error

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
    "name": {"schema": {"enum": list(EVERY_SERVED_CURVE)}, "description": "The curve."},
    "metric": {"schema": {"type": "string"}, "description": "The metric."},
}
_TEXT = {"schema": {"type": "string"}}


@functools.cache
def openapi() -> dict[str, Any]:
    """The document, OpenAPI 3.1; callers do not change it."""
    shapes = [*(one.shape for one in ENDPOINTS.values()), EVENT, STATUS, Alive, Ready, CaughtUp]
    _, found = msgspec.json.schema_components([*shapes, Accepted, Error], ref_template=_REF)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "streameval",
            "version": "1",
            "description": "A run's numbers, and posts of events. Every answer is out of the "
            "newest snapshot, which the run publishes after each checkpoint.",
        },
        "paths": {path: {"get": _operation(path, one)} for path, one in ENDPOINTS.items()}
        | _other_paths(),
        "components": {
            "schemas": {name: _tidied(schema) for name, schema in sorted(found.items())},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "streameval_session"},
            },
            "responses": {name: _answer(text, "Error") for name, text in _FAULTS.values()},
        },
        "security": [{}, {"token": []}, {"session": []}],
    }


@functools.cache
def openapi_text() -> bytes:
    """The document as it is served."""
    return (_lines(openapi()) + "\n").encode()


def _other_paths() -> dict[str, Any]:
    """The paths that are not answered from a snapshot."""
    status = _get("What the run is and how it does.", "Status", "400", "401", "429")
    events = _get(
        "Server-sent events: one named snapshot after each publish, its data a SnapshotEvent; "
        "the newest at once. A slow reader skips some.",
        "text/event-stream",
        *("401", "429", "503"),
    )
    files = _get(
        "The pages' files; grafana_dashboard.json and prometheus_rules.yml among them.",
        "*/*",
        *("401", "429", "404"),
    )
    files["get"]["parameters"] = [
        {"name": "name", "in": "path", "required": True, **_TEXT, "description": "The file."}
    ]
    description = _get("This description.", "application/json", "401", "429")
    return {
        "/api/status": status,
        "/api/events": events,
        "/metrics": _get("Metrics for Prometheus, text format 0.0.4.", "text/plain", "401", "429"),
        "/healthz": _probe("Alive.", "Alive", "Alive."),
        "/livez": _probe(
            "Alive: the loop makes steps.",
            "Alive",
            "The loop makes steps.",
            "The loop has made no step for serve.live_age.",
        ),
        "/caughtup": _probe(
            "Caught up, and checkpointing.",
            "CaughtUp",
            "Caught up, and checkpointing.",
            "Behind, or no longer checkpointing.",
        ),
        "/readyz": _probe(
            "Ready: the store is restored, and requests are answered.",
            "Ready",
            "Requests are answered.",
            "Nothing has been published yet.",
        ),
        "/openapi.json": description,
        "/docs": _get("This description as a page.", "text/html", "401", "429"),
        "/static/{name}": files,
        "/": _get("The dashboard.", "text/html", "401", "429"),
        "/v1/predictions": _post("predictions"),
        "/v1/labels": _post("labels"),
    }


def _get(summary: str, content: str, *faults: str) -> dict[str, Any]:
    """A path that answers with a type of content, or a struct as JSON."""
    answer = {"description": summary, "content": {content: _TEXT}}
    if "/" not in content:
        answer = _answer(summary, content)
    return {"get": {"summary": summary, "responses": {"200": answer, **_faults(*faults)}}}


def _probe(summary: str, shape: str, good: str, bad: str = "") -> dict[str, Any]:
    """A path that is answered without the token."""
    answers = {"200": _answer(good, shape)} | ({"503": _answer(bad, shape)} if bad else {})
    return {"get": {"summary": summary, "responses": answers, "security": []}}


def _post(kind: str) -> dict[str, Any]:
    summary = (
        f"Post {kind}, a JSON object a line. Answered when they are durable. Posting again is "
        "harmless: an id counts once."
    )
    faults = {
        "403": "Sent by a page of another site.",
        "404": "This run takes no posts.",
        "408": "The body took too long.",
        "413": "The body or a line is too large; nothing of it was taken.",
        "415": "The body is compressed.",
        "503": "The inbox is full; nothing was taken. Retry-After says when to send it again.",
    }
    answers = {
        "202": _answer(summary, "Accepted"),
        "400": _answer("Not UTF-8, empty, or broken off.", "Error"),
        **_faults("401", "429"),
        **{code: _answer(text, "Error") for code, text in faults.items()},
    }
    body = {"application/x-ndjson": _TEXT, "application/json": {"schema": {"type": "object"}}}
    request = {"required": True, "content": body}
    return {"post": {"summary": summary, "responses": answers, "requestBody": request}}


def _faults(*codes: str) -> dict[str, Any]:
    return {code: {"$ref": f"#/components/responses/{_FAULTS[code][0]}"} for code in codes}


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
    named = own or any(parameter.name == "slice" for parameter in endpoint.parameters)
    answers = {"200": _answer(endpoint.summary, endpoint.shape.__name__)}
    faults = _faults(*(code for code in _FAULTS if named or code != "404"))
    parameters = [
        *({"name": name, "in": "path", "required": True, **_PATH_PARAMETERS[name]} for name in own),
        *map(_parameter, endpoint.parameters),
    ]
    return {
        "summary": endpoint.summary,
        "responses": answers | faults,
        **({"parameters": parameters} if parameters else {}),
    }


def type_text(schema: dict[str, Any]) -> str:
    """A schema's type, as TypeScript writes it."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(json.dumps(one) for one in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(type_text(one) for one in schema["anyOf"])
    kinds = schema["type"]
    if isinstance(kinds, list):
        return " | ".join(type_text({"type": one}) for one in kinds)
    if kinds == "array":
        return f"Array<{type_text(schema['items'])}>"
    if kinds == "object":
        return f"Record<string, {type_text(schema['additionalProperties'])}>"
    return "number" if kinds == "integer" else str(kinds)


def _answer(text: str, name: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": _REF.format(name=name)}}}
    return {"description": text, "content": content}


def _parameter(given: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "maxLength": given.longest}
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
    tidy: dict[str, Any] = {
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
