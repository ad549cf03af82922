"""Builds the compiled parts, or leaves them out where they cannot be built.

Everything else about the package is in pyproject.toml. Without a C++ compiler
(or without Cython) the install succeeds and the portable parts are used;
``streameval.backend()`` reports which.

Environment:
    STREAMEVAL_NATIVE=skip: do not try to build it.
    STREAMEVAL_NATIVE=require: fail when it cannot be built (for building wheels).
    STREAMEVAL_OPTIMISE=0: build in a third of the time, for tests of the build (default 3).
    STREAMEVAL_SANITIZE=1: build with the address and undefined-behaviour sanitisers.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

PACKAGE = Path("streameval")
WISH = os.environ.get("STREAMEVAL_NATIVE", "")
REQUIRED = WISH == "require"
_CYTHON = threading.Lock()


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
        return ["-O1", "-g", *exact, "-fno-omit-frame-pointer", *sanitisers], sanitisers
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
    # Not tried with Microsoft's compiler, for which exact128.hpp has the 128-bit integers.
    wide = [
        "fading_sums",
        "native_class_events",
        "native_csv",
        "native_json",
        "native_confusion",
        "native_loss_tally",
        "native_way",
    ]
    # The largest first: with two processors neither waits long for the other at the end.
    sources = sorted(PACKAGE.glob("*/native/*.pyx"), key=lambda path: -path.stat().st_size)
    headers = sorted(
        str(path) for end in ("hpp", "pxd") for path in PACKAGE.glob(f"*/native/*.{end}")
    )
    return [
        Extension(
            ".".join(source.with_suffix("").parts),
            sources=[str(source)],
            depends=headers,
            include_dirs=sorted({str(source.parent) for source in sources}),
            language="c++",
            extra_compile_args=compile_flags,
            extra_link_args=link_flags,
            optional=not REQUIRED or (sys.platform == "win32" and source.stem in wide),
        )
        for source in sources
    ]


class OptionalBuild(build_ext):
    """A build that omits an extension on any failure.

    ``optional=True`` covers a failing compiler. It does not cover a
    platform whose compiler cannot be found, nor the copy of the
    missing library back into the source tree by an editable install.
    """

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
                [made] = cythonize([ext], build_dir="build/cython", force=force)
            ext.sources = made.sources
            super().build_extension(ext)
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


setup(ext_modules=_extensions(), cmdclass={"build_ext": OptionalBuild})
