"""What works without POSIX, as on Windows: all but the commands of a long run; and without a lock.

Its modules and functions are removed in another process, as Windows does not have them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import streameval
from streameval.cli.app import COMMANDS, POSIX_COMMANDS

_WITHOUT = """
import os, signal, sys
for module in ("fcntl", "grp", "pwd", "pty", "resource", "syslog", "termios", "tty"):
    sys.modules[module] = None
for name in (
    "O_CLOEXEC", "O_DIRECTORY", "O_NONBLOCK", "O_NOFOLLOW", "O_TMPFILE", "fchmod", "fdatasync",
    "fork", "getuid", "geteuid", "pread", "pwrite", "statvfs", "sysconf",
):
    delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1"):
    delattr(signal, name)
"""

_COMMANDS = (
    _WITHOUT
    + """
import importlib, json
modules, commands = json.loads(sys.argv[1])
for name in modules:
    importlib.import_module(name)
from streameval.cli import main
for command in commands:
    print(main(command))
"""
)


def _modules() -> list[str]:
    """Every module that Windows has to import: all but the service's and its commands'."""
    root = Path(streameval.__file__).parent
    service = {f"cli/{COMMANDS[name][0]}.py" for name in POSIX_COMMANDS} | {"cli/logs.py"}
    names = []
    for path in sorted(root.rglob("*.py")):
        below = path.relative_to(root)
        if below.parts[0] in ("service", "demo") or below.as_posix() in service:
            continue
        # Engines take seconds to import, and `make test-engines` tests them.
        if below.parts[0] in ("integrations", "plots") or path.stem == "__main__":
            continue
        names.append(".".join(below.with_suffix("").parts).removesuffix("__init__").rstrip("."))
    return [f"streameval.{name}".rstrip(".") for name in names]


def test_the_library_works_and_commands_of_a_long_run_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,score\n1,0.9\n0,0.4\n1,0.6\n0,0.7\n")
    options = ["--y-true", "label", "--score", "score", "--positive", "1", "--save", "a.state"]
    refused = sorted(POSIX_COMMANDS)
    commands = [
        ["evaluate", "a.csv", *options],
        ["report", "a.state", "--metrics", "roc_auc"],
        *([name, "run.toml"] for name in refused),
        ["--help"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", _COMMANDS, json.dumps([_modules(), commands])],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stderr == "".join(
        f"streameval: {name} requires a POSIX system such as Linux or macOS, whose file locks its "
        "store needs; on Windows use WSL or a container\n"
        for name in refused
    )
    assert done.returncode == 0
    shown, usage = done.stdout.split("1\n" * len(refused))
    assert "roc_auc                     0.75 " in shown
    assert "roc_auc  0.75 " in shown
    assert shown.splitlines().count("0") == 2
    assert streameval.load(tmp_path / "a.state")["roc_auc"] == 0.75
    listed = {line.split()[0] for line in usage.splitlines() if line.startswith("  ")}
    assert set(COMMANDS) - POSIX_COMMANDS <= listed
    assert not POSIX_COMMANDS & listed


# What a free-threaded Python answers: none is fetched for the tests.
CODE = """
import sys

import pytest
sys._is_gil_enabled = lambda: {locked}
import streameval
print(streameval.backend())
"""


@pytest.mark.parametrize("locked", [False, True])
def test_an_interpreter_without_its_lock_is_refused_with_the_remedy(locked: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(locked=locked)],
        env={**os.environ, "STREAMEVAL_BACKEND": "portable"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0, done.stdout) == (locked, "portable\n" if locked else "")
    said = done.stderr.splitlines()[-1:]
    assert locked or ("needs the interpreter's lock" in said[0] and "PYTHON_GIL=1" in said[0])
