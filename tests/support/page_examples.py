"""The console examples of a page, run in one shell, and what they print.

``python -m tests.support.page_examples docs/PAGE.md`` writes what they print into the page.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BLOCK = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
_STEP = re.compile(r"^\$ ((?:.*\\\n)*.*\n)((?:(?!\$ ).*\n)*)", re.MULTILINE)
PORT = "8642"
"""The port in the pages; while they run it is a free one."""

BEFORE = {
    "serving.md": f"""\
cat > run.toml << 'END'
store = "run.db"
[fields]
id = "id"
score = "score"
[http]
[join]
wait = "24h"
[serve]
listen = "127.0.0.1:{PORT}"
END
for id in $(seq 100); do echo '{{"id": '$id', "score": 0.5}}'; done > events.jsonl
streameval run run.toml > run.log 2>&1 &
until curl -sf http://127.0.0.1:{PORT}/livez > /dev/null; do sleep 0.1; done
""",
    "operations.md": """\
cat > run.toml << 'END'
store = "run.db"
[fields]
score = "score"
[files]
records = ["events.jsonl"]
END
echo '{"y_true": 1, "score": 0.9}' > events.jsonl
streameval run run.toml --until-end > run.log 2>&1
""",
}
"""What the commands of a page begin with, where it says so in words only."""


def pages_with_commands(folder: Path) -> list[Path]:
    """The pages that have console examples."""
    found = sorted(folder.rglob("*.md"))
    return [path for path in found if "```console\n" in path.read_text("utf-8")]


def as_printed(text: str, folder: Path, before: str = "") -> str:
    """The text of a page with what its commands print in a folder.

    ``$ cat FILE`` is a file that the page gives: it is written, and not changed. ``before`` are
    commands of :data:`BEFORE`, which print nothing.
    """
    port = _free_port()
    with _shell(folder) as shell:
        printed = _ask(shell, before.replace(PORT, port))
        assert not printed, printed

        def step(found: re.Match[str]) -> str:
            command, shown = found[1], found[2]
            if command.startswith("cat ") and "|" not in command:
                path = folder / command.split()[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(shown.replace(PORT, port), encoding="utf-8")
                return found[0]
            printed = _ask(shell, command.replace(PORT, port))
            return f"$ {command}{printed.replace(port, PORT)}"

        return _BLOCK.sub(lambda block: _STEP.sub(step, block[0]), text)


def _free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


@contextmanager
def _shell(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A shell that finds the program; what it started in the background ends with it."""
    with tempfile.TemporaryDirectory() as programs:
        program = Path(programs, "streameval")
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m streameval.cli "$@"\n')
        program.chmod(0o755)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        shell = subprocess.Popen(
            ["bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env={**os.environ, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1"},
        )
        try:
            yield shell
            shell.stdin.write("kill $(jobs -p) 2>/dev/null; wait\n")  # type: ignore[union-attr]
        finally:
            shell.communicate(timeout=60)


def _ask(shell: subprocess.Popen[str], command: str) -> str:
    """What a command prints, with a line for an exit code that is not 0."""
    assert shell.stdin is not None
    assert shell.stdout is not None
    end = secrets.token_hex(8)
    shell.stdin.write(f"{command}echo {end} $?\n")
    shell.stdin.flush()
    printed = ""
    for line in shell.stdout:
        before, mark, code = line.partition(end)
        if mark:
            printed += f"{before}\n" if before else ""
            return printed + (f"[exit code {code.strip()}]\n" if code.strip() != "0" else "")
        printed += line
    raise AssertionError(f"the shell ended in {command!r}: {printed}")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as place:
            page = Path(name)
            text = as_printed(page.read_text("utf-8"), Path(place), BEFORE.get(page.name, ""))
            page.write_text(text, encoding="utf-8")
