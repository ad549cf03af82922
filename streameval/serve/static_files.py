"""The pages' files, and the rules and dashboards for other programs; no path is ever built."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from typing import NamedTuple

from streameval.errors import MissingExtraError
from streameval.serve.fault import RefusedError

__all__ = ["StaticFile", "StaticFiles"]

_HERE = Path(__file__).parent
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".yml": "text/plain; charset=utf-8",
}
_BESIDE = ("grafana_dashboard.json", "prometheus_rules.yml", "openapi.json")
_PLOTLY = "plotly.min.js"


class StaticFile(NamedTuple):
    """A file to send."""

    body: bytes
    content_type: str
    etag: str
    cache_control: str


class StaticFiles:
    """Files by name: those of ``static/``, plotly's script, the shipped rules and dashboard.

    Names are looked up in a table made at the start, so nothing outside it
    can be asked for. A file that changes is read again.

    Raises:
        MissingExtraError: plotly is not installed.
    """

    def __init__(self) -> None:
        self._paths = {path.name: path for path in sorted((_HERE / "static").iterdir())}
        self._paths.update({name: _HERE / name for name in _BESIDE})
        self._paths[_PLOTLY] = _plotly_script()
        self._read: dict[str, tuple[tuple[int, int], StaticFile]] = {}

    @property
    def names(self) -> list[str]:
        """What can be asked for."""
        return list(self._paths)

    def get(self, name: str) -> StaticFile:
        """A file by its name.

        Raises:
            RefusedError: 404.
        """
        path = self._paths.get(name)
        if path is None or path.suffix not in _TYPES:
            raise RefusedError(
                404, expected="a file that is served", got="another name", where="/static/"
            )
        stat = path.stat()
        version = stat.st_mtime_ns, stat.st_size
        known = self._read.get(name)
        if known is not None and known[0] == version:
            return known[1]
        body = path.read_bytes()
        # The script changes with plotly's version only, and is large. The pages' own
        # files are asked for again each time, to no cost where they did not change.
        cache = "private, max-age=2592000" if name == _PLOTLY else "no-cache"
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        file = StaticFile(body, _TYPES[path.suffix], etag, cache)
        self._read[name] = version, file
        return file


def _plotly_script() -> Path:
    # Found, not imported: importing plotly takes a second and brings nothing here.
    found = importlib.util.find_spec("plotly")
    if found is None or found.origin is None:
        raise MissingExtraError("the dashboard", package="plotly", extra="serve")
    return Path(found.origin).parent / "package_data" / _PLOTLY
