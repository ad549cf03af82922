"""Changes the package in many small ways, and says which of them no test notices.

``make mutants`` draws 200 places from the core, the records and the service, changes one after the
other in a copy of the tree, and runs the tests that are about the changed module until one fails.
A mutant that all of them pass *survives*: it is equivalent to the code, or a test is missing.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import copy
import os
import py_compile
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
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

_SECONDS = 300
"""For one test module; a mutant that hangs it is killed."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclass(frozen=True)
class Mutant:
    """One change of one line."""

    path: str
    line: int
    before: str
    after: str
    source: str
    """The whole module with the change."""

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


CHANGES: tuple[Callable[[ast.AST], bool], ...] = (
    _compared,
    _other_constant,
    _dropped_term,
    _swapped,
)


def _expressions(tree: ast.Module) -> Iterator[ast.expr]:
    """The expressions that run in a function: no annotation, default, decorator or docstring."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    for function in functions:
        for statement in function.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.expr) and not isinstance(statement, ast.FunctionDef):
                    yield node


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its lines."""
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
            line = lines[node.lineno - 1].encode()
            before = line[node.col_offset : node.end_col_offset].decode()
            after = f"({ast.unparse(changed)})"
            new = line[: node.col_offset] + after.encode() + line[node.end_col_offset :]
            text = [*lines[: node.lineno - 1], new.decode(), *lines[node.lineno :]]
            mutant = "".join(text)
            try:
                compile(mutant, str(path), "exec")
            except SyntaxError:
                continue  # inside of a formatted string, or a pattern
            name = path.relative_to(ROOT).as_posix()
            yield Mutant(name, node.lineno, before, after, mutant)


def drawn(area: str, number: int, seed: int) -> list[Mutant]:
    """So many mutants of an area, each of another line, at random."""
    found: dict[tuple[str, int], list[Mutant]] = {}
    for folder in AREAS[area]:
        for path in sorted((ROOT / "streameval" / folder).rglob("*.py")):
            for mutant in mutants(path):
                found.setdefault((mutant.path, mutant.line), []).append(mutant)
    choose = random.Random(f"{seed} {area}")
    places = choose.sample(sorted(found), min(number, len(found)))
    return [choose.choice(found[place]) for place in places]


@cache
def _test_modules() -> dict[str, str]:
    folders = ("unit", "properties", "cli", "service")
    tests = ROOT / "tests"
    paths = [path for folder in folders for path in sorted((tests / folder).glob("test_*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}


def tests_of(mutant: Mutant) -> list[str]:
    """The test modules by how much they are about a module, and then those of its area."""
    path = Path(mutant.path)
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    names = [node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    dotted = ".".join(path.with_suffix("").parts)
    wanted = [re.escape(name) for name in (dotted, *names) if not name.startswith("_")]
    words = re.compile(rf"\b(?:{'|'.join(wanted)})\b")
    area, stem = path.parts[1], path.stem.removeprefix("_")

    def score(name: str) -> tuple[int, bool, bool, bool]:
        named = 20 * (stem in name) + 5 * (path.parts[-2] in name.rpartition("/")[2])
        outer = name.split("/")[1] in ("service", "cli")
        return (
            len(words.findall(_test_modules()[name])) + named,
            area == name.split("/")[1],
            outer == (area in ("service", "records")),
            "golden" in name or "laws" in name,
        )

    return sorted(_test_modules(), key=score, reverse=True)


def _copied(directory: Path) -> Path:
    """A copy of the tree in which modules are changed: what git has, and the compiled parts."""
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    built = [path.relative_to(ROOT).as_posix() for path in (ROOT / "streameval").rglob("*.so")]
    for name in filter(None, [*files, *built]):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, directory / name)
    # A changed module is told by its text: its time may be that of the original.
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(directory / "streameval", quiet=1, invalidation_mode=mode)
    return directory


def _fails(test: str, directory: Path) -> str:
    """How a test module ends on the tree of a directory; empty where it passes."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--hypothesis-profile=fast"]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist"]
    environment = {**os.environ, "PYTHONPATH": str(directory), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*command, test],
            cwd=directory,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"{test} (hung)"
    return "" if done.returncode in (0, 5) else test


def killed_by(mutant: Mutant, directory: Path, most: int, broken: dict[str, bool]) -> str:
    """The test module that notices a mutant; empty where none of the first `most` does.

    A test that fails without the mutant as well is `broken`, and notices nothing.
    """
    path = directory / mutant.path
    original = path.read_text("utf-8")
    for test in tests_of(mutant)[:most]:
        if broken.get(test):
            continue
        path.write_text(mutant.source, "utf-8")
        try:
            failed = _fails(test, directory)
        finally:
            path.write_text(original, "utf-8")
        if failed and test not in broken:
            broken[test] = bool(_fails(test, directory))
        if failed and not broken[test]:
            return failed
    return ""


def _run(
    mutant: Mutant, free: list[Path], most: int, broken: dict[str, bool]
) -> tuple[Mutant, str]:
    directory = free.pop()
    try:
        return mutant, killed_by(mutant, directory, most, broken)
    finally:
        free.append(directory)


def main() -> int:
    """0 where 95 % of the mutants are killed; of fewer than 100 always."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=25, help="test modules tried for each mutant")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    shares = {"core": 0.5, "records": 0.2, "service": 0.3}
    chosen = [
        mutant
        for area, share in shares.items()
        for mutant in drawn(area, round(options.count * share), options.seed)
    ]
    survivors = []
    broken: dict[str, bool] = {}
    with (
        tempfile.TemporaryDirectory(prefix="mutants") as made,
        ThreadPoolExecutor(options.processes) as pool,
    ):
        free = [_copied(Path(made) / str(number)) for number in range(options.processes)]
        run = partial(_run, free=free, most=options.most, broken=broken)
        for mutant, test in pool.map(run, chosen):
            print(f"{'killed by ' + test if test else 'SURVIVES'}: {mutant}", flush=True)
            if not test:
                survivors.append(mutant)
    killed = len(chosen) - len(survivors)
    print(f"{killed} of {len(chosen)} mutants were killed")
    for test in sorted(test for test in broken if broken[test]):
        print(f"fails without any change: {test}")
    for mutant in survivors:
        print(f"survives: {mutant}")
    return int(len(chosen) >= 100 and killed < 0.95 * len(chosen))


if __name__ == "__main__":
    sys.exit(main())
