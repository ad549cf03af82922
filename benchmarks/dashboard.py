"""How soon the dashboard shows something, and the worst of 1,000 slices, in a real browser.

``python -m benchmarks.dashboard``. Needs Chromium (``make browser``).
"""

from __future__ import annotations

import statistics
from typing import Any, NamedTuple

from playwright.sync_api import Browser, sync_playwright

from streameval.service.config.address import Address
from streameval.service.config.settings import ServeSettings
from streameval.service.http.server import Server
from tests.support.chromium import ARGUMENTS, find_chromium
from tests.support.published_sample import SamplePublisher, published_data

__all__ = ["Paint", "first_paint"]

TARGET = 1.0
"""Seconds to the first contentful paint."""

_TIMES = """() => ({
    paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
    slices: performance.getEntriesByName("streameval-slices")[0].startTime,
})"""


class Paint(NamedTuple):
    """Medians, in seconds since the page was requested."""

    first: float
    """First contentful paint, as the browser reports it."""
    slices: float
    """The first page of the slices' table is filled."""
    runs: int


def first_paint(slices: int = 1000, repeats: int = 5) -> Paint | None:
    """Open the dashboard with an empty cache, several times; None without a Chromium.

    Args:
        slices: Slices in each of the snapshot's three windows.
        repeats: Pages opened, each in a new profile.
    """
    chromium = find_chromium()
    if chromium is None:
        return None
    publisher = SamplePublisher(published_data(slices=slices, hostile=False))
    server = Server(ServeSettings(listen=Address("127.0.0.1:0")), None, publisher, None)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
            found = [_once(browser, server.url) for _ in range(repeats)]
            browser.close()
    finally:
        server.stop()
    return Paint(
        statistics.median(times["paint"] for times in found) / 1000,
        statistics.median(times["slices"] for times in found) / 1000,
        repeats,
    )


def _once(browser: Browser, url: str) -> dict[str, Any]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(url)
    page.wait_for_function(
        "() => ['streameval-slices', 'first-contentful-paint']"
        ".every((name) => performance.getEntriesByName(name).length)"
    )
    times: dict[str, Any] = page.evaluate(_TIMES)
    context.close()
    return times


def main() -> None:
    """Measure and print."""
    paint = first_paint()
    if paint is None:
        print("NOT MEASURED: the dashboard's first paint; no Chromium (make browser, or CHROMIUM)")
        return
    print(
        f"dashboard, 1,000 slices: first contentful paint {paint.first:.2f} s "
        f"(target {TARGET:g} s), slices filled {paint.slices:.2f} s; median of {paint.runs}"
    )


if __name__ == "__main__":
    main()
