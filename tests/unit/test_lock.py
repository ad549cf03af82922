"""The lock of an evaluator, in both implementations."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from streameval.states.lock import Lock, new_lock

MADE: list[Callable[[], Lock]] = [threading.RLock]
if new_lock is not threading.RLock:
    MADE.append(new_lock)


pytestmark = pytest.mark.usefixtures("forced_switches")


def in_threads(*targets: Callable[[], object]) -> None:
    """Run them at once, to their ends."""
    threads = [threading.Thread(target=target, daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("make", MADE)
def test_one_thread_at_a_time(make: Callable[[], Lock]) -> None:
    lock = make()
    total = 0
    inside: list[int] = []

    def count() -> None:
        nonlocal total
        for _ in range(3_000):
            with suppress(ZeroDivisionError), lock, lock:
                inside.append(1)
                before = total
                with lock:
                    assert len(inside) == 1
                total = before + 1
                inside.pop()
                raise ZeroDivisionError  # an error gives it back

    in_threads(*[count] * 5)
    assert total == 15_000


@pytest.mark.skipif(len(MADE) == 1, reason="nothing was compiled")
def test_the_compiled_lock_lets_a_waiting_thread_in_between_two_calls_of_another() -> None:
    sys.setswitchinterval(0.005)
    lock = new_lock()
    got = 0
    calls = 0

    def busy() -> None:
        nonlocal calls
        while got < 60 and calls < 40_000:
            with lock:
                calls += 1
                sum(range(2_000))

    def now_and_then() -> None:
        nonlocal got
        for _ in range(60):
            with lock:
                got += 1

    in_threads(busy, now_and_then)
    assert calls < 40_000
