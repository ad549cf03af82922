"""A small server for probes alone, for a process that serves no pages."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from streameval.errors import ConfigError
from streameval.service.config.address import Address
from streameval.service.config.settings import ServeSettings
from streameval.service.http.health import is_alive
from streameval.service.progress import Progress

_REQUEST_SECONDS = 5.0
_CONNECTIONS = 16


@contextmanager
def probes(settings: ServeSettings, progress: Progress) -> Iterator[str | None]:
    """Answer ``/livez`` and ``/readyz`` at ``serve.probes``, inside the block.

    Alive (200, else 503): the loop has made a step within ``serve.live_age``, or has not begun.
    Ready: it has begun, so the store is restored. Nothing else is answered, so no token is
    needed at any address. Yields the address, with the port that the system chose; None where the
    settings have no ``probes``. Raises ConfigError where the address is in use.
    """
    if settings.probes is None:
        yield None
        return
    address = settings.probes

    class Handler(BaseHTTPRequestHandler):
        timeout = _REQUEST_SECONDS

        def do_GET(self) -> None:
            alive = is_alive(settings, progress)
            answers = {"/livez": alive, "/readyz": alive and progress.restored}
            found = answers.get(self.path)
            self.send_response(404 if found is None else 200 if found else 503)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing: probes repeat every few seconds."""

    class Listening(ThreadingHTTPServer):
        """Answers the newest connections: an older one gives way, however slow its client is."""

        address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        daemon_threads = True

        def __init__(self) -> None:
            self._open: list[socket.socket] = []
            self._lock = threading.Lock()
            super().__init__((address.host, address.port), Handler)

        def process_request(self, request: Any, client_address: Any) -> None:
            with self._lock:
                self._open.append(request)
                for oldest in self._open[:-_CONNECTIONS]:
                    with suppress(OSError):
                        oldest.shutdown(socket.SHUT_RDWR)  # its thread then ends
            super().process_request(request, client_address)

        def shutdown_request(self, request: Any) -> None:
            with self._lock:
                self._open.remove(request)
            super().shutdown_request(request)

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Log nothing: a client that is gone is no error of the run."""

    try:
        server = Listening()
    except OSError as error:
        raise ConfigError(
            f"serve.probes: cannot listen at {address}: {error.strerror or error}"
        ) from None
    thread = threading.Thread(target=server.serve_forever, name="probes", daemon=True)
    thread.start()
    try:
        yield f"http://{Address.of(address.host, server.server_address[1])}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
