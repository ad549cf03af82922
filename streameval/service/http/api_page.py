"""The page of the API at ``/docs``: ``/openapi.json`` for people, with a command for each path."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from html import escape
from typing import Any
from urllib.parse import urlencode

from streameval.service.http.openapi import openapi, type_text

_ADDRESS = "http://127.0.0.1:8642"
_EXAMPLES = {
    "{name}": "roc",
    "{metric}": "accuracy",
    "/v1/predictions": '{"id": "1", "score": 0.83}',
    "/v1/labels": '{"id": "1", "y_true": true}',
}
_QUERIES = {"/api/slices": {"sort": "accuracy", "limit": 5}}
_FILE = "prometheus_rules.yml"
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
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    schemas = document["components"]["schemas"]
    body = [
        f"<p>{escape(document['info']['description'])} The commands below use the usual address; "
        "a run prints its own. With a token, add "
        '<code>-H "Authorization: Bearer $TOKEN"</code>.</p>',
        '<nav aria-label="Paths" class="paths"><ul>',
        *(
            f'<li><a href="#{_anchor(method, path)}"><code>{method.upper()} {escape(path)}</code>'
            f"</a> {escape(operation['summary'])}</li>"
            for path, method, operation in operations
        ),
        "</ul></nav>",
        *(_operation(path, method, one, document) for path, method, one in operations),
        "<h2>Types</h2>",
        *(_type(name, schema) for name, schema in schemas.items()),
        "</main>\n</body>\n</html>\n",
    ]
    return (_HEAD + "\n".join(body)).encode()


def _anchor(method: str, path: str) -> str:
    return re.sub(r"\W+", "-", f"{method}{path}").strip("-")


def _operation(path: str, method: str, given: dict[str, Any], document: dict[str, Any]) -> str:
    anchor = _anchor(method, path)
    parameters = [
        (
            f"<code>{escape(one['name'])}</code>",
            escape({"path": "in the path"}.get(one["in"], "query")),
            _linked(type_text({"type": "string"} | one["schema"])),
            escape(json.dumps(one["schema"]["default"])) if "default" in one["schema"] else "",
            escape(one["description"]),
        )
        for one in given.get("parameters", ())
    ]
    answers = []
    for code, answer in given["responses"].items():
        if "$ref" in answer:
            answer = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
        ((content, of),) = answer["content"].items()
        shape = _linked(type_text(of["schema"])) if "$ref" in of["schema"] else escape(content)
        answers.append((code, shape, escape(answer["description"])))
    heads = ("Parameter", "In", "Type", "Default", "Meaning")
    return (
        f'<section class="panel" aria-labelledby="{anchor}">'
        f'<h2 id="{anchor}"><code>{method.upper()} {escape(path)}</code></h2>'
        f"<p>{escape(given['summary'])}</p>"
        f'<pre tabindex="0">{escape(_command(path, method))}</pre>'
        + (_table(f"Parameters of {path}", heads, parameters) if parameters else "")
        + _table(f"Answers of {path}", ("Status", "Answer", "Meaning"), answers)
        + "</section>"
    )


def _command(path: str, method: str) -> str:
    """How to call it with curl."""
    name = _FILE if path.startswith("/static") else _EXAMPLES["{name}"]
    address = _ADDRESS + path.format(name=name, metric=_EXAMPLES["{metric}"])
    if query := urlencode(_QUERIES.get(path, {})):
        address = f"'{address}?{query}'"
    return f"curl {address}" + (f" --data-binary '{_EXAMPLES[path]}'" if method == "post" else "")


def _type(name: str, schema: dict[str, Any]) -> str:
    fields = [
        (
            f"<code>{escape(key)}</code>",
            _linked(type_text(one)),
            "" if key in schema["required"] else "may be missing",
            escape(one.get("description", "")),
        )
        for key, one in schema["properties"].items()
    ]
    about = escape(schema.get("description", ""))
    return (
        f'<section class="panel" id="type-{name}" aria-labelledby="head-{name}">'
        f'<h3 id="head-{name}">{name}</h3><p>{about}</p>'
        f"{_table(f'Fields of {name}', ('Field', 'Type', 'Presence', 'Meaning'), fields)}</section>"
    )


def _linked(text: str) -> str:
    """A type with links to the types that it names."""
    names = openapi()["components"]["schemas"]
    return "<code>{}</code>".format(
        re.sub(
            r"[A-Z]\w+",
            lambda found: (
                f'<a href="#type-{found[0]}">{found[0]}</a>' if found[0] in names else found[0]
            ),
            escape(text),
        )
    )


def _table(caption: str, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f'<th scope="col">{one}</th>' for one in heads)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
        f'<caption class="visually-hidden">{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
    )
