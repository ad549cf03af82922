"""What works on a system without POSIX, such as Windows: all but the commands of a long run.

Its modules and functions are removed in another process, as Windows does not have them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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

_COMMAND = _WITHOUT + "from streameval.cli import main\nsys.exit(main(sys.argv[1:]))\n"

_IMPORTS = _WITHOUT + "import importlib\nfor name in sys.argv[1:]: importlib.import_module(name)\n"

_EACH = _WITHOUT + (
    "from streameval.cli import main\nfor name in sys.argv[1:]: print(main([name, 'run.toml']))\n"
)


def _run(program: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=folder, capture_output=True, text=True
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


def test_the_library_can_be_imported(tmp_path: Path) -> None:
    done = _run(_IMPORTS, *_modules(), folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_files_are_evaluated_and_saved(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,score\n1,0.9\n0,0.4\n1,0.6\n0,0.7\n")
    options = ["--y-true", "label", "--score", "score", "--positive", "1", "--save", "a.state"]
    done = _run(_COMMAND, "evaluate", "a.csv", *options, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "roc_auc                     0.75 " in done.stdout
    loaded = _run(_COMMAND, "report", "a.state", "--metrics", "roc_auc", folder=tmp_path)
    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert streameval.load(tmp_path / "a.state")["roc_auc"] == 0.75


def test_help_lists_what_works(tmp_path: Path) -> None:
    done = _run(_COMMAND, "--help", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    listed = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")}
    assert set(COMMANDS) - POSIX_COMMANDS <= listed
    assert not POSIX_COMMANDS & listed


def test_commands_of_a_long_run_are_refused_in_one_sentence(tmp_path: Path) -> None:
    names = sorted(POSIX_COMMANDS)
    done = _run(_EACH, *names, folder=tmp_path)
    assert done.stdout == "1\n" * len(names)
    assert done.stderr == "".join(
        f"streameval: {name} requires a POSIX system such as Linux or macOS, whose file locks its "
        "store needs; on Windows use WSL or a container\n"
        for name in names
    )
