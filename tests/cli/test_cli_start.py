"""Which modules a command imports at its start."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.support.command_runs import Command

# Packages of extras, and modules of the standard library that only a run needs.
OPTIONAL = {"confluent_kafka", "starlette", "uvicorn", "prometheus_client", "plotly"}
OPTIONAL |= {"pyarrow", "pandas", "river", "sklearn", "matplotlib"}
OF_A_RUN = {"sqlite3", "http.client", "tomllib", "streameval.service"}
SERVING = {"streameval.service.run.service", "http.client"}
OF_HELP = {"rich.markdown", "rich.progress"}
OF_MODULE = {name: name for name in ("evaluate", "compare", "init", "demo")}
EVERY_COMMAND = {*OF_MODULE, "states", "catalogue", "run", "store"}

# A child for each command line. What is imported before the helps is what all of these import, and
# no test looks for it.
CHILDREN = """
import json, os, sys
from streameval.cli import main
for line in sys.argv[1:]:
    if line.endswith("--help"):
        import typer, streameval.cli.app, streameval.cli.help
    sys.stdout.flush()
    if not os.fork():
        code = main(line.split())
        print()
        print(json.dumps([line, code, sorted(sys.modules)]))
        sys.stdout.flush()
        os._exit(0)
    os.wait()
"""
LINES = ["--version", "evaluate a.csv --y-pred p"] + [
    f"{command} --help".strip()
    for command in ("evaluate", "compare", "merge", "metrics", "init", "demo", "run", "store", "")
]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The modules that each command line has loaded when it ends well."""
    folder = tmp_path_factory.mktemp("start")
    (folder / "a.csv").write_text("y_true,p\n1,1\n")
    command = [sys.executable, "-c", CHILDREN, *LINES]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=True)
    shown = [json.loads(one) for one in done.stdout.decode().splitlines() if one.startswith('["')]
    assert [line for line, code, _ in shown if code == 0] == LINES
    return {line: set(modules) for line, _, modules in shown}


@pytest.mark.parametrize(
    ("line", "own", "without"),
    [
        ("--version", set(), OF_A_RUN | {"typer", "rich", "streameval.cli.app"}),
        ("evaluate a.csv --y-pred p", {"evaluate"}, OF_A_RUN | OF_HELP),
        *(
            (f"{command} --help", {module}, OF_A_RUN)
            for command, module in {**OF_MODULE, "merge": "states", "metrics": "catalogue"}.items()
        ),
        *((f"{command} --help", {command}, SERVING) for command in ("run", "store")),
        ("--help", EVERY_COMMAND, set()),
    ],
)
def test_a_command_loads_that_command(
    loaded: dict[str, set[str]], line: str, own: set[str], without: set[str]
) -> None:
    modules = loaded[line]
    assert not modules & (OPTIONAL | without)
    assert {name for name in EVERY_COMMAND if f"streameval.cli.{name}" in modules} == own
    served = {name for name in modules if name.startswith("streameval.service.http")}
    assert line == "--help" or not served


GROUPS = ["", "store"]
ALONE = {"metrics": "prints a table", "init": "writes a file", "demo": "starts a run"}


def _members(run: Command, group: str) -> list[str]:
    """The commands of a group, as its help lists them."""
    shown = run(*group.split(), "--help").out.partition("Commands:\n")[2].partition("\n\n")[0]
    return re.findall(r"^  (\S+)", shown, re.MULTILINE)


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_alone_prints_its_help(run: Command, group: str) -> None:
    alone = run(*group.split())
    assert alone == run(*group.split(), "--help")
    assert (alone.code, alone.err) == (0, "")
    assert alone.out.startswith(f"Usage: streameval {group}".rstrip())
    assert "..." not in alone.out.partition("Commands:")[2]  # no summary is cut


def test_a_command_alone_names_in_one_line_what_it_requires(run: Command) -> None:
    commands = [[*group.split(), name] for group in GROUPS for name in _members(run, group)]
    assert {first for first, *_ in commands} >= EVERY_COMMAND - {"states", "catalogue"}
    for words in commands:
        if words == ["store"] or words[0] in ALONE:
            continue
        code, out, err = run(*words)
        assert (code, out) == (2, ""), words
        assert err.startswith("streameval: "), words
        assert err.count("\n") == 1, words
        if ", got none; see" not in err:
            assert "requires" in err, words
