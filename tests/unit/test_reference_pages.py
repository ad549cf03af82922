"""Pages agree with their sources: the reference, the README, names, types, and calls of peers."""

from __future__ import annotations

import json
import re
import shutil
import sys
from importlib import import_module
from pathlib import Path

import pytest
import sklearn.metrics
import yaml

import streameval
from benchmarks.peers.ledger import (
    DIFFERENT,
    EQUAL,
    REFUSED,
    Known,
    Ledger,
    NotCovered,
    document,
    section,
    sections,
)
from benchmarks.peers.page import rows
from docsite import reference
from docsite.markdown import table
from docsite.measured import measured
from streameval.metrics import CURVES, METRICS, ROWS
from streameval.metrics.metric import BOTH
from tests.support import write_names
from tests.support.page_examples import as_printed

ROOT = Path(__file__).parents[2]
PEERS = ROOT / "benchmarks" / "peers"
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pages() -> reference.Pages:
    return reference.pages()


def test_every_public_name_is_documented_once(pages: reference.Pages) -> None:
    text = "\n".join(pages.values())
    shown = re.findall(r"^::: (?!streameval\.states)(\S+)$", text, re.MULTILINE)
    found = [name for name in shown if not name.startswith("streameval.Evaluator.")]
    tables = {"CURVES", "CUT_POINTS", "METRICS", "ROWS"}
    wanted = [name for name in reference.public_names() if name.rpartition(".")[2] not in tables]
    wanted.remove("streameval.metrics")  # a module, with a page
    assert sorted(found) == sorted(wanted)
    named = {name for name in tables if f"`{name}`" in pages["reference/python/metrics.md"]}
    assert named == tables & set(streameval.metrics.__all__)
    package = Path(streameval.__file__).parent
    stems = {path.stem for path in package.glob("integrations/[a-z]*.py")}
    known = {f"streameval.integrations.{stem}" for stem in stems}
    assert known | {"streameval.metrics", "streameval.plots"} == set(reference.public_modules())


def test_every_metric_has_a_page_with_formula_source_and_picture(pages: reference.Pages) -> None:
    index = pages["reference/metrics/index.md"]
    for name, metric in METRICS.items():
        base = reference.base_of(metric)
        page = pages[f"reference/metrics/{base}.md"]
        assert f"[`{name}`]({base}.md)" in index
        assert f"| `{name}` |" in page
        assert "\nFormula\n: " in page, name
        assert "\nSource\n: " in page, name
        drawn = f"figures/metrics/{base}.svg" in page
        assert drawn == any(row.tasks & BOTH for row in ROWS if reference.base_of(row) == base)


def test_every_command_and_option_is_listed(pages: reference.Pages) -> None:
    page = pages["reference/commands.md"] + pages["reference/commands-run.md"]
    names = dict(reference.commands())
    assert {"evaluate", "merge", "store check"} <= set(names)
    for name, command in names.items():
        section = page.partition(f"## streameval {name}\n")[2].partition("\n## ")[0]
        for parameter in command.params:
            for option in [*parameter.opts, *parameter.secondary_opts]:
                if option.startswith("-") and not getattr(parameter, "hidden", False):
                    assert f"`{option}`" in section, (name, option)


def test_every_key_has_a_meaning(pages: reference.Pages) -> None:
    row = re.compile(r"^\| `([a-z_.]+)` \| .+? \| (.*) \|$", re.MULTILINE)
    meanings = dict(row.findall(pages["reference/configuration.md"]))
    assert set(meanings) == {key.path for key in reference.configuration_keys()}
    assert [key for key, meaning in meanings.items() if not meaning.strip()] == []


def test_every_endpoint_and_field_is_listed(pages: reference.Pages) -> None:
    page, answers = pages["reference/http.md"], pages["reference/http-answers.md"]
    schema = reference.schema()
    for path, methods in schema["paths"].items():
        for method in methods:
            assert f"## {method.upper()} {path}\n" in page
    for name, one in schema["components"]["schemas"].items():
        section = answers.partition(f"## {name}\n")[2].partition("\n## ")[0]
        assert [field for field in one.get("properties", {}) if f"`{field}`" not in section] == []


def test_the_series_are_those_of_serving(pages: reference.Pages) -> None:
    """docs/serving.md is compared with what is exposed (tests/service/test_serve_prometheus.py)."""
    listed = set(re.findall(r"`(streameval_\w+)`", pages["reference/prometheus.md"]))
    serving = (ROOT / "docs" / "serving.md").read_text("utf-8").partition("## Prometheus")[2]
    assert listed == set(re.findall(r"`(streameval_\w+)`", serving))


def test_tables_agree_with_their_sources() -> None:
    row = reference.definitions()["precision"]
    assert (row["value"][:14], row["no value when"]) == ("TP / (TP + FP)", "never predicted")
    assert table(["a"], [["x | y\nz"]]).splitlines()[-1] == "| x \\| y z |"
    assert measured() in README


def test_every_page_is_in_the_navigation() -> None:
    text = re.sub(r"!!\S+", "", (ROOT / "mkdocs.yml").read_text("utf-8"))
    named = set(re.findall(r"[\w/-]+\.md", json.dumps(yaml.safe_load(text)["nav"])))
    kept = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert kept <= named


def test_addresses_are_written_once() -> None:
    host = reference.urls()["Homepage"].partition("://")[2]
    found = [
        path.relative_to(ROOT).as_posix()
        for top in ("streameval", "docs", "docsite", "deploy", ".github", ".")
        for path in ((ROOT / top).rglob("*") if top != "." else ROOT.glob("*"))
        if path.suffix in {".py", ".md", ".toml", ".yml", ".yaml", ".json", ".js"}
        and "node_modules" not in path.parts
        and host in path.read_text("utf-8", errors="replace")
    ]
    assert found == ["pyproject.toml"]


def test_the_version_is_written_once() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert 'version = { attr = "streameval.__version__" }' in text
    assert f'"{streameval.__version__}"' not in text
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\n## {streameval.__version__}" in changes


@pytest.mark.slow
def test_the_readmes_commands_print_what_it_shows(tmp_path: Path) -> None:
    (tmp_path / "demos").mkdir()
    shutil.copy(ROOT / "demos" / "spam.jsonl", tmp_path / "demos")
    tour = re.sub(r"^\$ (?:make|pip) .*\n", "", README, flags=re.MULTILINE)
    assert tour.count("\n$ ") >= 4
    assert as_printed(tour, tmp_path) == tour
    for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", README):
        assert (ROOT / name).exists(), name


def test_every_name_of_scikit_learn_has_a_counterpart_that_exists_or_a_reason() -> None:
    names = [name for row in rows() for name in row.names]
    assert len(names) == len(set(names))
    assert set(names) == set(sklearn.metrics.__all__)
    assert all(all(row.cells[:2]) for row in rows())
    known = {*METRICS, *CURVES, *streameval.metrics.__all__, "classification_report"}
    counterparts = {name for row in rows() for name in row.counterparts}
    assert len(counterparts) > 40
    assert counterparts <= known


def test_the_typed_names_are_those_of_the_registries() -> None:
    written = write_names.PATH.read_text(encoding="utf-8")
    assert written == write_names.text(), "run python -m tests.support.write_names"


@pytest.mark.slow
@pytest.mark.heavy
def test_calls_have_types() -> None:
    api = pytest.importorskip("mypy.api")
    path = Path(__file__).parents[1] / "support" / "typed_calls.py"
    words, errors, code = api.run(["--strict", "--follow-imports=silent", str(path)])
    assert code == 0, words + errors


# The ledger of calls that are compared with peers ----------------------------------------------


def refused(reason: Exception) -> None:
    raise reason


def test_each_outcome_is_counted_with_its_reason_and_shares_follow() -> None:
    ledger = Ledger()
    for value in (1.0, 1.0 + 1e-13, 1.1):
        ledger.observe("peer", "f", 1.0, lambda value=value: value)
    ledger.observe("peer", "f", 1.0, lambda: refused(Known("ties")))
    ledger.observe("peer", "g", 1.0, lambda: refused(NotCovered("margins")))
    assert (ledger.count(EQUAL), ledger.count(DIFFERENT)) == (2, 2)
    assert ledger.share() == 2 / 4
    assert ledger.share(known=True) == 3 / 4
    assert len(ledger.examples) == 1
    text = section(ledger, "peer", "peer 1, measured on 2026-11-28.")
    assert "| ties | 1 | `f` |" in text
    assert "| margins | 1 | `g` |" in text
    # The section of a peer whose tests are not run is left as it is.
    other = section(ledger, "other", "other 2, measured on 2026-11-23.")
    page = document({"peer": text, "other": other})
    assert sections(page) == {"peer": text, "other": other}
    assert "**50.00% of 4 covered calls are equal.**" in page
    written = sections((PEERS.parent / "peers.md").read_text("utf-8"))
    assert list(written) == ["river", "scikit-learn", "torchmetrics"]
    assert all(", measured on 2" in text for text in written.values())


def test_what_the_peer_refuses_is_refused_and_only_outer_calls_count() -> None:
    ledger = Ledger()

    def refuse(x: float) -> float:
        if x < 0:
            raise ValueError(x)
        return x

    counted_inner = ledger.wrapped("peer", "inner", refuse, lambda theirs, x: x)
    outer = ledger.wrapped("peer", "outer", lambda x: counted_inner(x), lambda theirs, x: x)
    assert outer(2.0) == 2.0
    with pytest.raises(ValueError, match="-1"):
        outer(-1.0)
    assert ledger.count(EQUAL, "peer", "outer") == 1
    assert ledger.count(REFUSED, "peer", "outer") == 1
    assert not ledger.count(EQUAL, "peer", "inner")


def test_a_peer_that_is_not_installed_is_named_with_its_requirements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.delitem(sys.modules, "benchmarks.peers.torchmetrics", raising=False)
    with pytest.raises(SystemExit, match=r"need torch, .*: pip install -r .*torchmetrics\.txt"):
        import_module("benchmarks.peers.torchmetrics")
    assert "\ntorch\n" in (PEERS / "torchmetrics.txt").read_text("utf-8")
