"""The rule of the architecture: a module imports only from lower layers; names in texts exist."""

from __future__ import annotations

import ast
import graphlib
import pkgutil
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import streameval
from docsite import reference

ROOT = Path(streameval.__file__).parent
REPOSITORY = Path(__file__).parents[2]

# From the bottom up. Parts of one row are independent of each other.
LAYERS = [
    ("errors", "tables"),
    "events",
    "tasks",
    "states",
    "metrics",
    ("uncertainty", "windows"),
    ("certainty", "state_files"),
    "evaluator",
    ("integrations", "plots", "prequential_folds", "records"),
    "service",
    "demo",
    "cli",
]

# The same of the parts of service/: folders, and modules beside them.
LAYERS_OF_SERVICE = [
    ("closing", "lateness", "native", "private_files", "progress"),
    "config",
    "sources",
    "decode",
    "store",
    "join",
    "publish",
    "alerts",
    "upkeep",
    "http",
    "run",
]

# What comes with an extra is imported in one module.
OPTIONAL = {
    "confluent_kafka": {"service/sources/kafka_client.py"},
    "starlette": {"service/http/app.py"},
    "uvicorn": {"service/http/server.py"},
    "prometheus_client": {"service/http/prometheus.py"},
    "plotly": {"plots/with_plotly.py"},
    "psycopg": {"service/store/postgres.py"},
    "pyspark": {"integrations/spark.py"},
    "dask": {"integrations/dask.py"},
    "distributed": set(),
    "apache_beam": {"integrations/beam.py"},
    "duckdb": set(),
    "fsspec": {"records/remote.py"},
    "narwhals": {"records/tables.py"},
    "pandas": set(),
    "polars": set(),
    "pyarrow": {"integrations/spark.py", "records/arrow.py"},
    "river": {"demo/flights.py", "integrations/river.py"},
    "sklearn": set(),
    "matplotlib": {"plots/with_matplotlib.py"},
    "mlflow": {"integrations/mlflow.py"},
    "tensorboardX": {"integrations/tensorboard.py"},
    "torch": {"integrations/torchmetrics.py"},
    "torchmetrics": {"integrations/torchmetrics.py"},
}


_AT_THE_TOP = (ROOT / "__init__.py", ROOT / "__main__.py")


def modules() -> list[Path]:
    return [path for path in sorted(ROOT.rglob("*.py")) if path not in _AT_THE_TOP]


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Of the source of a module, each once."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def imports(path: Path) -> list[str]:
    """Dotted names that a module imports, at any depth of its code, compiled ones included."""
    names = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "compiled":
            names += [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
    return names


def climbs(
    path: Path, names: list[str], folder: str, layers: list[Any], beside: Sequence[Any] = ()
) -> list[str]:
    """What a part of a folder imports from parts above it, or beside it but for those given."""
    ranks = {
        part: number
        for number, layer in enumerate(layers)
        for part in ([layer] if isinstance(layer, str) else layer)
    }
    package = folder.replace("/", ".") + "."
    own = path.relative_to(ROOT.parent / folder).parts[0].removesuffix(".py")
    found = []
    for name in names:
        part = name.removeprefix(package).split(".")[0]
        # Of the package's own __init__, only the version may be imported.
        if not name.startswith(package) or part in (own, "__version__"):
            continue
        known = {part, own} <= ranks.keys()
        assert known, f"{part} or {own} is in no layer: add it to them and to docs/design.md"
        aside = any(own in layer and part in layer for layer in beside)
        if ranks[part] >= ranks[own] and not aside:
            found.append(f"{own} imports {name} from above or beside it")
    return found


def broken_rules(path: Path, names: list[str]) -> list[str]:
    found = climbs(
        path, names, "streameval", LAYERS, [layer for layer in LAYERS if isinstance(layer, tuple)]
    )
    if ROOT / "service" in path.parents and path.name != "__init__.py":
        found += climbs(path, names, "streameval/service", LAYERS_OF_SERVICE)
    where = path.relative_to(ROOT).as_posix()
    optional = [name.split(".")[0] for name in names]
    return found + [
        f"{where} imports the optional {name}"
        for name in optional
        if where not in OPTIONAL.get(name, {where})
    ]


def test_imports_go_down() -> None:
    assert [rule for path in modules() for rule in broken_rules(path, imports(path))] == []


COMPILED_IMPORT = re.compile(
    r"^ *(?:from (streameval[\w.]*) c?import|c?import (streameval[\w.]*))", re.M
)


def test_no_modules_import_each_other() -> None:
    graph: dict[str, set[str]] = {}
    for path in ROOT.rglob("*.py*"):
        module = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        if path.suffix == ".pyx":
            pairs = COMPILED_IMPORT.findall(path.read_text("utf-8"))
            graph[module] = {one or other for one, other in pairs}
        elif path.suffix == ".py":
            graph[module.removesuffix(".__init__")] = set(imports(path))
    assert len(graph) > 200
    for module, names in graph.items():
        # Of a name in a module, the module.
        used = {name if name in graph else name.rpartition(".")[0] for name in names}
        graph[module] = (used & graph.keys()) - {module}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, with the circle


def test_every_layer_exists() -> None:
    parts = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in modules()}
    named = {part for layer in LAYERS for part in ([layer] if isinstance(layer, str) else layer)}
    assert named == parts


def test_the_test_can_fail() -> None:
    wrong = ["streameval.evaluator.evaluator.Evaluator", "pyarrow.parquet"]
    assert len(broken_rules(ROOT / "states" / "confusion.py", wrong)) == 2
    above = ["streameval.service.run.loop", "streameval.service.store.x"]
    assert len(broken_rules(ROOT / "service" / "store" / "rows.py", above)) == 1


def test_kernels_import_no_states() -> None:
    """Compiled modules are below the Python code that loads them."""
    compiled = sorted(ROOT.rglob("*.pyx")) + sorted(ROOT.rglob("*.pxd"))
    assert len(compiled) > 10
    for path in compiled:
        text = path.read_text(encoding="utf-8")
        for one, other in COMPILED_IMPORT.findall(text):
            name = one or other
            assert ".native." in name or name.split(".")[1] in ("errors", "events"), path.name
        assert "import_module" not in text, path.name
        # ``wraparound=False`` holds for every object: a list or an array would be given -1 itself.
        assert "wraparound" not in text, path.name


def test_no_module_is_named_for_nothing() -> None:
    forbidden = {"utils", "helpers", "base", "manager", "common"}
    assert not {path.stem for path in modules()} & forbidden


SUFFIXES = ("py", "pyx", "pxd", "pyi", "hpp", "md", "js", "yml")
PATH = re.compile(rf"(?<![\w/.:%-])(?:[\w-]+/)+[\w-]+\.(?:{'|'.join(SUFFIXES)})\b")
FOLDER = re.compile(r"`((?:[\w-]+/)+)`")
DOTTED = re.compile(r"\bstreameval(?:\.[A-Za-z_]\w*)+(?![\w/])")
NOT_MODULES = {"streameval.db", "streameval.example", "streameval.toml", "streameval.webhook"}
"""Names of files, of a placeholder and of an event, which look like names in the package."""


def documents() -> list[Path]:
    found = [REPOSITORY / name for name in ("Makefile", "pyproject.toml", "mkdocs.yml")]
    found += set(REPOSITORY.glob("*.md")) - {REPOSITORY / "CHANGELOG.md"}
    return [*found, *(REPOSITORY / "docs").rglob("*.md")]


def sources() -> list[Path]:
    found = [
        path
        for folder in ("streameval", "tests", "benchmarks", "demos", "docsite")
        for ending in (".py", ".pyx", ".pxd", ".hpp")
        for path in (REPOSITORY / folder).rglob(f"*{ending}")
    ]
    own = Path(__file__)  # its tests name what does not exist
    return [path for path in found if path != own and "node_modules" not in path.parts]


def docstrings(path: Path) -> str:
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    found = [ast.get_docstring(node) for node in nodes(path) if isinstance(node, kinds)]
    return "\n".join(filter(None, found))


@cache
def all_paths() -> set[str]:
    """Every path of the tree, and each of its ends: ``states/fields.py`` is one."""
    found = set(reference.pages())  # made when the site is built
    for top in ("streameval", "tests", "docs", "docsite", "deploy", "benchmarks", "demos"):
        for path in [REPOSITORY / top, *(REPOSITORY / top).rglob("*")]:
            parts = path.relative_to(REPOSITORY).parts
            found |= {"/".join(parts[start:]) for start in range(len(parts))}
    return found


def missing_paths(text: str, known: set[str]) -> list[str]:
    """Paths in a text that no file has; capitals, as in ``states/NAME.py``, are to be replaced."""
    named = PATH.findall(text) + [name.rstrip("/") for name in FOLDER.findall(text)]
    return [name for name in named if name not in known and not re.search(r"[A-Z]{4}", name)]


def missing_names(text: str) -> list[str]:
    return [name for name in DOTTED.findall(text) if name not in NOT_MODULES and not exists(name)]


@cache
def exists(name: str) -> bool:
    """Whether a dotted name is a module of the package, or a name in one."""
    module, _, inner = name.rpartition(".")
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):  # or a module that cannot be imported here
        path, outer = (REPOSITORY / one.replace(".", "/") for one in (name, module))
        found = [path.with_suffix(suffix).exists() for suffix in (".py", ".pyx")]
        source = outer.with_suffix(".py")
        return any(found) or (source.exists() and f" {inner}(" in source.read_text("utf-8"))
    return True


def test_paths_in_documents_and_sources_exist() -> None:
    known = all_paths()
    wrong = {
        path.relative_to(REPOSITORY).as_posix(): missing
        for path in [*documents(), *sources()]
        if (missing := missing_paths(path.read_text(encoding="utf-8"), known))
    }
    assert wrong == {}


def test_dotted_names_in_documents_and_docstrings_exist() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in documents()}
    texts |= {path: docstrings(path) for path in modules()}
    wrong = {path.name: missing for path, text in texts.items() if (missing := missing_names(text))}
    assert wrong == {}


def test_a_name_that_does_not_exist_is_found() -> None:
    text = "`states/fields.py`, `states/no_such.py`, `old/`, streameval.states.fields.no_such"
    assert missing_paths(text, all_paths()) == ["states/no_such.py", "old"]
    assert missing_names(text) == ["streameval.states.fields.no_such"]
