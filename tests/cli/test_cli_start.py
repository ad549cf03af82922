"""Which modules a command imports at its start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.backend_independent

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


def loaded(*arguments: str) -> set[str]:
    """The modules that a command line which ends well has loaded."""
    done = subprocess.run([sys.executable, "-c", CODE, *arguments], capture_output=True, check=True)
    code, modules = json.loads(done.stdout.decode().splitlines()[-1])
    assert code == 0
    return set(modules)


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
        ("compare", {"compare", "evaluate"}),
        # The two save states as evaluate does.
        ("merge", {"evaluate", "states"}),
        ("report", {"evaluate", "states"}),
        ("metrics", {"catalogue"}),
        ("init", {"init"}),
        ("demo", {"demo"}),
    ],
)
def test_the_help_of_a_command_loads_that_command(command: str, own: set[str]) -> None:
    modules = loaded(command, "--help")
    assert not modules & (OPTIONAL | OF_A_RUN)
    assert commands(modules) == own


@pytest.mark.parametrize("command", ["run", "store"])
def test_the_help_of_a_run_loads_no_source_and_no_server(command: str) -> None:
    modules = loaded(command, "--help")
    assert not modules & OPTIONAL
    assert not {name for name in modules if name.startswith("streameval.service.http")}
    assert "streameval.service.service" not in modules
    assert "http.client" not in modules
    assert commands(modules) == {command}


def test_the_list_of_commands_loads_no_extra() -> None:
    modules = loaded("--help")
    assert not modules & OPTIONAL
    assert commands(modules) == EVERY_COMMAND
