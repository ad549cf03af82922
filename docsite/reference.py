"""The pages of the reference, from the registries, settings, commands and schemas of the package.

Each function returns pages: a dictionary from path to Markdown. ``tests/docs`` compares them with
what is public.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.main import get_command

import streameval
from docsite.markdown import code, table
from streameval import metrics
from streameval.cli.app import COMMANDS, POSIX_COMMANDS, app_of
from streameval.evaluator.public_class import INTERNAL
from streameval.metrics import METRICS, ROWS
from streameval.metrics.metric import BOTH, FAMILIES, Metric
from streameval.plots import DISPLAYS
from streameval.service.config.documents import Key, configuration_keys, template
from streameval.service.config.settings import RunSettings
from streameval.service.http.openapi import openapi
from streameval.uncertainty.methods import METHODS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

Pages = dict[str, str]


def urls() -> dict[str, str]:
    """The addresses of the project, which are in ``[project.urls]`` and nowhere else."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    found: dict[str, str] = settings["project"]["urls"]
    return found


@functools.cache
def pages() -> Pages:
    """Every page that is made from the code."""
    return {
        **python_pages(),
        **metric_pages(),
        "reference/commands.md": commands_page(of_run=False),
        "reference/commands-run.md": commands_page(of_run=True),
        "reference/configuration.md": configuration_page(),
        "reference/configuration-file.md": configuration_file_page(),
        "reference/http.md": http_page(),
        "reference/http-answers.md": http_answers_page(),
        "reference/prometheus.md": prometheus_page(),
    }


# Python


_ADAPTERS = ("spark", "dask", "beam", "mlflow", "tensorboard", "torchmetrics")


def public_modules() -> list[str]:
    """The modules whose names are public, besides ``streameval`` itself."""
    found = ["streameval.metrics", "streameval.plots", "streameval.integrations.river"]
    found += [f"streameval.integrations.{name}" for name in _ADAPTERS]
    return found


def public_names() -> Iterator[str]:
    """The full name of everything public that the reference has to show."""
    yield from (f"streameval.{name}" for name in streameval.__all__ if name[0] != "_")
    for module in public_modules():
        yield from (f"{module}.{name}" for name in names_of(module))


def names_of(module: str) -> list[str]:
    """The public names of a module, from its source where what it needs is not installed."""
    try:
        return list(importlib.import_module(module).__all__)
    except ImportError:
        source = Path(streameval.__file__).parents[1] / (module.replace(".", "/") + ".py")
        listed = re.search(r"^__all__ = (\[.*?\])", source.read_text("utf-8"), re.M | re.S)
        return re.findall(r'"(\w+)"', listed[1]) if listed else []


_METHODS = {"ScoreIndex": "streameval.states.ranking.reference_index.ReferenceScoreIndex"}
"""The class with the methods of a public name that is chosen when it is imported."""


_INHERITING = {"streameval.Comparison", "streameval.Evaluator"}
"""Classes that share methods with one that has no page of its own."""


_READING = {
    "bounds", "check_expected", "classification_report", "confusion", "curve", "fairness",
    "interval", "label_counts", "label_table", "one_vs_rest", "plot", "report", "series",
    "slice_report", "thresholds", "value",
}  # fmt: skip
"""Members of an Evaluator that have a page of their own: with all of them one would be too long."""


def _identifier(name: str, level: int = 2) -> str:
    methods = _METHODS.get(name.rpartition(".")[2])
    found = f"::: {name}\n    options:\n      heading_level: {level}\n"
    if name.startswith("streameval.plots.") or name in _INHERITING:
        found += "      inherited_members: true\n"
    if name in _INHERITING:
        hidden = INTERNAL | (_READING if name == "streameval.Evaluator" else set())
        found += f"      filters: ['!^_', '!^({'|'.join(sorted(hidden))})$']\n"
    found += "\n"
    if methods:
        found += f"::: {methods}\n    options:\n      show_docstring_description: false\n\n"
    return found


def python_pages() -> Pages:
    """A page for each public class and function, one for errors, one for each module."""
    found: Pages = {}
    errors, index = [], []
    for name in streameval.__all__:
        value = getattr(streameval, name)
        full = f"streameval.{name}"
        if inspect.isclass(value) and issubclass(value, Exception):
            errors.append(full)
            index.append((full, value, "errors.md"))
        elif callable(value):
            found[f"reference/python/{name}.md"] = f"---\ntitle: {name}\n---\n\n" + _identifier(
                full, 1
            )
            index.append((full, value, f"{name}.md"))
    found["reference/python/Evaluator-reading.md"] = (
        "# Reading an Evaluator\n\nMethods and attributes of [`Evaluator`](Evaluator.md) that "
        "give numbers.\n\n"
        + "".join(_identifier(f"streameval.Evaluator.{name}") for name in sorted(_READING))
    )
    found["reference/python/errors.md"] = "# Errors\n\n" + "".join(map(_identifier, errors))
    rows = [
        [f"[`{name}`]({page}#{name})", _summary(inspect.getdoc(value))]
        for name, value, page in index
    ]
    text = "# Python\n\nEvery public name; an import path that is not here may change.\n\n"
    text += table(["name", "is"], rows) + "\n## Modules\n\n"
    modules = []
    for module in public_modules():
        short = module.rpartition(".")[2]
        if module == "streameval.metrics":
            modules.append(["[`streameval.metrics`](metrics.md)", "Metrics as functions of states"])
            found |= _metrics_module()
            continue
        pages = {short: f"# {module}\n\n"}
        for name in names_of(module):
            if name.endswith("Display") and name != "Display":
                pages[name] = f"---\ntitle: {name}\n---\n\n{_pictured(f'{module}.{name}', 1)}"
            else:
                pages[short] += _identifier(f"{module}.{name}")
        found |= {f"reference/python/{page}.md": text for page, text in pages.items()}
        modules.append([f"[`{module}`]({short}.md)", f"{len(names_of(module))} names"])
    found["reference/python/index.md"] = text + table(["module", "holds"], modules)
    return found


def _pictured(name: str, level: int) -> str:
    """A display with its picture."""
    found = _identifier(name, level)
    for key, display in DISPLAYS.items():
        if name == f"streameval.plots.{display.__name__}":
            return found + f"![{key}](../../figures/displays/{key}.svg){{ .shown }}\n\n"
    return found


_CURVES = ("binormal", "calibration", "curves", "score_profiles")
"""The modules of streameval.metrics whose names are on the page of curves."""


def _metrics_module() -> Pages:
    """The page of streameval.metrics, and that of its curves; metrics are on their own pages."""
    names = [name for name in metrics.__all__ if callable(getattr(metrics, name))]
    tables = [name for name in metrics.__all__ if name not in names]
    of_rows = set(metric_functions())
    curves = [
        name
        for name in names
        if getattr(metrics, name).__module__.rpartition(".")[2] in _CURVES and name not in of_rows
    ]
    others = [name for name in names if name not in of_rows and name not in curves]
    intro = (
        "# streameval.metrics\n\nMetrics, curves and cut-points as functions of states, and the "
        "tables that hold them by name: "
        + ", ".join(f"`{name}`" for name in tables)
        + ". The function of each metric is on its page in [Metrics](../metrics/index.md), and "
        "[curves](metrics-curves.md) have a page too.\n\n"
        "The first argument is the state: `counts` of labels, an `index` of scores in any unit, "
        "`sums` of losses or of bins, `scores` of every label by true class. `undefined=` is a "
        "number in place of an undefined value, which is otherwise `nan` with a reason. s are all "
        "events, P positive and N negative ones.\n\n"
    )

    def listed(found: Iterable[str]) -> str:
        return "".join(_identifier(f"streameval.metrics.{name}") for name in found)

    return {
        "reference/python/metrics.md": intro + listed(others),
        "reference/python/metrics-curves.md": "# streameval.metrics: curves\n\nCurves as "
        "functions of a state, and what they return.\n\n" + listed(curves),
    }


def metric_functions() -> dict[str, str]:
    """Each public function that computes a metric -> the page of that metric."""
    return {
        name: base
        for base, group in metric_groups().items()
        for name in (_function(metric).__name__ for metric in group)
        if name in metrics.__all__
    }


def _summary(text: str | None) -> str:
    first = (text or "").partition("\n\n")[0]
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", first).replace("``", "`")


# Metrics

AVERAGES = ("macro", "micro", "weighted", "samples")


def base_of(metric: Metric) -> str:
    """The name of the page of a metric: averages share that of their class metric."""
    rule = metric.rule
    if rule is not None and metric.name in (rule.name, *(f"{rule.name}_{one}" for one in AVERAGES)):
        return rule.name
    function = metric.function
    while isinstance(function, functools.partial):
        function = function.func
    name = inspect.unwrap(function).__name__
    return name if name in METRICS else metric.name


def metric_groups() -> dict[str, list[Metric]]:
    """The rows of the registry by page."""
    groups: dict[str, list[Metric]] = {}
    for metric in ROWS:
        groups.setdefault(base_of(metric), []).append(metric)
    return groups


DEFINITIONS = (
    "definitions-multilabel.md",
    "definitions.md",
    "definitions-scores.md",
    "definitions-numbers.md",
)
"""The pages with the formula of every metric; of several the last one's is that of its page."""


def _definitions_page(name: str) -> str:
    """The text of a page of definitions, with its links as the page of a metric has them."""
    text = (DOCS / name).read_text("utf-8")
    return re.sub(r"\]\(([\w.-]*)#", lambda found: f"](../../{found[1] or name}#", text)


def definitions() -> dict[str, dict[str, str]]:
    """What the pages of definitions say of each metric, by the heads of their tables' columns."""
    found: dict[str, dict[str, str]] = {}
    header: list[str] = []
    for line in "\n".join(map(_definitions_page, DEFINITIONS)).splitlines():
        cells = [part.strip() for part in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells[:1] == ["name"]:
            header = cells
        elif not cells:
            header = []
        elif header and cells[0].startswith("`"):
            values = dict(zip(header, cells, strict=False))
            for name in re.findall(r"`(\w+)`", cells[0]):
                found.setdefault(name, {}).update(values)
    return found


def _number(value: float) -> str:
    return {float("inf"): "∞", float("-inf"): "−∞"}.get(value, f"{value:g}".replace("-", "−"))


_BETTER = {"up": "larger is better", "down": "smaller is better", "none": "neither is better"}


def metric_pages() -> Pages:
    """A page for each metric, with its averages, and a table of all."""
    formulas = definitions()
    found: Pages = {}
    rows = []
    for base, group in metric_groups().items():
        found[f"reference/metrics/{base}.md"] = _metric_page(base, group, formulas)
        for name in dict.fromkeys(metric.name for metric in group):
            of_name = [metric for metric in group if metric.name == name]
            tasks = ", ".join(sorted(frozenset().union(*(one.tasks for one in of_name))))
            rows.append([f"[`{name}`]({base}.md)", of_name[0].definition, tasks])
    found["reference/metrics/index.md"] = (
        '# Metrics\n\nEvery metric by name, as `ev["name"]` in Python, `--metrics name` on the '
        "command line and `metrics` in a configuration have it. "
        "[What each number means](../../definitions.md) has the notation, and where sources "
        "disagree.\n\n" + table(["name", "definition", "tasks"], rows)
    )
    return found


def labelled(group: list[Metric]) -> bool:
    """Whether some of the metrics are about events with true labels."""
    return any(metric.tasks & BOTH for metric in group)


def _metric_page(base: str, group: list[Metric], known: Mapping[str, Mapping[str, str]]) -> str:
    first = next((metric for metric in group if metric.name == base), group[0])
    defined = next((known[one.name] for one in (first, *group) if one.name in known), {})
    formula, undefined = defined.get("value", ""), defined.get("no value when", "")
    text = inspect.getdoc(inspect.unwrap(_function(first))) or ""
    meaning = f"{first.definition[:1].upper()}{first.definition[1:]}"
    if first.rule:
        meaning = f"**{first.rule.title}**: {first.definition}"
    parts = [f"# {base}\n\n{meaning}.\n"]
    if formula:
        parts.append(f"Formula\n: {formula}\n")
    if undefined:
        parts.append(f"No value when\n: {undefined}\n")
    source = (first.rule.source if first.rule else "") or _section(text, "Source")
    source = source or defined.get("source", "")
    if source:
        parts.append(f"Source\n: {source.replace('``', '`')}\n")
    if any(metric.params for metric in group):
        names = sorted({f"`{name}`" for metric in group for name in metric.params})
        parts.append(f"Parameters\n: {', '.join(names)}\n")
    synonyms = sorted({f"`{name}`" for metric in group for name in metric.synonyms})
    if synonyms:
        parts.append(f"Also called\n: {', '.join(synonyms)}\n")
    rows = []
    for metric in group:
        rows.append(
            [
                code(metric.name),
                ", ".join(sorted(metric.tasks)),
                f"{_number(metric.low)} to {_number(metric.high)}, {_BETTER[metric.direction]}",
                ", ".join(f"`{name}`" for name in metric.states),
                ", ".join(f"`{name}`" for name in interval_methods(metric)) or "none",
            ]
        )
    parts.append(table(["name", "tasks", "range", "reads", "intervals"], rows))
    if labelled(group):
        parts.append(
            f"![{base} of better and better models](../../figures/metrics/{base}.svg)\n\n"
            "*Of simulated models from useless (0) to nearly perfect (4): the distance between the "
            "scores of the classes, in standard deviations. Made from the code.*\n"
        )
    parts.append(
        f"An interval is of the family *{first.family}*: {FAMILIES[first.family]}; see "
        "[how intervals are computed](../../interval-formulas.md).\n"
    )
    functions = [name for name, page in metric_functions().items() if page == base]
    if functions:
        parts.append("## As a function of a state\n")
        parts += [_identifier(f"streameval.metrics.{name}", 3) for name in functions]
    return "\n".join(parts)


def _function(metric: Metric) -> Any:
    function: Any = metric.function
    while isinstance(function, functools.partial):
        function = function.func
    return function


def interval_methods(metric: Metric) -> list[str]:
    """The names of the interval methods that serve a metric."""
    return [row.name for row in METHODS.values() if metric.family in row.families]


def _section(text: str, name: str) -> str:
    found = re.search(rf"^{name}:\s+((?:.+\n?)+)", text, re.MULTILINE)
    return " ".join(found[1].split()) if found else ""


# The command line


def commands() -> Iterator[tuple[str, Any]]:
    """Each command, with its commands, by its full name."""
    for name, command in get_command(app_of(COMMANDS)).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        if inner is None:
            yield name, command
        else:
            yield from ((f"{name} {below}", one) for below, one in inner.items())


def commands_page(*, of_run: bool) -> str:
    """The commands of a long run, or all others, with their arguments and options."""
    what, other, there = "", "of a long run", "commands-run"
    if of_run:
        what, other, there = " of a long run", "of files and states", "commands"
    parts = [
        f"# Commands and options{what}\n\nExamples that run are in [the command line]"
        f"(../command-line.md); the commands {other} are on [a page of their own]({there}.md)."
        "\n\nExit codes: 0; 1 for a failure; 2 for bad usage or bad input; 3 where more records "
        "are bad than allowed; 4 where a rule of `--fail-if` fails; 130 after Ctrl-C; 141 when the "
        "reader of the output has closed it.\n"
    ]
    for name, command in commands():
        if (name.partition(" ")[0] in POSIX_COMMANDS) != of_run:
            continue
        parts.append(f"## streameval {name}\n")
        parts.append((command.help or "").strip().replace("\b\n", "") + "\n")
        panels: dict[str, list[list[str]]] = {}
        for parameter in command.params:
            if getattr(parameter, "hidden", False):
                continue
            option = parameter.opts[0].startswith("-")
            panel = parameter.rich_help_panel or ("Options" if option else "Arguments")
            names = [*parameter.opts, *parameter.secondary_opts] if option else [parameter.metavar]
            shown = ", ".join(code(one) for one in names if one)
            value = "" if not option or getattr(parameter, "is_flag", False) else parameter.metavar
            default = parameter.default if parameter.show_default else None
            empty = default in (None, False, "", []) or callable(default)
            panels.setdefault(panel, []).append(
                [shown, code(value or None), parameter.help or "", code(None if empty else default)]
            )
        for panel, rows in panels.items():
            parts.append(f"**{panel}**\n\n" + table(["name", "value", "meaning", "default"], rows))
    return "\n".join(parts)


# The configuration of a run


def default_text(key: Key) -> str:
    """The default of a key, as documents write it."""
    if key.field.required:
        return "needed"
    default = key.default
    return "not set" if default is None else f"`{json.dumps(default)}`"


def key_tables() -> Pages:
    """The table of the keys of each table of a configuration; those of the whole run: ``""``."""
    found: dict[str, list[list[str]]] = {}
    for key in configuration_keys():
        head = key.path.partition(".")[0] if "." in key.path else ""
        found.setdefault(head, []).append([f"`{key.path}`", default_text(key), key.about])
    return {head: table(["key", "default", "meaning"], rows) for head, rows in found.items()}


def configuration_page() -> str:
    """Every key by tables."""
    parts = [
        "# Keys of the configuration\n\n[A long run](../run.md) explains how they work together. "
        "`streameval init --schema` prints the same as a JSON schema, and `streameval init` writes "
        "[a file to start from](configuration-file.md).\n"
    ]
    for head, rows in key_tables().items():
        parts.append(f"## {f'[{head}]' if head else 'The whole run'}\n\n{rows}")
    return "\n".join(parts)


def configuration_file_page() -> str:
    """The file that ``streameval init`` writes."""
    return (
        "# The file to start from\n\n`streameval init run.toml` writes it; [its keys]"
        f"(configuration.md) are explained one by one.\n\n```toml\n{template()}```\n"
    )


# HTTP


def schema() -> dict[str, Any]:
    """The OpenAPI schema that a run serves."""
    return openapi()


def http_page() -> str:
    """Every endpoint with its parameters and answers."""
    data = schema()
    parts = [
        "# Endpoints\n\nMade from what a run serves at `/openapi.json`. "
        "[What a run serves](../serving.md) explains access, limits and errors.\n"
    ]
    for path, methods in data["paths"].items():
        for method, one in methods.items():
            parts.append(f"## {method.upper()} {path}\n\n{one.get('summary', '')}\n")
            rows = [
                [
                    code(parameter["name"]),
                    parameter["in"],
                    _type(parameter.get("schema", {})),
                    parameter.get("description", ""),
                ]
                for parameter in one.get("parameters", [])
            ]
            if rows:
                parts.append(table(["parameter", "in", "type", "meaning"], rows))
            answers = [
                [status, _answer(answer, data)] for status, answer in one["responses"].items()
            ]
            parts.append(table(["status", "answer"], answers))
    return "\n".join(parts)


def http_answers_page() -> str:
    """The fields of each answer."""
    parts = ["# Fields of the answers\n\nThe JSON of [the endpoints](http.md).\n"]
    data = schema()
    for name, one in data["components"]["schemas"].items():
        parts.append(f"## {name}\n\n{one.get('description', '')}\n")
        rows = [
            [code(field), _type(kind), kind.get("description", "")]
            for field, kind in one.get("properties", {}).items()
        ]
        if rows:
            parts.append(table(["field", "type", "meaning"], rows))
    return "\n".join(parts)


def _answer(answer: dict[str, Any], data: dict[str, Any]) -> str:
    if "$ref" in answer:
        answer = data["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    kinds = [one.get("schema", {}) for one in answer.get("content", {}).values()]
    names = [f"[{_type(kind)}]" for kind in kinds if "$ref" in kind]
    linked = [f"{name}(http-answers.md#{name[1:-1].lower()})" for name in names]
    return str(answer.get("description", "")) + (f" {', '.join(linked)}" if linked else "")


def _type(kind: Mapping[str, Any]) -> str:
    if "$ref" in kind:
        return str(kind["$ref"]).rpartition("/")[2]
    for word in ("anyOf", "oneOf"):
        if word in kind:
            return " or ".join(_type(one) for one in kind[word])
    if "enum" in kind:
        return " or ".join(f"`{json.dumps(one)}`" for one in kind["enum"])
    found = kind.get("type", "any")
    if found == "array":
        return f"array of {_type(kind.get('items', {}))}"
    return " or ".join(found) if isinstance(found, list) else str(found)


# Prometheus


def prometheus_families() -> list[Any]:
    """The families of a scrape of a run that has everything that can be exposed."""
    from streameval.service.http.health import Readiness
    from streameval.service.http.prometheus import MetricsText
    from tests.support.published_sample import START, SamplePublisher, published_data

    at = START.timestamp() + 5
    publisher = SamplePublisher(published_data(models=2, predictions=True))
    readiness = Readiness(RunSettings().serve)
    exposition = MetricsText(publisher, most_slices=3, readiness=readiness, clock=lambda: at)
    return list(exposition.collect())


def prometheus_page() -> str:
    """Every series of ``/metrics``."""
    rows = []
    for family in prometheus_families():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = sorted({label for sample in family.samples for label in sample.labels})
        rows.append([code(name), family.type, ", ".join(map(code, labels)), family.documentation])
    return (
        "# Series of Prometheus\n\nOf `GET /metrics`. [Prometheus](../serving.md#prometheus) has "
        "the rules and the dashboard that are made of them.\n\n"
        + table(["series", "type", "labels", "meaning"], rows)
    )
