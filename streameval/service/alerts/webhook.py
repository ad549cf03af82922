"""Posts the transitions of alerts to an address, in a thread."""

from __future__ import annotations

import base64
import contextlib
import http.client
import logging
import queue
import threading
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from streameval import __version__
from streameval.service.alerts.transition import Transition
from streameval.service.config.secrets import hidden_url, secret, webhook_target
from streameval.service.config.settings import WebhookSettings

_LOG = logging.getLogger("streameval.webhook")

_MOST_WAITING = 1000
_LONGEST_DELAY = 60.0


class Webhook:
    """Posts transitions of alerts, one after another, in a thread; callers never wait."""

    # A post that is not answered with 2xx is tried again after 1, 2, 4 … seconds; one that is
    # answered with 4xx (but 408 and 429) or a redirect is given up, as trying again would not help.
    # Neither the token nor the address but for its host is ever logged.

    def __init__(
        self,
        settings: WebhookSettings,
        first_delay: float = 1.0,
        resolve: Callable[[str, str], str] = secret,
    ) -> None:
        url, token = webhook_target(settings, resolve)
        self._host = hidden_url(url)
        self._url, login = _without_login(url)
        self._headers = {
            "Content-Type": "application/json",
            "User-Agent": f"streameval/{__version__}",
        }
        if login:
            self._headers["Authorization"] = f"Basic {login}"
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = settings.timeout.seconds
        self._tries = 1 + settings.retries
        self._first_delay = first_delay
        self._waiting: queue.Queue[Transition | None] = queue.Queue(_MOST_WAITING)
        self._finished: deque[int] = deque()
        self._stop = threading.Event()
        self._opener = _opener()
        self.problem = ""
        """The error of the last post, in words; empty after a success."""
        self.sent = 0
        self.failed = 0
        """Posts that were given up or dropped."""
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
        self._thread.start()

    def post(self, transition: Transition) -> bool:
        """Queue a transition; False where the queue is full. Never blocks."""
        try:
            self._waiting.put_nowait(transition)
        except queue.Full:
            self._give_up(transition, f"{_MOST_WAITING:,} posts wait already")
            return False
        return True

    def finished(self) -> list[int]:
        """The numbers of transitions that were posted or given up since the last call."""
        return [self._finished.popleft() for _ in range(len(self._finished))]

    def close(self, timeout: float = 5.0, *, post: bool = True) -> None:
        """Post what waits, without further repetitions, for ``timeout`` seconds at most."""
        self._stop.set()
        with contextlib.suppress(queue.Empty):
            while not post:
                self._waiting.get_nowait()
        with contextlib.suppress(queue.Full):  # the thread also checks the event
            self._waiting.put_nowait(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        with contextlib.suppress(queue.Empty):
            while transition := self._waiting.get(block=not self._stop.is_set()):
                self._deliver(transition)

    def _deliver(self, transition: Transition) -> None:
        body = msgspec.json.encode({**msgspec.to_builtins(transition), "text": transition.text})
        for attempt in range(self._tries):
            problem, again = self._try(body)
            if not problem:
                self.sent += 1
                self.problem = ""
                self._finished.append(transition.number)
                return
            self.problem = problem
            if not again or attempt + 1 == self._tries or self._stop.is_set():
                break
            delay = min(self._first_delay * 2**attempt, _LONGEST_DELAY)
            _LOG.log(
                # One warning an alert; what is given up is logged as well.
                logging.INFO if attempt else logging.WARNING,
                "alert %s not posted to %s, attempt %d of %d: %s; again in %g s",
                *(transition.name, self._host, attempt + 1, self._tries, problem, delay),
            )
            if self._stop.wait(delay):
                break
        self._give_up(transition, problem)

    def _give_up(self, transition: Transition, problem: str) -> None:
        self.failed += 1
        self.problem = problem
        if not self._stop.is_set():
            # A restart posts again what a stop has interrupted.
            self._finished.append(transition.number)
        _LOG.warning("alert %s not posted to %s: %s", transition.name, self._host, problem)

    def _try(self, body: bytes) -> tuple[str, bool]:
        """The error in words, empty where there is none; and whether to try again."""
        request = urllib.request.Request(self._url, body, self._headers, method="POST")
        try:
            with self._opener.open(request, timeout=self._timeout):
                return "", False
        except urllib.error.HTTPError as error:
            error.close()
            again = error.code >= 500 or error.code in (408, 429)
            return f"answered with status {error.code}", again
        # Their texts may hold the address or a header: only the kind of error is logged.
        except urllib.error.URLError as error:
            return f"cannot be reached: {_kind(error.reason)}", True
        except OSError as error:
            return f"connection failed: {_kind(error)}", True
        except http.client.HTTPException as error:
            return f"answered with no HTTP: {type(error).__name__}", True
        except Exception as error:  # the thread has to live for the next alert
            return f"cannot be posted: {type(error).__name__}", False


def _kind(error: Any) -> str:
    words = getattr(error, "strerror", None)
    return f"{type(error).__name__}{f' ({words})' if isinstance(words, str) else ''}"


def _without_login(url: str) -> tuple[str, str]:
    """The address without ``user:password@``, and those two as a header has them."""
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, ""
    encoded = base64.b64encode(unquote(login).encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), encoded


def _opener() -> urllib.request.OpenerDirector:
    """Opens http and https, through the environment's proxy if there is one."""
    # No redirects: one would carry the token to another host.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener
