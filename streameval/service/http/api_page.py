"""The page of the API at ``/docs``: ``/openapi.json`` for people, with a command for each path."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from html import escape
from typing import Any

from streameval.service.http.openapi import openapi, type_text

_ADDRESS = "http://127.0.0.1:8642"
_FILLED = {"/static/{name}": "/static/prometheus_rules.yml"}
_POSTED = {
    "/v1/predictions": '{"id": "1", "score": 0.83}',
    "/v1/labels": '{"id": "1", "y_true": true}',
}
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>API · streameval</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<script src="/static/theme.js"></script>
<link rel="stylesheet" href="/static/style.css">
</head>
<body class="docs">
<header class="top"><div class="bar"><h1 class="brand">streameval API</h1>
<a href="/">Dashboard</a><a href="/openapi.json">openapi.json</a></div></header>
<main id="main">
"""


@functools.cache
def api_page() -> bytes:
    """The page as it is served."""
    document = openapi()
    operations = [
        (f"{method.upper()} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    body = [
        f"<p>{escape(document['info']['description'])} The commands below use the usual address; "
        "a run prints its own. With a token, add "
        '<code>-H "Authorization: Bearer $TOKEN"</code>.</p>',
        '<nav aria-label="Paths" class="paths"><ul>',
        *(
            f'<li><a href="#{_anchor(name)}"><code>{escape(name)}</code></a> '
            f"{escape(operation['summary'])}</li>"
            for name, operation in operations
        ),
        "</ul></nav>",
        *(_operation(name, one, document["components"]["responses"]) for name, one in operations),
        "<h2>Types</h2>",
        *(_type(name, schema) for name, schema in document["components"]["schemas"].items()),
        "</main>\n</body>\n</html>\n",
    ]
    return (_HEAD + "\n".join(body)).encode()


def _anchor(name: str) -> str:
    return re.sub(r"\W+", "-", name).strip("-")


def _operation(name: str, given: dict[str, Any], shared: dict[str, Any]) -> str:
    """A path with its parameters and answers; ``shared`` answers are those of several paths."""
    parameters = [
        (
            f"<code>{one['name']}</code>",
            _linked({"type": "string"} | one["schema"]),
            escape(one["description"])
            + (
                f" By default {json.dumps(usual)}."
                if (usual := one["schema"].get("default"))
                else ""
            ),
        )
        for one in given.get("parameters", ())
    ]
    answers = []
    for code, answer in given["responses"].items():
        answer = shared[answer["$ref"].rpartition("/")[2]] if "$ref" in answer else answer
        ((content, of),) = answer["content"].items()
        shape = _linked(of["schema"]) if "$ref" in of["schema"] else content
        answers.append((code, shape, escape(answer["description"])))
    path = name.partition(" ")[2]
    command = f"curl {_ADDRESS}" + _FILLED.get(path, path).format(name="roc", metric="accuracy")
    if path in _POSTED:
        command += f" --data-binary '{_POSTED[path]}'"
    return (
        f'<section class="panel" aria-labelledby="{_anchor(name)}">'
        f'<h2 id="{_anchor(name)}"><code>{escape(name)}</code></h2>'
        f'<p>{escape(given["summary"])}</p><pre tabindex="0">{escape(command)}</pre>'
        + _table(f"Parameters of {name}", ("Parameter", "Type", "Meaning"), parameters)
        + _table(f"Answers of {name}", ("Status", "Answer", "Meaning"), answers)
        + "</section>"
    )


def _type(name: str, schema: dict[str, Any]) -> str:
    """A type with its fields; a field with a question mark may be missing."""
    fields = [
        (
            f"<code>{key}{'' if key in schema['required'] else '?'}</code>",
            _linked(one),
            escape(one.get("description", "")),
        )
        for key, one in schema["properties"].items()
    ]
    return (
        f'<section class="panel" id="type-{name}" aria-labelledby="head-{name}">'
        f'<h3 id="head-{name}">{name}</h3><p>{escape(schema.get("description", ""))}</p>'
        f"{_table(f'Fields of {name}', ('Field', 'Type', 'Meaning'), fields)}</section>"
    )


def _linked(schema: dict[str, Any]) -> str:
    """A type with links to the types that it names."""
    names = "|".join(openapi()["components"]["schemas"])
    link = r'<a href="#type-\1">\1</a>'
    linked = re.sub(rf"\b({names})\b", link, escape(type_text(schema)))
    return f"<code>{linked}</code>"


def _table(caption: str, heads: Iterable[str], rows: list[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{one}</th>' for one in heads)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
    )
