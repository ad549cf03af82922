"""Builds the compiled parts, or leaves them out where they cannot be built.

It also makes the manual page. Everything else about the package is in pyproject.toml. Without
a C++ compiler (or without Cython) the install succeeds and the portable parts are used;
``streameval.backend()`` reports which.

Environment:
    STREAMEVAL_NATIVE=skip: do not try to build it.
    STREAMEVAL_NATIVE=require: fail when it cannot be built (for building wheels).
    STREAMEVAL_OPTIMISE=0: build in a third of the time, for tests of the build (default 3).
    STREAMEVAL_SANITIZE=1: build with the address and undefined-behaviour sanitisers.
    STREAMEVAL_SCHOOLBOOK=1: build states with the 128-bit integers that Microsoft's compiler gets.
    STREAMEVAL_PROGRESS=FILE: append a line for each part that is compiled; a terminal, by `make`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

PACKAGE = Path("streameval")
WISH = os.environ.get("STREAMEVAL_NATIVE", "")
REQUIRED = WISH == "require"
# What Cython needs for typed memoryviews, compiled once and not in each module.
MEMORYVIEWS = "streameval._memoryviews"
_CYTHON = threading.Lock()


_BEGAN = time.monotonic()


def _tell(text: str) -> None:
    """Write a line of progress where pip, which hides the output of a build, does not."""
    path = os.environ.get("STREAMEVAL_PROGRESS")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            line = f"  {text}, {time.monotonic() - _BEGAN:.0f} s so far"
            file.write(f"\r{line:60}\n")  # over the line that pip turns its spinner in


def _warn(reason: object) -> None:
    print(
        f"streameval: the compiled parts are left out ({reason}); "
        "the portable ones are used, with the same results but slower",
        file=sys.stderr,
    )


def _compile_flags() -> tuple[list[str], list[str]]:
    if sys.platform == "win32":
        return ["/O2", "/std:c++17", "/EHsc"], []
    # No -march=native: a wheel runs on other machines than the one that built it.
    # No -ffast-math: the index relies on x + 0.0 turning -0.0 into 0.0. No contraction: a
    # product and a sum in one operation round once, and so have other bits than Python's.
    level = os.environ.get("STREAMEVAL_OPTIMISE", "3")
    exact = ["-std=c++17", "-ffp-contract=off"]
    flags = [f"-O{level}", *exact, "-g0", "-fvisibility=hidden"]
    if os.environ.get("STREAMEVAL_SANITIZE"):
        sanitisers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
        return ["-O1", "-g1", *exact, "-fno-omit-frame-pointer", *sanitisers], sanitisers
    return flags, []


def _extensions() -> list[Extension]:
    if WISH == "skip":
        return []
    try:
        import Cython.Build  # noqa: F401
    except ImportError as error:
        if REQUIRED:
            raise
        _warn(error)
        return []
    compile_flags, link_flags = _compile_flags()
    schoolbook = bool(os.environ.get("STREAMEVAL_SCHOOLBOOK"))
    # The largest first: with two processors neither waits long for the other at the end. Wide
    # integers are those of states.
    sources = sorted(
        PACKAGE.glob(f"{'states' if schoolbook else '*'}/native/*.pyx"),
        key=lambda path: -path.stat().st_size,
    )
    headers = sorted(
        str(path) for end in ("hpp", "pxd") for path in PACKAGE.glob(f"*/native/*.{end}")
    )
    depends = ["setup.py", *headers]
    small = [] if sys.platform == "win32" else ["-O1", "-g0"]
    return [
        Extension(
            MEMORYVIEWS,
            sources=[MEMORYVIEWS.replace(".", "/") + ".c"],
            extra_compile_args=small,
            optional=not REQUIRED,
        ),
        *(
            Extension(
                ".".join(source.with_suffix("").parts),
                sources=[str(source)],
                depends=depends,
                include_dirs=sorted({str(source.parent) for source in sources}),
                define_macros=[("STREAMEVAL_NO_INT128", "1")] if schoolbook else [],
                language="c++",
                extra_compile_args=compile_flags,
                extra_link_args=link_flags,
                optional=not REQUIRED,
            )
            for source in sources
        ),
    ]


class OptionalBuild(build_ext):
    """A build that omits an extension on any failure.

    ``optional=True`` covers a failing compiler. It does not cover a
    platform whose compiler cannot be found, nor the copy of the
    missing library back into the source tree by an editable install.
    """

    compiled = 0

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extension(self, ext: Extension) -> None:
        # In a thread for each processor: one translates to C++ while compilers run. One
        # extension at a time fails, so that those that can be built are kept.
        from Cython.Build import cythonize

        try:
            with _CYTHON:
                # The generated C++ is not kept beside the source, where it would be packed.
                force = self.force or bool(os.environ.get("STREAMEVAL_SANITIZE"))
                [made] = cythonize(
                    [ext],
                    build_dir="build/cython",
                    force=force,
                    shared_utility_qualified_name=MEMORYVIEWS,
                )
            ext.sources = made.sources
            if self.editable_mode:
                # What an earlier install has built is compiled again where a source is newer.
                built, target = self.get_ext_filename(ext.name), self.get_ext_fullpath(ext.name)
                if os.path.exists(built):
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    shutil.copy2(built, target)
            super().build_extension(ext)
            self.compiled += 1
            _tell(f"compiled {self.compiled} of {len(self.extensions)} parts: {ext.name}")
        except Exception as error:
            if REQUIRED and not ext.optional:
                raise
            _warn(error)

    def run(self) -> None:
        if REQUIRED:
            super().run()
            return
        try:
            super().run()
        except Exception as error:
            _warn(error)
            self.extensions = []


def _manual() -> list[tuple[str, list[str]]]:
    """The manual page: made from the help of the commands, or as an earlier build has made it."""
    page = Path("docs/streameval.1")
    if {"sdist", "bdist_wheel"} & set(sys.argv):
        # Not in an isolated build, which lacks what the commands import: `make man` goes before.
        command = [sys.executable, "-m", "streameval", "--man"]
        made = subprocess.run(command, capture_output=True, check=False)
        if made.returncode == 0:
            page.parent.mkdir(exist_ok=True)
            page.write_bytes(made.stdout)
    return [("share/man/man1", [str(page)])] if page.exists() else []


setup(
    ext_modules=_extensions(),
    cmdclass={"build_ext": OptionalBuild},
    data_files=_manual(),
)
