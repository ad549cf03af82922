"""Which modules a command imports at its start."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_runs import Command

# Packages of extras, and modules of the standard library that only a run needs.
OPTIONAL = {
    "confluent_kafka",
    "starlette",
    "uvicorn",
    "prometheus_client",
    "plotly",
    "pyarrow",
    "pandas",
    "river",
    "sklearn",
    "matplotlib",
}
OF_A_RUN = {"sqlite3", "http.client", "tomllib", "streameval.service"}
OF_HELP = {"rich.markdown", "rich.progress"}
EVERY_COMMAND = {"evaluate", "compare", "states", "catalogue", "run", "store", "init", "demo"}

CODE = """
import json, sys
from streameval.cli import main
code = main(sys.argv[1:])
sys.stdout.flush()
print()
print(json.dumps([code, sorted(sys.modules)]))
"""

# A child for each command line. What is imported before is what all of these commands import, and
# no test looks for it.
CHILDREN = """
import json, os, sys
import typer, streameval.cli.app, streameval.cli.help
from streameval.cli import main
for line in sys.argv[1:]:
    sys.stdout.flush()
    if not os.fork():
        code = main(line.split())
        print()
        print(json.dumps([line, code, sorted(sys.modules)]))
        sys.stdout.flush()
        os._exit(0)
    os.wait()
"""
HELPED = ("evaluate", "compare", "merge", "metrics", "init", "demo", "run", "store", "")


def loaded(*arguments: str) -> set[str]:
    """The modules that a command line which ends well has loaded."""
    done = subprocess.run([sys.executable, "-c", CODE, *arguments], capture_output=True, check=True)
    code, modules = json.loads(done.stdout.decode().splitlines()[-1])
    assert code == 0
    return set(modules)


@pytest.fixture(scope="module")
def of_help() -> dict[str, set[str]]:
    """The modules that the help of each command has loaded."""
    lines = [f"{command} --help".strip() for command in HELPED]
    done = subprocess.run([sys.executable, "-c", CHILDREN, *lines], capture_output=True, check=True)
    shown = [json.loads(one) for one in done.stdout.decode().splitlines() if one.startswith('["')]
    assert [line for line, code, _ in shown if code == 0] == lines
    return {line.rpartition("--")[0].strip(): set(modules) for line, _, modules in shown}


def commands(modules: set[str]) -> set[str]:
    """Those of the commands' own modules that are loaded."""
    return {name for name in EVERY_COMMAND if f"streameval.cli.{name}" in modules}


def test_the_version_loads_no_command() -> None:
    modules = loaded("--version")
    assert not modules & (OPTIONAL | OF_A_RUN | {"typer", "rich"})
    assert "streameval.cli.app" not in modules


def test_evaluate_loads_nothing_of_other_commands(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"y_true": 1, "y_pred": 1}\n')
    modules = loaded("evaluate", str(path), "--y-pred", "y_pred")
    assert not modules & (OPTIONAL | OF_A_RUN | OF_HELP)
    assert commands(modules) == {"evaluate"}


@pytest.mark.parametrize(
    ("command", "own"),
    [
        ("evaluate", {"evaluate"}),
        ("compare", {"compare"}),
        ("merge", {"states"}),
        ("metrics", {"catalogue"}),
        ("init", {"init"}),
        ("demo", {"demo"}),
    ],
)
def test_the_help_of_a_command_loads_that_command(
    of_help: dict[str, set[str]], command: str, own: set[str]
) -> None:
    modules = of_help[command]
    assert not modules & (OPTIONAL | OF_A_RUN)
    assert commands(modules) == own


@pytest.mark.parametrize("command", ["run", "store"])
def test_the_help_of_a_run_loads_no_source_and_no_server(
    of_help: dict[str, set[str]], command: str
) -> None:
    modules = of_help[command]
    assert not modules & OPTIONAL
    assert not {name for name in modules if name.startswith("streameval.service.http")}
    assert "streameval.service.run.service" not in modules
    assert "http.client" not in modules
    assert commands(modules) == {command}


def test_the_list_of_commands_loads_no_extra(of_help: dict[str, set[str]]) -> None:
    modules = of_help[""]
    assert not modules & OPTIONAL
    assert commands(modules) == EVERY_COMMAND


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
