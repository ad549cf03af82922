"""Which implementation this process uses, compiled or portable; loads the compiled modules.

Both have the same methods, errors and written forms. The compiled one is used where it was
built. The environment variable ``STREAMEVAL_BACKEND`` (``portable`` or ``native``), read once
when streameval is imported, overrides this.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from streameval.errors import StreamevalError, shown

__all__ = ["BackendError", "backend", "compiled", "slow_because"]

_VARIABLE = "STREAMEVAL_BACKEND"
_REMEDY = (
    "install a C++ compiler and run pip install --force-reinstall --no-binary streameval streameval"
)


class BackendError(StreamevalError, ImportError):
    """``STREAMEVAL_BACKEND`` names an implementation that is not available, or none can run."""


def choose(name: str) -> str:
    """The implementation for a value of the variable; it is compiled if the score index is."""
    if name not in ("", "native", "portable"):
        raise BackendError(f"{_VARIABLE}: expected native, portable or nothing, got {shown(name)}")
    if name != "portable":
        try:
            importlib.import_module("streameval.states.native.native_index")
            return "native"
        except ImportError as error:
            if name == "native":
                raise BackendError(
                    f"{_VARIABLE}=native: the compiled score index cannot be imported "
                    f"({error}); {_REMEDY}, or unset {_VARIABLE}"
                ) from error
    return "portable"


def check_interpreter() -> None:
    """Refuse a Python that runs without its lock, on which all states rely."""
    locked = getattr(sys, "_is_gil_enabled", None)  # since Python 3.13
    if locked is not None and not locked():
        raise BackendError(
            "streameval needs the interpreter's lock, and this free-threaded Python runs without "
            "it: a read beside a writer could damage a state; start Python with PYTHON_GIL=1 or "
            "-X gil=1"
        )


_WISH = os.environ.get(_VARIABLE, "")
_BACKEND = choose(_WISH)
check_interpreter()


def backend() -> str:
    """The implementation in use: ``"native"``, compiled, or ``"portable"``, numpy and Python.

    Both give the same results; the portable one takes 3 to 30 times the time of an event. Where
    the compiled parts are missing, install a C++ compiler and run ``pip install
    --force-reinstall --no-binary streameval streameval``; they are built at install.

    >>> backend() in ("native", "portable")
    True
    """
    return _BACKEND


def slow_because(name: str = _BACKEND, wish: str = _WISH) -> str:
    """Why no compiled parts are used, and how to use them; empty where they are."""
    if name == "native":
        return ""
    if wish:
        return f"{_VARIABLE}={wish}: the slower portable parts are used; unset it"
    return f"the compiled parts are missing, and the slower portable ones are used; {_REMEDY}"


def compiled(module: str) -> Any:
    """A compiled module by its full name, or None where the portable code is used."""
    if _BACKEND == "native":
        try:
            return importlib.import_module(module)
        except ImportError:  # one compiled module can be missing alone
            pass
    return None
