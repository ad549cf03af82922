"""Changes the package in many small ways, and says which of them no test notices.

``make mutants`` draws 200 places from the core, the records and the service, runs the tests once
to see which of them reach each place, changes one place after the other in a copy of the tree, and
runs the tests that reach it, the quick ones first, until one fails. A mutant that all of them pass
*survives*: it is equivalent to the code, or a test is missing.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import hashlib
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from pathlib import Path

ROOT = Path(__file__).parents[1]

AREAS = {
    "core": (
        *("events", "tasks", "states", "windows", "evaluator", "state_files"),
        *("metrics", "uncertainty"),
    ),
    "records": ("records",),
    "service": ("service",),
}

_FOLDERS = ("tests/unit", "tests/properties", "tests/cli", "tests/service", "tests/crash")

_PAIRS = [("Lt", "LtE"), ("Gt", "GtE"), ("Eq", "NotEq"), ("Is", "IsNot"), ("In", "NotIn")]
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    getattr(ast, one): getattr(ast, other) for pair in _PAIRS for one, other in (pair, pair[::-1])
}


@dataclass(frozen=True)
class Mutant:
    """One change of one line."""

    path: str
    line: int
    columns: slice
    """The bytes of the line that are changed."""
    before: str
    after: str

    def on(self, lines: list[str], expression: str) -> str:
        """The line of a module with an expression in place of the changed one."""
        line = lines[self.line - 1].encode()
        start, end = line[: self.columns.start], line[self.columns.stop :]
        return (start + expression.encode() + end).decode()

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before} -> {self.after}"


def _compared(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
        node.ops[0] = _COMPARISONS[type(node.ops[0])]()
        return True
    return False


def _other_constant(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1
        return True
    return False


def _dropped_term(node: ast.AST) -> bool:
    """The first term in place of a sum, a difference or a product; made of the node itself."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        node.op, node.right = ast.Add(), ast.Constant(0)
        return not isinstance(node.left, (ast.List, ast.Tuple, ast.JoinedStr))
    return False


def _swapped(node: ast.AST) -> bool:
    symmetric = isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("min", "max")
    if isinstance(node, ast.Call) and len(node.args) >= 2 and not symmetric:
        first, second = node.args[:2]
        if not isinstance(first, ast.Starred) and not isinstance(second, ast.Starred):
            node.args[:2] = [second, first]
            return ast.dump(first) != ast.dump(second)
    return False


CHANGES: tuple[Callable[[ast.AST], bool], ...]
CHANGES = (_compared, _other_constant, _dropped_term, _swapped)


def _expressions(tree: ast.Module) -> Iterator[ast.expr]:
    """The expressions that run in a function: no annotation, default, decorator or docstring."""
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for statement in function.body:
                if not isinstance(statement, ast.FunctionDef):
                    yield from (one for one in ast.walk(statement) if isinstance(one, ast.expr))


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its lines; some do not load."""
    source = path.read_text("utf-8")
    lines = source.splitlines(keepends=True)
    for node in _expressions(ast.parse(source)):
        # Only what stands on one line can be replaced in its place.
        if node.lineno != node.end_lineno or node.end_col_offset is None:
            continue
        for change in CHANGES:
            changed = copy.deepcopy(node)
            if not change(changed):
                continue
            columns = slice(node.col_offset, node.end_col_offset)
            before = lines[node.lineno - 1].encode()[columns].decode()
            name = path.relative_to(ROOT).as_posix()
            yield Mutant(name, node.lineno, columns, before, f"({ast.unparse(changed)})")


def _loads(mutant: Mutant) -> bool:
    """False inside of a formatted string or a pattern, where an expression may not be another."""
    lines = (ROOT / mutant.path).read_text("utf-8").splitlines(keepends=True)
    lines[mutant.line - 1] = mutant.on(lines, mutant.after)
    try:
        compile("".join(lines), mutant.path, "exec")
    except SyntaxError:
        return False
    return True


def drawn(area: str, number: int, seed: int) -> list[Mutant]:
    """So many mutants of an area, each of another line, at random.

    By a hash of each, so that a change elsewhere leaves the others as they are.
    """
    found: dict[tuple[str, int], tuple[bytes, Mutant]] = {}
    for folder in AREAS[area]:
        for path in (ROOT / "streameval" / folder).rglob("*.py"):
            times: Counter[tuple[str, str]] = Counter()
            for mutant in mutants(path):
                change = mutant.before, mutant.after
                times[change] += 1
                text = f"{seed} {mutant.path} {change} {times[change]}"
                one = hashlib.sha256(text.encode()).digest(), mutant
                place = mutant.path, mutant.line
                found[place] = min(one, found.get(place, one), key=itemgetter(0))
    ordered = (mutant for _, mutant in sorted(found.values(), key=itemgetter(0)))
    return [*islice(filter(_loads, ordered), number)]


def _copied(directory: Path) -> Path:
    """A copy of the tree in which modules are changed: what git has, and the compiled parts."""
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    # With them the bytecode, which is that of modules of the same time: a changed one has another.
    built = [
        path.relative_to(ROOT).as_posix()
        for pattern in ("*.so", "*.pyc")
        for path in (ROOT / "streameval").rglob(pattern)
    ]
    for name in filter(None, [*files, *built]):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, directory / name)
    return directory


def _pytest(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    """The tests on the tree of a directory, in a session that can be ended as a whole."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no"]
    environment = {**os.environ, "PYTHONPATH": str(directory), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [*command, "-p", "no:cacheprovider", *arguments],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


_PLUGIN = """
import os
from contextlib import suppress

# Opened at once: tests give up rights, or have no file left to open.
_NOTES = os.open(__file__.replace(".py", ".txt"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
_SEEN = set()

def _note(value, test):
    if (value, test) not in _SEEN:
        with suppress(OSError):  # in a test of a full disk
            os.write(_NOTES, f"{value} {test}\\n".encode())
            _SEEN.add((value, test))

def reached(number):
    test, _, phase = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")
    # What a fixture reaches may be for every test of the module.
    _note(f"reached {number}", test if phase == "(call)" else test.partition("::")[0])

def pytest_runtest_logreport(report):
    _note(f"took {'inf' if report.failed else report.duration}", report.nodeid)
"""
"""What tests are run with: it notes which places each of them reaches, and its seconds."""


def reaching(
    chosen: list[Mutant], directory: Path, selected: list[str], processes: int
) -> tuple[list[list[str]], dict[str, float]]:
    """The selected tests that run the place of each mutant, and the seconds of every test.

    The quick ones come first; of a place that runs when the package is imported, all others follow.
    """
    for name in {mutant.path for mutant in chosen}:
        lines = (ROOT / name).read_text("utf-8").splitlines(keepends=True)
        for number, mutant in enumerate(chosen):
            if mutant.path == name:
                noted = mutant.on(lines, f"(_reached({number}) or ({mutant.before}))")
                lines[mutant.line - 1] = noted
        text, future = "".join(lines), "from __future__ import annotations"
        text = text.replace(future, f"{future}; from _reached import reached as _reached", 1)
        (directory / name).write_text(text, "utf-8")
    (directory / "_reached.py").write_text(_PLUGIN, "utf-8")
    _pytest(directory, "-p", "_reached", "-n", str(processes), *selected).communicate()
    for name in {mutant.path for mutant in chosen}:
        shutil.copy2(ROOT / name, directory / name)
    seconds: dict[str, float] = {}
    places: list[set[str]] = [set() for _ in chosen]
    for line in (directory / "_reached.txt").read_text("utf-8").splitlines():
        kind, value, test = line.split(" ", 2)
        function = test.partition("[")[0]
        if kind == "took":
            seconds[function] = seconds.get(function, 0.0) + float(value)
        else:
            places[int(value)].add(function)
    usable = sorted((test for test in seconds if seconds[test] < math.inf), key=seconds.__getitem__)
    reached = []
    for place in places:
        own = [test for test in usable if {test, test.partition("::")[0]} & place]
        reached.append(own + [test for test in usable if "" in place and test not in own])
    return reached, seconds


def killed_by(mutant: Mutant, directory: Path, tests: list[str], seconds: float) -> str:
    """The first of the tests that notices a mutant; empty where none does."""
    path = directory / mutant.path
    original = path.read_text("utf-8")
    lines = original.splitlines(keepends=True)
    lines[mutant.line - 1] = mutant.on(lines, mutant.after)
    path.write_text("".join(lines), "utf-8")
    process = _pytest(directory, "-x", "-p", "no:xdist", *tests)
    try:
        said, _ = process.communicate(timeout=60 + 10 * seconds)
    except subprocess.TimeoutExpired:
        return "a limit of time"
    finally:
        path.write_text(original, "utf-8")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a command that a test has started as well
    if process.returncode in (0, 5):
        return ""
    failed = [line for line in said.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0].split(" ", 2)[1] if failed else "an error before any test"


def main() -> int:
    """0 where 95 % of the mutants are killed; of fewer than 100 always."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=200, help="tests that are tried for a mutant")
    parser.add_argument("--tests", nargs="+", default=_FOLDERS, help="out of which they are chosen")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    shares = {"core": 0.5, "records": 0.2, "service": 0.3}
    chosen = [
        mutant
        for area, share in shares.items()
        for mutant in drawn(area, round(options.count * share), options.seed)
    ]
    with (
        tempfile.TemporaryDirectory(prefix="mutants") as made,
        ThreadPoolExecutor(options.processes) as pool,
    ):
        free = [_copied(Path(made) / str(number)) for number in range(options.processes)]
        selected = [*options.tests, "-m", "not heavy"]
        places, seconds = reaching(chosen, free[0], selected, options.processes)

        def killed(mutant: Mutant, reached: list[str]) -> str:
            directory, tests = free.pop(), reached[: options.most]
            try:
                total = sum(map(seconds.__getitem__, tests))
                return killed_by(mutant, directory, tests, total) if tests else ""
            finally:
                free.append(directory)

        survivors = []
        for mutant, reached, test in zip(
            chosen, places, pool.map(killed, chosen, places), strict=True
        ):
            said = f"killed by {test}" if test else f"SURVIVES, reached by {len(reached)} tests"
            print(f"{said}: {mutant}", flush=True)
            if not test:
                survivors.append(mutant)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants were killed")
    for test in sorted(test for test in seconds if seconds[test] == math.inf):
        print(f"fails without any change: {test}")
    for mutant in survivors:
        print(f"survives: {mutant}")
    return int(len(chosen) >= 100 and len(survivors) > 0.05 * len(chosen))


if __name__ == "__main__":
    sys.exit(main())
