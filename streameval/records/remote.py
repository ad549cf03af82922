"""Files at URLs through fsspec: ``s3://``, ``gs://``, ``https://``, ``memory://``.

The only module that imports it.
"""

from __future__ import annotations

from typing import Any, BinaryIO

from streameval.errors import InputError, MissingExtraError

_MAGIC = frozenset("*?[")

_PACKAGES = {
    "s3": ("s3fs", "s3"),
    "s3a": ("s3fs", "s3"),
    "gs": ("gcsfs", "gs"),
    "gcs": ("gcsfs", "gs"),
    "http": ("aiohttp", "http"),
    "https": ("aiohttp", "http"),
}
"""Schemes -> the package that fsspec reads them with, and the extra that brings it."""


def is_remote(path: str) -> bool:
    """Whether a path is a URL of another scheme than ``file``."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.isidentifier() and scheme != "file"


def remote_files(url: str, *, directories: bool = False) -> list[str]:
    """The files that a URL, or a pattern of URLs, names, sorted; raises InputError."""
    fs, path = _file_system(url)
    try:
        if _MAGIC & set(path):
            found = sorted(name for name in fs.glob(path) if not fs.isdir(name))
            if not found:
                raise InputError(url, expected="a pattern that some file matches", got="no match")
            return [fs.unstrip_protocol(name) for name in found]
        # Without a request more for each file of a web server, which may not tell.
        if url.partition("://")[0] in ("http", "https") or fs.isfile(path):
            return [url]
        if fs.isdir(path):
            if not directories:
                remedy = f"give '{url.rstrip('/')}/*.parquet'"
                raise InputError(url, expected="a file", got="a directory", remedy=remedy)
            start = len(path.rstrip("/"))
            found = [name for name in sorted(fs.find(path)) if not _hidden(name[start:])]
            if not found:
                raise InputError(url, expected="a directory with files", got="none in it")
            return [fs.unstrip_protocol(name) for name in found]
    except InputError:
        raise
    except Exception as error:
        raise _unreadable(url, error) from None
    raise InputError(url, expected="a file", got="no such file")


def _hidden(path: str) -> bool:
    return any(part.startswith((".", "_")) for part in path.split("/"))


def open_remote(url: str) -> BinaryIO:
    """The file at a URL, read in blocks; raises InputError."""
    fs, path = _file_system(url)
    try:
        file: BinaryIO = fs.open(path, "rb")
    except Exception as error:
        raise _unreadable(url, error) from None
    return file


def remote_size(url: str) -> int | None:
    """Bytes at a URL; None where the server does not say."""
    fs, path = _file_system(url)
    try:
        size = fs.size(path)
    except Exception:
        return None
    return int(size) if size else None


def _file_system(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError(f"reading {url}", package="fsspec", extra="remote") from None
    scheme = url.partition("://")[0]
    try:
        fs, path = url_to_fs(url)
    except (ImportError, ValueError) as error:
        lacking = isinstance(error, ImportError)
        if lacking and scheme in _PACKAGES:
            package, extra = _PACKAGES[scheme]
            raise MissingExtraError(f"reading {url}", package=package, extra=extra) from None
        can_be = "whose package is installed" if lacking else "that fsspec can read"
        raise InputError(
            url,
            expected=f"a URL of a scheme {can_be}",
            got=f"{scheme}: {' '.join(str(error).split())}",
            remedy="install that package" if lacking else "correct the scheme",
        ) from None
    return fs, str(path)


def _unreadable(url: str, error: Exception) -> InputError:
    # Each file system has its own errors: of its client, of credentials, of the network.
    got = " ".join(str(error).split()) or type(error).__name__
    return InputError(url, expected="a file that can be read", got=got)
