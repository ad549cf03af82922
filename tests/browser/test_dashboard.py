"""The dashboard in a browser, on the real server, with snapshots of every kind."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import PIL.Image
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Locator,
    Page,
    Route,
    TimeoutError,
    expect,
    sync_playwright,
)

from streameval.evaluator.view import View
from streameval.service.config.address import Address
from streameval.service.config.evaluators import open_evaluators, predicted_windows
from streameval.service.config.settings import ServeSettings
from streameval.service.config.source_settings import HttpSettings
from streameval.service.http.server import Server
from streameval.service.publish.builder import SnapshotBuilder
from streameval.service.publish.snapshot import Checkpoint
from streameval.service.store.valid_from import ValidFrom
from tests.support import published_sample
from tests.support.chromium import ARGUMENTS, MISSING, find_chromium
from tests.support.published_sample import HOSTILE, SamplePublisher
from tests.support.run import MODELS, settings, snapshot_of
from tests.support.serve_runs import Box

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)

TOKEN = "a token of the tests"


class Shown:
    """A page that shows a publisher's snapshots; fixtures check what the browser complains of."""

    def __init__(self, page: Page, server: Server, publisher: SamplePublisher) -> None:
        self.page, self.server, self.publisher = page, server, publisher
        self.complaints: list[str] = []
        self.allowed = "no complaint"
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        page.add_init_script(
            "addEventListener('securitypolicyviolation', (event) => "
            "console.error(`policy ${event.violatedDirective} ${event.blockedURI}`))"
        )

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def check(self) -> None:
        assert [one for one in self.complaints if self.allowed not in one] == []

    def open(self, path: str = "") -> Shown:
        self.page.goto(self.server.url + path)
        return self

    def publish(self, data: dict[str, Any]) -> Shown:
        """Publish as the next snapshot, and wait until it is on the page."""
        publish(self.publisher, data)
        return self.seen()

    def seen(self) -> Shown:
        """Wait until the newest snapshot is on the page."""
        newest: Any = self.publisher.current()
        expect(self.page.locator("html")).to_have_attribute("data-sequence", str(newest.sequence))
        return self

    def drawn(self, charts: int = 6) -> Shown:
        """The same, and so many charts as well."""
        self.seen()
        expect(self.page.locator(".js-plotly-plot .main-svg:first-child")).to_have_count(charts)
        return self

    def ask(self, path: str, **query: Any) -> Any:
        return httpx.get(self.server.url + path, params=query).raise_for_status().json()

    def tile(self, metric: str) -> Locator:
        return self.page.locator(f'#tiles [data-metric="{metric}"]')

    def column(self, table: str, name: str) -> list[str]:
        """A table's texts under a heading, without the words for screen readers alone."""
        self.page.locator(f"{table} tbody tr").first.wait_for(state="attached")
        texts: list[str] = self.page.evaluate(COLUMN, [table, name])
        return texts

    def expect_column(self, table: str, name: str, wanted: list[str]) -> None:
        """The same, as soon as they are what they should be."""
        try:
            self.page.wait_for_function(
                f"([table, name, wanted]) => ({COLUMN})([table, name]).join() === wanted.join()",
                arg=[table, name, wanted],
            )
        except TimeoutError:
            assert self.column(table, name) == wanted


COLUMN = """([table, name]) => {
    const heads = [...document.querySelectorAll(`${table} thead th`)];
    const place = heads.findIndex((head) => head.dataset.key === name);
    return [...document.querySelectorAll(`${table} tbody tr:not(.details)`)]
        .map((row) => row.children[place].firstChild?.textContent ?? "");
}"""

Show = Callable[..., Shown]


def sample(**wanted: Any) -> dict[str, Any]:
    """A snapshot of this moment, with ordinary values unless others are given."""
    wanted = {"at": datetime.now(UTC), "hostile": False, "undefined": False, **wanted}
    return published_sample.published_data(**wanted)


def publish(publisher: SamplePublisher, data: dict[str, Any]) -> None:
    """Make it the newest snapshot."""
    before = publisher.current()
    publisher.publish({**data, "sequence": 1 if before is None else before.sequence + 1})


def serve(publisher: SamplePublisher, token: str | None = None, listen: str = "") -> Server:
    """A server of the publisher's snapshots."""
    settings = ServeSettings(listen=Address(listen or "127.0.0.1:0"))
    return Server(settings, HttpSettings(), publisher, Box(), token=token)


def _draws_nothing(route: Route) -> None:
    route.fulfill(
        body="globalThis.Plotly = { react() {}, purge() {} };", content_type="text/javascript"
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # For this module only: while it is open, no other test could run an event loop.
    # On a busy machine a chart may take a quarter of a minute.
    expect.set_options(timeout=60_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def usual(browser: Browser) -> Iterator[tuple[Server, SamplePublisher, BrowserContext]]:
    """One server and one browser's profile for most tests: Plotly is read once."""
    publisher = SamplePublisher()
    server = serve(publisher)
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield server, publisher, context
    context.close()
    server.stop()


@pytest.fixture
def show(browser: Browser, usual: tuple[Server, SamplePublisher, BrowserContext]) -> Iterator[Show]:
    """Serve a snapshot and give a page for it, not yet opened; a profile of its own with
    `options`, a server of its own with `token` or without data.

    Without `charts` a script that draws nothing stands in for Plotly, which costs a
    second for every page; for tests of what is not a chart.
    """
    ends: list[Callable[[], None]] = []
    pages: list[Shown] = []

    def made(
        data: dict[str, Any] | None, token: str | None = None, charts: bool = False, **options: Any
    ) -> Shown:
        server, publisher, context = usual
        if data is None or token:
            publisher = SamplePublisher()
            server = serve(publisher, token)
            ends.append(server.stop)
        if data is not None:
            publish(publisher, data)
        if options or token:
            context = browser.new_context(**options)
            ends.append(context.close)
        page = context.new_page()
        ends.append(page.close)
        if not charts:
            page.route("**/plotly.min.js", _draws_nothing)
        pages.append(Shown(page, server, publisher))
        return pages[-1]

    yield made
    for end in reversed(ends):
        end()
    for shown in pages:
        shown.check()


def test_everything_is_drawn_and_the_browser_has_nothing_to_say(show: Show) -> None:
    shown = show(sample(slices=1000), charts=True).open().drawn()
    expect(shown.page.locator("#state")).to_have_text("Live")
    expect(shown.page.locator("#what")).to_have_text("Binary · positive class 1")
    expect(shown.page.locator("#slices-count")).to_contain_text("of 1,000 slices")
    expect(shown.page.locator("#slices-table tbody tr")).to_have_count(50)
    at = shown.ask("api/view")["window"]["as_of"][:19].replace("T", " ")
    about = f"all: all events · immature · as of {at}"
    expect(shown.page.locator("#metrics-about")).to_have_text(about)
    expect(shown.page.locator("#curves-about")).to_have_text(about)
    expect(shown.page.locator("#confusion-about")).to_have_text(f"2 classes · {about}")
    expect(shown.page.locator("#metrics-note")).to_have_text(
        "Immature, with a dotted line: labels are still coming in, so these values will change."
    )
    expect(shown.page.locator("#model-control")).to_be_hidden()
    # Of one model, whose predictions are not counted.
    for absent in ("models", "predictions"):
        expect(shown.page.locator(f"#{absent}")).to_be_hidden()
        expect(shown.page.locator(f'#sections a[href="#{absent}"]')).to_be_hidden()


def test_a_strict_policy_stands_all_that_one_does_to_a_chart(show: Show) -> None:
    shown = show(sample(predictions=True), charts=True)
    policy = httpx.get(shown.server.url).headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'; script-src 'self'; style-src 'self' 'sha256-" in policy
    shown.open().drawn(charts=10)
    for chart in shown.page.locator(".js-plotly-plot").all():
        area = box_of(chart)
        # Over the chart for its labels, and across it to zoom and back.
        middle = area["x"] + area["width"] / 2, area["y"] + area["height"] / 2
        shown.page.mouse.move(*middle)
        shown.page.mouse.down()
        shown.page.mouse.move(middle[0] + 60, middle[1] + 40, steps=3)
        shown.page.mouse.up()
        shown.page.mouse.dblclick(*middle)
    shown.page.get_by_label("Theme").select_option("dark")
    shown.publish(sample(sequence=2))


def test_a_cell_of_the_confusion_matrix_lists_the_ids_of_its_events(show: Show) -> None:
    data = sample()
    shown = show(data).open().seen()
    count = shown.page.locator("#confusion-table .count").first
    count.click()
    expect(shown.page.locator("#examples-note")).to_contain_text("examples = 5 under [join]")
    first, last = ({"id": key, "time": data["at"], "score": 0.9} for key in ("<b>1", "e2"))
    cell = {"newest": [first], "by_confidence": [first, last]}
    cells = [{"true": true, "predicted": 1 - true, **cell} for true in (0, 1)]
    shown.publish({**data, "examples": {one["name"]: cells for one in data["windows"]}})
    count.click()
    rows = shown.page.locator("#examples tbody tr")
    expect(rows).to_have_count(2)
    for text in ("<b>1", "newest, most confident"):
        expect(rows.first).to_contain_text(text)


def test_tiles_say_what_the_api_says(show: Show) -> None:
    shown = show(sample(undefined=True)).open().seen()
    metrics = shown.ask("api/report")["report"]["metrics"]
    assert len(metrics) == shown.page.locator("#tiles li").count()
    for name, given in metrics.items():
        tile, value = shown.tile(name), given["value"]
        expect(tile.locator(".value")).to_have_text("–" if value is None else f"{value:.4f}")
        expect(tile).to_contain_text(f"{given['support']:,} events")
        if value is None:
            expect(tile).to_contain_text(given["reason"])
        else:
            assert float(tile.locator(".value").get_attribute("title") or "nan") == value
    assert sum(given["value"] is None for given in metrics.values()) == 1


def test_a_new_snapshot_shows_without_a_reload(show: Show) -> None:
    shown = show(sample()).open().seen()
    shown.page.evaluate("window.sameDocument = true")
    shown.page.locator("#slices").scroll_into_view_if_needed()
    before = shown.column("#slices-table", "accuracy")
    shown.publish(sample(sequence=2))
    value = shown.ask("api/report")["report"]["metrics"]["accuracy"]["value"]
    expect(shown.tile("accuracy").locator(".value")).to_have_text(f"{value:.4f}")
    expect(shown.page.locator("#vitals")).to_contain_text("Counted40,002")
    worst = shown.ask("api/slices", sort="accuracy", order="worst", min_support=30)["slices"]
    wanted = [f"{row['metrics']['accuracy']:.4f}" for row in worst]
    assert wanted != before
    shown.expect_column("#slices-table", "accuracy", wanted)
    assert shown.page.evaluate("window.sameDocument") is True


def test_pausing_keeps_the_page_as_it_is(show: Show) -> None:
    shown = show(sample()).open().seen()
    shown.page.get_by_role("button", name="Pause").click()
    expect(shown.page.locator("#state")).to_have_text("Paused")
    publish(shown.publisher, sample(sequence=2))
    httpx.get(shown.server.url + "api/status")
    expect(shown.page.locator("#vitals")).to_contain_text("Counted40,001")
    shown.page.get_by_role("button", name="Resume").click()
    shown.seen()
    expect(shown.page.locator("#vitals")).to_contain_text("Counted40,002")
    expect(shown.page.locator("#state")).to_have_text("Live")


def test_slices_are_sorted_and_filtered_by_keyboard_as_the_server_does(show: Show) -> None:
    shown = show(sample(slices=300)).open().seen()
    page = shown.page
    heading = page.locator('#slices-table th[data-key="log_loss"]')
    for order, mark in (("worst", "descending"), ("best", "ascending")):
        heading.get_by_role("button").focus()
        page.keyboard.press("Enter")
        expect(heading).to_have_attribute("aria-sort", mark)
        rows = shown.ask("api/slices", sort="log_loss", order=order, min_support=30, limit=50)
        wanted = [f"{row['metrics']['log_loss']:.4f}" for row in rows["slices"]]
        shown.expect_column("#slices-table", "log_loss", wanted)
    page.locator('#slices-table th[data-key="name"] button').press("Space")
    expect(page.locator('#slices-table th[data-key="name"]')).to_have_attribute(
        "aria-sort", "ascending"
    )
    page.get_by_label("Support at least").fill("9000")
    page.get_by_label("Find").fill("model=3")
    expected = shown.ask("api/slices", q="model=3", min_support=9000, sort="name")["slices"]
    expect(page.locator("#slices-count")).to_contain_text(f"{len(expected)} of 300 slices")
    names = [row["name"] for row in expected]
    shown.expect_column("#slices-table", "name", names)
    page.locator("#slices-table .opener").first.press("Enter")
    expect(page.locator("#slices-table tr.details")).to_contain_text("model")
    expect(page.locator("#slices-table .opener").first).to_be_focused()
    page.get_by_label("Find").fill("")
    page.get_by_label("Support at least").fill("0")
    expect(page.locator("#slices-count")).to_have_text("300 of 300 slices")
    page.locator("#slices-after").click()
    expect(page.locator("#slices-page")).to_have_text("51–100")


def test_other_tables_sort_in_the_page_and_small_slices_show_alone(show: Show) -> None:
    data = sample(slices=5)
    for row in (row for rows in data["slices"].values() for row in rows):
        row["support"] = 3
    shown = show(data).open().seen()
    expect(shown.page.locator("#slices-count")).to_have_text("5 of 5 slices")
    expect(shown.page.get_by_label("Support at least")).to_have_value("0")
    heading = shown.page.locator('#alerts-table th[data-key="name"]')
    heading.get_by_role("button").press("Enter")
    names = shown.column("#alerts-table", "name")
    assert names == sorted(names)
    heading.get_by_role("button").press("Enter")
    assert shown.column("#alerts-table", "name") == names[::-1]
    expect(heading).to_have_attribute("aria-sort", "descending")


def test_keyboard_and_landmarks(show: Show) -> None:
    shown = show(sample(), reduced_motion="reduce").open().seen()
    page = shown.page
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    expect(page.locator(".skip")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    for role in ("banner", "main", "navigation", "contentinfo"):
        expect(page.get_by_role(role)).to_have_count(1)
    tile = shown.tile("f1").get_by_role("button")
    tile.focus()
    expect(shown.tile("f1").get_by_role("tooltip")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tile.press("Enter")
    expect(page.locator("#metric")).to_have_value("f1")
    expect(page.locator("#time-chart")).to_have_attribute("aria-label", re.compile("^f1 over 48"))
    assert "metric=f1" in page.url
    nameless = page.evaluate(
        "[...document.querySelectorAll('input, select, button')]"
        ".filter((one) => !one.labels?.length && !one.textContent.trim() && !one.ariaLabel).length"
    )
    assert nameless == 0
    assert page.evaluate("getComputedStyle(document.querySelector('.tip')).transitionDuration") in (
        "0s",
        "0s, 0s",
    )


def test_the_choice_of_a_window_lasts_over_a_reload(show: Show) -> None:
    shown = show(sample()).open().seen()
    shown.page.get_by_label("Window").select_option("1h")
    value = shown.ask("api/report", window="1h")["report"]["metrics"]["recall"]["value"]
    expect(shown.tile("recall").locator(".value")).to_have_text(f"{value:.4f}")
    expect(shown.page.locator("#slices-about")).to_contain_text("1h in panes of 5m")
    shown.page.reload()
    shown.seen()
    expect(shown.tile("recall").locator(".value")).to_have_text(f"{value:.4f}")


def test_dark_by_the_system_and_by_choice(show: Show) -> None:
    page = show(sample(), color_scheme="dark").open().seen().page

    def paper() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    dark, theme = paper(), page.get_by_label("Theme")
    theme.select_option("light")
    light = paper()
    assert dark != light == "rgb(246, 247, 249)"
    page.reload()
    assert paper() == light
    expect(theme).to_have_value("light")
    theme.select_option("dark")
    page.emulate_media(color_scheme="light")
    assert paper() == dark
    theme.select_option("system")
    assert paper() == light


PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


def test_a_phone_needs_no_scrolling_sideways(show: Show) -> None:
    data = sample(classes=20, hostile=True, undefined=True, predictions=True)
    shown = show(data, charts=True, **PHONE)
    shown.open().drawn(charts=8)
    shown.page.locator("#slices-table .opener").first.click()
    assert shown.page.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [360, 360]
    small = shown.page.evaluate(
        "[...document.querySelectorAll('.chart')].filter((one) => one.offsetWidth > 340).length"
    )
    assert small == 0


def test_texts_of_the_stream_are_shown_and_never_run(show: Show) -> None:
    data = sample(slices=40, classes=20, hostile=True, undefined=True, predictions=True)
    data["partitions"][0]["problem"] = HOSTILE[0]
    data["alerts"][2].update(state="firing", slice=HOSTILE[1])
    data["windows"][0]["spec"] = HOSTILE[1]
    data["reports"]["all"]["metrics"]["accuracy"].update(value=None, reason=HOSTILE[0])
    data["predictions"]["1h"].update(reference=HOSTILE[1])
    shown = show(data, charts=True).open().drawn(charts=8)
    page = shown.page
    expect(shown.tile("accuracy")).to_contain_text(HOSTILE[0])
    expect(page.locator("#banners")).to_contain_text(HOSTILE[1])
    page.get_by_label("Support at least").fill("0")
    page.get_by_label("Find").fill("<script>")
    expect(page.locator("#slices-table tbody tr").first).to_contain_text(HOSTILE[0])
    page.locator("#slices-table .opener").first.click()
    expect(page.locator("#confusion-table tbody")).to_contain_text(HOSTILE[0])
    # Plotly has shown the label as it is, and has made neither a link nor bold of it.
    ticks = page.locator("#confusion-chart .ytick text").all_text_contents()
    assert "<script>…ript>" in ticks
    expect(page.locator("#scores-chart .ytick").first).to_contain_text("<script>")
    expect(page.locator("#predictions-note")).to_contain_text(HOSTILE[1])
    assert page.locator(".js-plotly-plot svg a").count() == 0
    expect(page.locator("#quarantine-table")).to_contain_text("\\u001b[31mred\\u0007")
    own = "[...document.scripts].every((one) => one.src.startsWith(location.origin + '/static/'))"
    assert page.evaluate(own)
    assert page.locator("img").count() == 0
    assert page.locator("[onerror]").count() == 0
    unseen = re.compile("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2028]")
    assert unseen.search(page.inner_text("main")) is None
    # Nor over its cell.
    chart = page.locator("#confusion-chart")
    box = box_of(chart)
    page.mouse.move(box["x"] + 4, box["y"] + 4)
    expect(chart.locator(".hoverlayer .hovertext")).to_contain_text(HOSTILE[0])


def box_of(chart: Locator) -> Any:
    """Where the area of a chart is, once it can be seen."""
    chart.scroll_into_view_if_needed()
    return chart.locator(".nsewdrag").first.bounding_box()


def test_of_many_classes_none_is_dropped_without_a_way_to_see_it(show: Show) -> None:
    data = sample(classes=120)
    names = [f"a class with a name too long for an axis, as they are, {n}" for n in range(120)]
    confusion = data["confusion"]["all"]
    confusion["labels"] = names[:100]
    for row, name in zip(confusion["classes"], names, strict=True):
        row["label"] = name
    shown = show(data, charts=True).open().drawn(charts=4)
    page = shown.page
    expect(page.locator("#confusion-about")).to_contain_text("100 classes")
    expect(page.locator("#confusion-note")).to_have_text(
        "20 classes of less support are left out; the table of all classes has them."
    )
    expect(page.locator("#confusion-table tbody tr")).to_have_count(50)
    matrix = confusion["matrix"]
    largest = max(n for i, row in enumerate(matrix) for j, n in enumerate(row) if i != j)
    assert shown.column("#confusion-table", "count")[0] == str(largest)
    chart = page.locator("#confusion-chart")
    expect(chart.locator(".heatmaplayer image")).to_have_count(1)
    expect(page.locator("#roc")).to_be_hidden()
    expect(page.locator("#curves-note")).to_contain_text("tasks of more classes have none")
    box = box_of(chart)
    page.mouse.move(box["x"] + box["width"] * 0.075, box["y"] + box["height"] * 0.035)
    hover = chart.locator(".hoverlayer .hovertext")
    expect(hover).to_contain_text("they are, 3")
    expect(hover).to_contain_text("they are, 7")
    rows = page.locator("#classes-table tbody tr")
    expect(rows).to_have_count(0)
    page.locator("#classes summary").click()
    expect(rows).to_have_count(120)
    assert sorted(shown.column("#classes-table", "label")) == sorted(names)
    assert "3" in shown.column("#classes-table", "true")[-1]


def test_undefined_is_a_dash_with_its_reason_and_never_a_number(show: Show) -> None:
    data = sample(slices=20, undefined=True)
    reason = "no event of the negative class"
    data["curves"]["all"]["roc"] = {"curve": "roc", "reason": reason, "columns": {}}
    data["join"]["delay"].update(p50=None, p95=None, p99=None)
    data["partitions"][0]["lag"] = None
    shown = show(data).open().seen()
    page = shown.page
    row = page.locator("#slices-table tbody tr", has_text="country=C9")
    cell = row.locator("td.missing").first
    expect(cell).to_have_text("– undefined: no event of the positive class")
    expect(cell).to_have_attribute("title", "no event of the positive class")
    expect(page.locator("#roc-note")).to_have_text("None: no event of the negative class.")
    expect(page.locator("#labels-main")).to_contain_text("Delay p50–")
    unread = page.locator("#source-table tbody tr", has_text="http:predictions")
    expect(unread).to_contain_text("not known yet")
    # The pane without events is a gap in the line, and a dash in the table.
    assert shown.column("#time-table", "value").count("–") == 2
    # Undefined slices are last, whichever way they are sorted.
    heading = page.locator('#slices-table th[data-key="accuracy"]')
    for order in ("ascending", "descending"):
        expect(heading).to_have_attribute("aria-sort", order)
        assert shown.column("#slices-table", "accuracy")[-2:] == ["–", "–"]
        heading.get_by_role("button").click()


def test_before_the_first_event_it_says_how_to_send_some(show: Show) -> None:
    shown = show(None).open()
    page = shown.page
    waiting = page.get_by_role("region", name="Waiting for the first labelled events")
    expect(waiting).to_contain_text(f"curl {shown.server.url}v1/predictions")
    expect(page.locator("#state")).to_have_text("Waiting")
    expect(page.locator("#page")).to_be_hidden()
    data = sample()
    data["checkpoint"]["events"] = 0
    data["series"]["1h"] = {
        "start": [], "end": [], "immature": [], "support": [],
        "metrics": {name: [] for name in data["series"]["1h"]["metrics"]}, "low": {}, "high": {},
    }  # fmt: skip
    shown.publish(data)
    # No zeros, dashes or curves of nothing.
    for numbers in ("metrics", "time", "curves", "slices", "confusion"):
        expect(page.locator(f"#{numbers}")).to_be_hidden()
        expect(page.locator(f'#sections a[href="#{numbers}"]')).to_be_hidden()
    for there in ("source", "quarantine", "alerts"):
        expect(page.locator(f"#{there}")).to_be_visible()
    expect(page.locator("#state")).to_have_text("Waiting")
    waits = ["predictions by POST at /v1/predictions", "labels from the Kafka topic b"]
    expect(waiting.get_by_role("listitem")).to_have_text(waits)
    assert "nan" not in page.inner_text("main").lower()
    expect(waiting).to_contain_text("but no two of the same id")
    shown.publish(sample(sequence=2))
    expect(waiting).to_be_hidden()
    expect(page.locator("#metrics")).to_be_visible()


def keep_panes(series: dict[str, Any], kept: Sequence[int]) -> None:
    for name in ("start", "end", "immature", "support"):
        series[name] = [series[name][n] for n in kept]
    for name in ("metrics", "low", "high"):
        series[name] = {key: [column[n] for n in kept] for key, column in series[name].items()}


def iso_day(first: datetime, days: int) -> str:
    return (first + timedelta(days=days)).isoformat().replace("+00:00", "Z")


def traces_of(page: Page, chart: str, fields: str = "name, x, y, fill") -> list[dict[str, Any]]:
    """Fields of what a chart draws."""
    picked = f"({{ {fields} }}) => ({{ {fields} }})"
    found: list[dict[str, Any]] = page.evaluate(
        f"document.getElementById('{chart}').data.map({picked})"
    )
    return found


def test_each_pane_is_drawn_over_its_own_span(show: Show) -> None:
    data = sample(undefined=True)
    series = data["series"]["1h"]
    # Days of January, from the first; one day is missing.
    days = [day for day in range(48) if day != 20]
    first = datetime(2026, 1, 1, tzinfo=UTC)
    keep_panes(series, range(len(days)))
    series["start"] = [iso_day(first, day) for day in days]
    series["end"] = [iso_day(first, day + 1) for day in days]
    shown = show(data, charts=True).open().drawn()
    traces = traces_of(shown.page, "time-chart", "type, mode, name, x, y, offset, width")
    values = series["metrics"][shown.page.locator("#metric").input_value()]
    spans = {
        (start[:10], end[:10], value)
        for start, end, value in zip(series["start"], series["end"], values, strict=True)
        if value is not None
    }
    drawn = set()
    for trace in traces:
        if trace["mode"] != "lines" or trace.get("name") in ("interval", "bound"):
            continue
        x, y = trace["x"], trace["y"]
        for n in range(len(x) - 1):
            if y[n] is not None and y[n] == y[n + 1]:
                drawn.add((x[n][:10], x[n + 1][:10], y[n]))
            elif None not in (y[n], y[n + 1]):
                # From one pane to the next at the moment where they touch, and nowhere else.
                assert x[n] == x[n + 1]
    assert drawn == spans
    assert ("2026-01-01", "2026-01-02", values[0]) in drawn
    bars = next(trace for trace in traces if trace["type"] == "bar")
    assert bars["offset"] == 0
    assert {day[:10] for day in bars["x"]} == {start[:10] for start in series["start"]}
    assert set(bars["width"]) == {0.9 * 86_400_000}
    middles = {x[:13] for trace in traces if trace["mode"] == "markers" for x in trace["x"]}
    assert middles == {f"{start[:10]}T12" for start in series["start"]}


SHOWN = """() => {
    const words = (id) => document.getElementById(id).getAttribute("aria-label") ?? "";
    return [
        document.querySelector('#tiles [data-metric="roc_auc"] .value')?.textContent,
        words("roc-chart").split("area ")[1],
        words("confusion-chart").match(/: ([\\d,]+) of/)?.[1],
        words("time-chart").match(/last (\\S+?)(;|$)/)?.[1],
        document.documentElement.dataset.sequence,
    ];
}"""


def test_tiles_curves_confusion_and_time_are_of_one_snapshot(show: Show) -> None:
    """While snapshots follow each other faster than the page requests them."""

    def numbered(number: int) -> dict[str, Any]:
        data = sample(slices=1)
        for report in data["reports"].values():
            report["metrics"]["roc_auc"]["value"] = number / 10_000
        data["confusion"]["all"]["matrix"] = [[number, 7], [7, 0]]
        data["series"]["1h"]["metrics"]["roc_auc"][-1] = number / 10_000
        return data

    shown = show(numbered(1)).open("?metric=roc_auc").seen()
    seen = set()
    for number in range(2, 120):
        publish(shown.publisher, numbered(number))
        tile, area, right, last, sequence = shown.page.evaluate(SHOWN)
        assert tile == area == last == f"{int(right) / 10_000:.4f}"
        seen.add(sequence)
        shown.page.wait_for_timeout(50)
    assert len(seen) > 3


@pytest.mark.parametrize(("theme", "classes"), [("light", 11), ("dark", 2)])
def test_numbers_on_the_matrix_can_be_read(show: Show, theme: str, classes: int) -> None:
    data = sample(classes=classes)
    # Shares from all over the ramp, and with many classes one without events.
    matrix = [[0] * classes for _ in range(classes)]
    for row in range(2 if classes == 2 else classes - 1):
        matrix[row][0] = 450 + 130 * row if classes == 2 else 100 * row
        matrix[row][1] = 1000 - matrix[row][0]
    data["confusion"]["all"]["matrix"] = matrix
    size = {"viewport": {"width": 1280, "height": 1400}}
    shown = show(data, charts=True, color_scheme=theme, **size)
    shown.open().drawn(6 if classes == 2 else 4)
    chart = shown.page.locator("#confusion-chart")
    chart.scroll_into_view_if_needed()
    labels = chart.locator(".annotation text")
    expect(labels).to_have_count(classes * classes)
    cells = labels.evaluate_all(
        "all => all.map((one) => { const box = one.getBoundingClientRect();"
        " return [getComputedStyle(one).fill, box.x + box.width / 2, box.y + box.height / 2]; })"
    )
    # The numbers away: then the cell's own colour is where they stood.
    shown.page.evaluate(
        "document.querySelectorAll('#confusion-chart .annotation').forEach((one) => one.remove())"
    )
    picture = PIL.Image.open(io.BytesIO(shown.page.screenshot())).convert("RGB")
    for fill, x, y in cells:
        text = [int(number) for number in re.findall(r"\d+", fill)[:3]]
        assert contrast(text, picture.getpixel((int(x), int(y)))) >= 4.5


def contrast(*colours: Any) -> float:
    """WCAG 2's contrast ratio of two colours."""
    linear = [
        [n / 3294.6 if n <= 10 else ((n / 255 + 0.055) / 1.055) ** 2.4 for n in colour]
        for colour in colours
    ]
    dark, light = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in linear)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(("classes", "width"), [(3, 1280), (12, 360)])
def test_long_names_are_all_on_the_axes_and_differ(show: Show, classes: int, width: int) -> None:
    data = sample(classes=classes)
    names = [f"a class of the catalogue with a long name, number {n}" for n in range(classes)]
    data["confusion"]["all"]["labels"] = names
    shown = show(data, charts=True, viewport={"width": width, "height": 800}).open().drawn(4)
    for axis in ("x", "y"):
        ticks = shown.page.locator(f"#confusion-chart .{axis}tick text")
        expect(ticks).to_have_count(classes)
        texts = ticks.all_text_contents()
        assert len(set(texts)) == classes
        assert all(text.startswith("a c") for text in texts)
        # Plotly hides those for which it finds no room.
        opacities = ticks.evaluate_all("all => all.map((one) => getComputedStyle(one).opacity)")
        displays = ticks.evaluate_all("all => all.map((one) => getComputedStyle(one).display)")
        assert (set(opacities), set(displays) - {"inline", "block"}) == ({"1"}, set())


def test_a_single_pane_is_drawn_as_wide_as_it_is(show: Show) -> None:
    data = sample()
    series = data["series"]["1h"]
    keep_panes(series, [-1])
    shown = show(data, charts=True).open().drawn()
    layout = shown.page.evaluate(
        "() => { const { xaxis, yaxis } = document.querySelector('#over-time .js-plotly-plot,"
        " #time-chart.js-plotly-plot').layout; return [xaxis.range, yaxis.range]; }"
    )
    ((first, last), values) = layout
    length = datetime.fromisoformat(series["end"][0]) - datetime.fromisoformat(series["start"][0])
    assert datetime.fromisoformat(last) - datetime.fromisoformat(first) == 2 * length
    middle = datetime.fromisoformat(series["start"][0]).replace(tzinfo=None) + length / 2
    assert datetime.fromisoformat(first) == middle - length
    assert values == [0, 1]


def test_a_run_without_join_panes_and_alerts(show: Show) -> None:
    data = sample(join=False, predictions=True)
    data.update(series={}, alerts=[], windows=data["windows"][:1])
    data["quarantine"] = {"total": 0, "kept": 0, "reasons": {}, "recent": []}
    shown = show(data).open().seen()
    expect(shown.page.locator("#predictions")).to_be_hidden()
    expect(shown.page.locator("#labels-note")).to_contain_text("nothing is joined")
    expect(shown.page.locator("#time-note")).to_contain_text("No window of this run has panes")
    expect(shown.page.locator("#alerts")).to_contain_text("The settings have no alerts.")
    expect(shown.page.locator("#quarantine")).to_contain_text("Nothing is in quarantine.")


def test_labels_and_source_are_shown_in_numbers_and_words(show: Show) -> None:
    data = sample()
    problem = "the broker does not answer: Connection refused"
    data["partitions"][1].update(problem=problem, lag=None)
    shown = show(data).open().seen()
    page = shown.page
    page.locator("#cohorts-table summary").click()
    assert shown.column("#cohorts-table", "immature") == ["immature"] * 3 + ["complete"] * 9
    page.locator("#quarantine-reasons button", has_text="score").click()
    for where, *texts in (
        ("#labels-main", "Label coverage91.7 %", "11 h 57 min delays within ± 2 %"),
        ("#labels-counts", "Predictions12,001", "Orphans31", "Corrected5", "Too late3"),
        ("#banners", f"kafka:b/3: {problem}"),
        ("#banners", "accuracy is 0.7100 [0.6900, 0.7200], below 0.8 (window 1h"),
        ("#source-about", "2 partitions, 1 with a problem"),
        ("#vitals", "Lag≥ 120 B"),
        ("#state", "Behind"),
        ("#announce", "Behind. 1 alert firing."),
        ("#quarantine-table", "None of the kept records"),
    ):
        for one in texts:
            expect(page.locator(where)).to_contain_text(one)


def test_a_run_that_stops_and_comes_back(show: Show) -> None:
    shown = show(None).open()
    shown.publish(sample())
    shown.allowed = "Failed to "
    shown.server.stop()
    state = shown.page.locator("#state")
    expect(state).to_have_text("Reconnecting")
    expect(shown.page.locator("#banners")).to_contain_text("The connection is lost; trying again.")
    words = shown.page.evaluate(
        """async () => {
            const { currency } = await import("/static/header.js");
            const snapshot = { checkpoint: { at: "1970-01-01T00:00:00Z" } };
            return currency({ kind: "stopped", since: 0 }, null, snapshot, 125000);
        }"""
    )
    assert words["words"] == (
        "The run has stopped or cannot be reached; no answer since 1970-01-01 00:00:00 UTC. "
        "The numbers are 2 min 5 s old."
    )
    publish(shown.publisher, sample(sequence=2))
    again = serve(shown.publisher, listen=str(shown.server.address))
    try:
        shown.seen()
        expect(state).to_have_text("Live")
    finally:
        again.stop()


def test_with_a_token_a_lost_session_leads_to_the_login(show: Show) -> None:
    shown = show(sample(), token=TOKEN).open()
    shown.allowed = "401"
    page = shown.page
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button").click()
    shown.seen()
    page.get_by_label("Find").focus()
    page.context.clear_cookies()
    # Keys, not fill(): the page may have noticed by a request of its own, and hidden the field.
    page.keyboard.type("C1")
    form = page.get_by_role("region", name="Log in")
    expect(form).to_be_visible()
    for numbers in ("#page", "#banners", "#vitals"):
        expect(page.locator(numbers)).to_be_hidden()
    form.get_by_label("Token").fill(TOKEN)
    form.get_by_role("button").click()
    shown.seen()
    expect(form).to_be_hidden()


def test_more_pages_than_may_listen_are_polled_and_old_numbers_called_stale(show: Show) -> None:
    shown = show(sample(at=datetime.now(UTC) - timedelta(minutes=7)))
    shown.allowed = "503"
    shown.page.route("**/api/events", lambda route: route.fulfill(status=503))
    shown.open().seen()
    expect(shown.page.locator("#state")).to_have_text("Stale")
    expect(shown.page.locator("#banners")).to_contain_text("the last checkpoint is 7 min")
    shown.publish(sample(sequence=2))
    expect(shown.tile("accuracy").locator(".value")).to_have_text(re.compile(r"^0\.\d{4}$"))
    expect(shown.page.locator("#state")).to_have_text("Live")


def test_numbers_times_and_strange_texts(show: Show) -> None:
    page = show(None).open().page
    for function, given, wanted in (
        ("value", [0.5, 0, -1, 123.456, 1e-5, None], "0.5000|0.0000|-1.0000|123.5|1.0e-5|–"),
        ("percent", [1, 0.99999, 1e-5, 0, None], "100.0 %|>99.9 %|<0.1 %|0.0 %|–"),
        ("duration", [0, 0.0123, 1.26, 59.7, 60, 3599.9, 86399, 90061, -5, None],
         "0 s|12 ms|1.3 s|1 min|1 min|1 h|1 d|1 d 1 h|−5.0 s|–"),
        ("visible", ["a\nb", "\u202ex", "é😀", "\0", ["x" * 50, 10]],
         r"a\nb|\u202ex|é😀|\u0000|xxxxxxxxx…"),
        ("label", ["cat", "5", 5, "", " a", True], 'cat|"5"|5|""|" a"|true'),
        ("plain", ["<b>&lt;</b>"], "&lt;b&gt;&amp;lt;&lt;/b&gt;"),
        ("lag", [["records", 1], ["bytes", 4321], ["bytes", None], [None, 0]],
         "1 record|4.3 kB|–|0"),
        ("time", ["2026-03-01T12:05:00Z", None, "nonsense"], "2026-03-01 12:05:00|–|–"),
    ):  # fmt: skip
        said = page.evaluate(
            """async ([name, given]) => {
                const text = await import("/static/text.js");
                return given.map((one) => text[name](...[one].flat()));
            }""",
            [function, given],
        )
        assert said == wanted.split("|"), function


def words(low: float, high: float) -> str:
    """An interval as the page writes it."""
    return f"[{low:.4f}, {high:.4f}]"


def test_a_tile_has_its_interval_in_words_and_as_a_whisker(show: Show) -> None:
    data = sample(undefined=True)
    metrics = data["reports"]["all"]["metrics"]
    metrics["accuracy"].update(value=0.5, low=0.25, high=0.625)
    metrics["log_loss"].update(value=0.75, low=0.5)
    del metrics["log_loss"]["high"]
    for lacking in ("f1", "recall"):
        for name in ("low", "high", "method"):
            del metrics[lacking][name]
    metrics["recall"]["no_interval"] = "a reason"
    shown = show(data).open().seen()
    interval = shown.tile("accuracy").locator(".interval")
    expect(interval).to_have_text("95 % interval [0.2500, 0.6250]")
    expect(interval).to_have_attribute("title", "95 % interval (wilson)")
    # The scale is the metric's range, 0 to 1, with two percent free at both ends.
    assert whisker(interval) == {
        "range": [26, 62], "caps": [26, 62], "point": 50, "reference": None,
    }  # fmt: skip
    endless = shown.tile("log_loss").locator(".interval")
    expect(endless).to_have_text("95 % interval [0.5000, ∞]")
    assert whisker(endless) == {"range": [50, 98], "caps": [50], "point": 74, "reference": None}
    resampled = shown.tile("average_precision").locator(".interval")
    expect(resampled).to_have_attribute("title", re.compile("bootstrap; of the events until 2026"))
    expect(shown.tile("matthews_corrcoef").locator(".interval")).to_be_hidden()
    expect(shown.tile("f1").locator(".interval")).to_contain_text("No interval: resampled")
    expect(shown.tile("recall").locator(".interval")).to_have_text("No interval: a reason.")
    help_text = shown.page.locator("#intervals-help")
    help_text.locator("summary").press("Enter")
    expect(help_text).to_contain_text("About 95 % of such intervals contain that value.")
    expect(help_text).not_to_contain_text("certainly", use_inner_text=True)


WHISKER = """(node) => {
    const at = (one, name) => Math.round(100 * Number.parseFloat(one.getAttribute(name))) / 100;
    const all = [...node.querySelectorAll(".range")].map((one) => [at(one, "x1"), at(one, "x2")]);
    const reference = node.querySelector(".reference");
    return {
        range: all[0],
        caps: all.slice(1).map(([x]) => x),
        point: at(node.querySelector(".point"), "cx"),
        reference: reference && at(reference, "x1"),
    };
}"""


def whisker(where: Locator) -> Any:
    """The places of a whisker's parts, in percent of its width."""
    return where.evaluate(WHISKER)


def test_certain_bounds_are_told_apart_from_the_interval(show: Show) -> None:
    data = sample()
    metrics = data["reports"]["all"]["metrics"]
    metrics["roc_auc"].update(value=0.75, bounds=[0.74218, 0.75782])
    metrics["average_precision"].update(value=0.5, bounds=[0.4999961, 0.5000039])
    shown = show(data).open().seen()
    # Rounded away from each other.
    expect(shown.tile("roc_auc").locator(".bounds")).to_have_text("certainly 0.7421 to 0.7579")
    narrow = shown.tile("average_precision").locator(".bounds")
    expect(narrow).to_have_text("certainly 0.4999961 to 0.5000039")
    expect(narrow).to_have_attribute("title", re.compile("0.4999961 to 0.5000039"))
    expect(shown.tile("accuracy").locator(".bounds")).to_be_hidden()
    help_text = shown.page.locator("#intervals-help")
    help_text.locator("summary").click()
    expect(help_text).to_contain_text("between them, always", use_inner_text=True)


def test_a_run_without_intervals_shows_none(show: Show) -> None:
    data = sample()
    data["level"] = None
    for report in data["reports"].values():
        del report["level"]
        for value in report["metrics"].values():
            for name in ("low", "high", "method", "interval_as_of"):
                value.pop(name, None)
    data["series"]["1h"].update(low={}, high={})
    for rows in data["slices"].values():
        for row in rows:
            row.update(low={}, high={}, differs={})
    data["alerts"] = []
    shown = show(data, charts=True).open().drawn()
    expect(shown.page.locator("#metrics-note")).to_contain_text(
        "No intervals: set intervals = 0.95 at the top of the configuration."
    )
    for absent in ("#intervals-help", "#slices-legend", "#time-legend"):
        expect(shown.page.locator(absent)).to_be_hidden()
    expect(shown.page.locator(".whisker")).to_have_count(0)
    expect(shown.page.locator("#slices-table th.number")).not_to_have_count(0)
    assert shown.page.inner_text("main").count("interval") == 2  # both in that note


def test_intervals_are_a_band_over_time_and_bounds_are_lines(show: Show) -> None:
    data = sample(undefined=True)
    series = data["series"]["1h"]
    low, high = series["low"]["accuracy"], series["high"]["accuracy"]
    low[30] = high[30] = None
    # A pane is missing: those around it do not touch.
    keep_panes(series, [n for n in range(48) if n != 40])
    low, high = series["low"]["accuracy"], series["high"]["accuracy"]
    for alert, below in zip(data["alerts"], (0.8, 0.8, 0.8, 0.15), strict=True):
        alert.update(below=below, bound=f"below {below}", against="", slice="")
    data["alerts"][1]["slice"] = "country=PT"
    data["alerts"][2].update(against="the window before")
    shown = show(data, charts=True).open("?metric=accuracy").drawn()
    traces = traces_of(shown.page, "time-chart")
    (band,) = (trace for trace in traces if trace.get("name") == "interval")
    assert band["fill"] == "toself"
    # One closed outline for panes that touch: the upper ends there, the lower ends back.
    outlines = "".join("|" if y is None else "." for y in band["y"]).split("|")
    gap = {16, 17, 30}
    runs = [range(16), range(18, 30), range(31, 40), range(40, 47)]
    assert [n for run in runs for n in run] == [n for n in range(47) if n not in gap]
    assert [len(one) for one in outlines] == [4 * len(run) for run in runs]
    there = [high[n] for n in runs[0] for _ in "ab"]
    back = [low[n] for n in reversed(runs[0]) for _ in "ab"]
    assert band["y"][: 4 * len(runs[0])] == there + back
    bounds = [trace["y"][0] for trace in traces if trace.get("name") == "bound"]
    assert bounds == [0.8, 0.15]
    axis = shown.page.evaluate("document.querySelector('#time-chart').layout.yaxis.range")
    assert axis[0] < 0.15
    legend = shown.page.locator("#time-legend")
    expect(legend).to_contain_text("Band: the 95 % interval of each pane.")
    expect(legend).to_contain_text("Dashed line: below 0.8 fires accuracy falls (firing).")
    words_of_it = shown.page.locator("#time-chart").get_attribute("aria-label") or ""
    assert "below 0.8 fires accuracy falls (firing); below 0.15 fires no labels yet" in words_of_it
    shown.page.locator("#time-table summary").click()
    assert shown.column("#time-table", "low")[0] == words(low[46], high[46])
    assert shown.column("#time-table", "low")[46 - 30] == "–"


def test_slices_are_sorted_by_the_end_that_makes_them_certain(show: Show) -> None:
    data = sample(slices=6)
    ends = {
        # Value, interval, and the side of all others: few events make the interval wide.
        "C0": (0.5, 0.1, 0.9, {}),
        "C1": (0.6, 0.58, 0.62, {"accuracy": "below", "log_loss": "above"}),
        "C2": (0.7, 0.65, 0.75, {"accuracy": "below"}),
        "C3": (0.55, None, None, {}),
        "C4": (0.95, 0.94, 0.96, {"accuracy": "above"}),
        "C5": (None, None, None, {}),
    }
    for row, name in zip(data["slices"]["all"], ends, strict=True):
        value, low, high, differs = ends[name]
        row.update(name=name, slice={"country": name}, support=100, differs=differs)
        row["metrics"]["accuracy"] = value
        row["reasons"] = {} if value else {"accuracy": "no events"}
        for key, end in (("low", low), ("high", high)):
            row[key] = {} if end is None else {"accuracy": end, "log_loss": end}
    data["reports"]["all"]["metrics"]["accuracy"]["value"] = 0.8
    shown = show(data).open().seen()
    page = shown.page
    # C0 has the lowest value, and may be good; without an interval nothing is certain.
    shown.expect_column("#slices-table", "name", ["C1", "C2", "C0", "C4", "C3", "C5"])
    about = "worst first by the upper end of the interval of accuracy"
    expect(page.locator("#slices-about")).to_contain_text(about)
    heading = page.locator('#slices-table th[data-key="interval accuracy"] button')
    expect(heading).to_have_attribute("title", re.compile("slices that are certainly bad precede"))
    expect(page.locator("#slices-legend")).to_contain_text(
        "95 % interval of accuracy, from 0.1000 to 0.9600. Dashed line: all events, 0.8000."
    )
    cells = page.locator("#slices-table tbody .whiskers")
    below, above = f"▾ below{words(0.58, 0.62)}", f"▴ above{words(0.94, 0.96)}"
    for n, said in ((0, below), (3, above), (4, "no interval"), (5, "– undefined: no events")):
        expect(cells.nth(n)).to_have_text(said)
    # All on one scale, from 0.1 to 0.96, as wide as each other.
    for n, places in enumerate([(0.58, 0.62, 0.8), (0.65, 0.75, 0.8), (0.1, 0.9, 0.8)]):
        found = whisker(cells.nth(n))
        wanted = [2 + 96 * (end - 0.1) / 0.86 for end in places]
        assert [*found["range"], found["reference"]] == pytest.approx(wanted, abs=0.01)
    svgs = "all => all.map((one) => one.getBoundingClientRect().width)"
    assert len(set(page.locator("#slices-table .whisker").evaluate_all(svgs))) == 1
    # More loss is worse: the mark says so by its words and class, not by its colour alone.
    mark = page.locator("#slices-table tbody tr").first.locator("td.number .side")
    expect(mark).to_have_text([" ▾ below", " ▴ above"], use_inner_text=False)
    expect(mark).to_have_class([re.compile("worse")] * 2)
    heading.press("Enter")
    shown.expect_column("#slices-table", "name", ["C4", "C2", "C1", "C0", "C3", "C5"])
    page.locator("#slices-table .opener").first.press("Enter")
    details = page.locator("#slices-table tr.details .intervals")
    expect(details).to_contain_text(f"0.9500 {words(0.94, 0.96)} ▴ above")


MINUTE = 60_000_000


TAGS = ["ad", "spam", "toxic"]
OTHER_TASKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "regression": (
        {"task": "regression", "metrics": ["mean_absolute_error", "r2", "median_absolute_error"]},
        {"y_pred": "prediction"},
    ),
    "multilabel": ({"task": "multilabel", "labels": TAGS}, {"score": "scores"}),
}


class CountedRun:
    """Evaluators that have counted events, and the publisher of their snapshots."""

    def __init__(self, models: Any = None, task: str = "", **tables: Any) -> None:
        more, fields = OTHER_TASKS.get(task, ({}, {"score": "score"}))
        if models:
            more, fields = {"models": [*models]}, {"score": {name: name for name in models}}
        self.settings = settings(
            evaluator={"slices": ["country"], **more},
            window=[{"name": "all"}, {"name": "hour", "length": "1h", "pane": "10m"}],
            fields={**fields, "time": "time", "id": "id"},
            **tables,
        )
        self.evaluators: dict[str, Any] = open_evaluators(self.settings)
        rng = random.Random(5)
        for n in range(900):
            # The model knows nothing of the last country.
            country = ("ES", "PT", "GR")[n % 3]
            truth = rng.random() < 0.4
            apart = 0.0 if country == "GR" else 0.25
            score = min(max(rng.gauss(0.5 + (apart if truth else -apart), 0.2), 0.0), 1.0)
            # The second model tells some of what the first one does not.
            scores = {
                name: score if n == 0 else (score + truth) / 2
                for n, name in enumerate(models or ())
            }
            about = {"event_time": n // 9 * MINUTE, "slices": {"country": country}}
            event: dict[str, Any] = {"y_true": truth, "score": scores or score}
            if task == "regression":
                event = {"y_true": 5 * truth, "y_pred": 5 * score}
            elif task == "multilabel":
                event["y_true"] = [tag for tag in TAGS if truth or rng.random() < 0.2]
                event["score"] = {tag: score if tag == "ad" else rng.random() for tag in TAGS}
            for window in self.settings.window:
                self.evaluators[window.name].update(**event, **about)
            for name, (_, model) in predicted_windows(self.settings).items():
                self.evaluators[name].update(score=scores.get(model, score), **about)
        self.builder = SnapshotBuilder(self.settings, self.evaluators, ValidFrom(), lambda: 0.0)
        self.publisher = SamplePublisher()
        self.publisher.open_slice = self.builder.open_slice
        self.publish(1)

    def publish(self, sequence: int) -> None:
        now = datetime.now(UTC)
        at = now.isoformat().replace("+00:00", "Z")
        self.builder.changed()
        self.publisher.publish(
            snapshot_of(
                self.builder,
                sequence=sequence,
                now=int(now.timestamp() * 1e6),
                labelled_until=(70 if self.settings.join else 100) * MINUTE,
                join=sample()["join"] if self.settings.join else None,
                checkpoint=Checkpoint(sequence, at, 900, 0.01),
                force=True,
            )
        )

    def slice(self, window: str, country: str) -> Any:
        return self.evaluators[window].slices()[(("country", country),)]


@pytest.fixture
def counted(browser: Browser, request: pytest.FixtureRequest) -> Iterator[tuple[CountedRun, Shown]]:
    """A run's own numbers, and a page for them; the fixture's parameter are options of the run."""
    run = CountedRun(**getattr(request, "param", {}))
    server = serve(run.publisher)
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    shown = Shown(context.new_page(), server, run.publisher)
    yield run, shown
    context.close()
    server.stop()
    shown.check()


def expect_numbers(shown: Shown, view: View) -> None:
    """Tiles, curves, confusion and time are those of the view."""
    accuracy = view.report(["accuracy"], intervals=0.95).rows[0]
    tile = shown.tile("accuracy")
    expect(tile.locator(".value")).to_have_text(f"{accuracy.value:.4f}")
    ends = words(accuracy.interval.low, accuracy.interval.high)
    expect(tile.locator(".interval")).to_contain_text(ends)
    expect(tile.locator(".support")).to_contain_text(f"{accuracy.support} events")
    right = round(accuracy.value * accuracy.support)
    matrix = f"{right} of {accuracy.support} events predicted right"
    expect(shown.page.locator("#confusion-chart")).to_have_attribute(
        "aria-label", re.compile(matrix)
    )
    area = view.report(["roc_auc"]).rows[0].value
    expect(shown.page.locator("#roc-chart")).to_have_attribute(
        "aria-label", f"ROC curve, area {area:.4f}"
    )


def test_a_slice_is_opened_sent_as_a_link_and_left_again(
    counted: tuple[CountedRun, Shown],
) -> None:
    run, shown = counted
    page = shown.page
    shown.open().drawn(charts=5)
    expect_numbers(shown, run.evaluators["all"].total)
    expect(page.locator("#slice")).to_be_hidden()
    page.get_by_label("Window").select_option("hour")
    expect_numbers(shown, run.evaluators["hour"].total)
    # The bad one is the first, and says so.
    first = page.locator("#slices-table tbody tr").first
    expect(first.locator(".whiskers")).to_contain_text("▾ below")
    name = first.get_by_role("link", name="country=GR")
    name.focus()
    expect(name).to_be_in_viewport(ratio=1)
    page.keyboard.press("Enter")
    opened, title = run.slice("hour", "GR"), page.locator("#slice-title")
    expect(title).to_have_text("Slice country=GR")
    expect(title).to_be_focused()
    expect(page.locator("#slice")).to_be_in_viewport()
    expect_numbers(shown, opened)
    expect(page.locator("#page")).not_to_have_attribute("aria-busy", "true")
    page.locator("#classes summary").click()
    for panel in ("metrics", "time", "curves", "confusion"):
        expect(page.locator(f"#{panel}-about")).to_contain_text("slice country=GR · hour")
    expect(page.locator("#classes-about")).to_contain_text("slice country=GR")
    rows = opened.series("accuracy", intervals=0.95)[::-1]
    shown.expect_column("#time-table", "value", [f"{row.value:.4f}" for row in rows])
    ends = [words(one.low, one.high) for row in rows if (one := row.interval)]
    shown.expect_column("#time-table", "low", ends)
    support = opened.report(["accuracy"]).rows[0].support
    assert sum(map(int, shown.column("#classes-table", "true"))) == support
    # Beside the interval of the slice, the value of all events.
    whole = 2 + 96 * run.evaluators["hour"]["accuracy"]
    found = whisker(shown.tile("accuracy").locator(".interval"))
    assert found["reference"] == pytest.approx(whole, abs=0.01)
    link = page.locator("#slices-table").get_by_role("link", name="country=GR")
    expect(link).to_have_attribute("aria-current", "true")

    address = page.url
    assert "slice=country%3DGR" in address
    # The next snapshot redraws the slice, not the whole.
    for evaluator in run.evaluators.values():
        evaluator.update(True, score=0.9, event_time=99 * MINUTE, slices={"country": "GR"})
    run.publish(2)
    shown.seen()
    expect_numbers(shown, run.slice("hour", "GR"))

    page.get_by_role("button", name="Back to all events").press("Enter")
    expect(page.locator("#slice")).to_be_hidden()
    expect(link).to_be_focused()
    expect_numbers(shown, run.evaluators["hour"].total)
    assert "slice=" not in page.url
    page.go_back()
    expect_numbers(shown, run.slice("hour", "GR"))
    page.go_back()
    expect_numbers(shown, run.evaluators["hour"].total)
    page.goto(address)
    shown.drawn(charts=5)
    expect(title).to_have_text("Slice country=GR")
    expect_numbers(shown, run.slice("hour", "GR"))


def test_numbers_are_never_those_of_another_slice(counted: tuple[CountedRun, Shown]) -> None:
    run, shown = counted
    page = shown.page
    shown.open("?window=hour").drawn(charts=5)
    held: list[Route] = []
    of_slice = re.compile("api/view.*slice=")
    page.route(of_slice, lambda route: held.append(route))
    page.get_by_role("link", name="country=GR").click()
    # Until the slice's numbers are there, those of before are marked as being replaced.
    expect(page.locator("#page")).to_have_attribute("aria-busy", "true")
    shown.tile("f1").get_by_role("button").click()
    expect(page.locator("#metric")).to_have_value("f1")
    expect(page.locator("#metrics-about")).not_to_contain_text("slice")
    held[-1].continue_()
    page.unroute(of_slice)
    expect_numbers(shown, run.slice("hour", "GR"))
    expect(page.locator("#metrics-about")).to_contain_text("slice country=GR")


def test_a_slice_that_a_window_does_not_have(counted: tuple[CountedRun, Shown]) -> None:
    run, shown = counted
    for _ in range(40):
        run.evaluators["all"].update(
            True, score=0.9, event_time=99 * MINUTE, slices={"country": "NO"}
        )
    run.publish(2)
    page = shown.page
    shown.open("?window=all&slice=country%3DNO").seen()
    expect(shown.tile("accuracy")).to_contain_text("40 events")
    expect(page.locator("#time-note")).to_have_text(
        "The window of panes has no events of this slice."
    )
    page.get_by_label("Window").select_option("hour")
    expect(page.locator("#slice-note")).to_have_text(
        "It cannot be shown: slice: expected a slice of the window hour, got 'country=NO'."
    )
    for panel in ("metrics", "time", "curves", "confusion"):
        expect(page.locator(f"#{panel}")).to_be_hidden()
    expect(page.locator("#slices")).to_be_visible()
    page.get_by_role("button", name="Back to all events").click()
    expect_numbers(shown, run.evaluators["hour"].total)
    shown.allowed = "404"


def test_an_alert_says_what_it_is_judged_by(show: Show) -> None:
    data = sample()
    certain, before, any_slice, _ = data["alerts"]
    ends = {"level": 0.95, "low": 0.69, "high": 0.72, "method": "wilson"}
    names = [f"country=C{n}" for n in range(7)]
    certain.update(when="certain", against="", **ends)
    before.update(when="value", against="the window before", low=None, high=None, method="")
    any_slice.update(when="anytime", slice="any", slices=names, **ends)
    page = show(data).open().seen().page
    rows = page.locator("#alerts-table tbody tr")

    def cells(alert: Any) -> list[str]:
        return rows.filter(has_text=alert["name"]).locator("td").all_inner_texts()

    assert words(0.69, 0.72) in cells(certain)
    assert cells(certain)[5:7] == ["certain", "the number"]
    assert cells(before)[5:7] == ["value", "the window before"]
    assert cells(before)[3].startswith("–")
    assert cells(any_slice)[5] == "anytime"
    assert cells(any_slice)[8] == f"any: {' · '.join(names[:5])} · and 2 more"
    # Why an alert is undefined can be read without scrolling.
    why = page.get_by_text("no events", exact=True)
    why.scroll_into_view_if_needed()
    expect(why).to_be_in_viewport(ratio=1)
    cell = rows.filter(has_text=certain["name"]).locator("td", has_text="certain")
    expect(cell).to_have_attribute("title", re.compile("only when the whole interval"))


@pytest.mark.parametrize("of", ["C7", "LLLL", "<script>"])
def test_an_opened_slice_on_a_phone(show: Show, of: str) -> None:
    data = sample(slices=1000, hostile=True)
    for row in data["slices"]["all"]:
        row["support"] = 100
    shown = show(data, charts=True, **PHONE).open().drawn()
    shown.page.get_by_label("Find").fill(of)
    found = shown.page.locator("#slices-table .linked a", has_text=of).first
    found.tap()
    expect(shown.page.locator("#slice-title")).to_contain_text(of)
    expect(shown.page.locator("#slice-title")).to_be_in_viewport()
    expect(shown.page.locator("#slice-close")).to_be_in_viewport()
    assert shown.page.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [360, 360]
    # A name of 5,000 letters is longer than a request may have it, which the page says.
    refused = "expected at most 4096 characters" if of == "LLLL" else ""
    expect(shown.page.locator("#slice-note")).to_contain_text(refused)
    shown.allowed = "400"


@pytest.mark.parametrize("counted", [{"models": MODELS}], indirect=True)
def test_every_panel_obeys_the_model_that_is_selected(counted: tuple[CountedRun, Shown]) -> None:
    run, shown = counted
    page = shown.page
    select = page.locator("#model")
    shown.open("?window=hour").drawn(charts=5)
    for name in MODELS:
        select.select_option(name)
        expect_numbers(shown, run.evaluators["hour"][name])
        for panel in ("metrics", "time", "curves", "confusion", "slices"):
            expect(page.locator(f"#{panel}-about")).to_contain_text(f"{name} · hour")
        series = run.evaluators["hour"][name].series("accuracy")
        shown.expect_column("#time-table", "value", [f"{row.value:.4f}" for row in series][::-1])
        slices = shown.ask("api/slices", window="hour", sort="accuracy", order="worst", model=name)
        wanted = [f"{row['metrics']['accuracy']:.4f}" for row in slices["slices"]]
        shown.expect_column("#slices-table", "accuracy", wanted)
    assert "model=challenger" in page.url
    page.locator("#slices-table").get_by_role("link", name="country=GR").click()
    expect_numbers(shown, run.slice("hour", "GR")["challenger"])
    page.go_back()
    expect_numbers(shown, run.evaluators["hour"]["challenger"])
    page.reload()
    shown.drawn(charts=5)
    expect(select).to_have_value("challenger")
    expect_numbers(shown, run.evaluators["hour"]["challenger"])


@pytest.mark.parametrize("counted", [{"models": MODELS}], indirect=True)
def test_all_models_are_drawn_over_each_other(counted: tuple[CountedRun, Shown]) -> None:
    run, shown = counted
    page = shown.page
    shown.open("?window=hour").drawn(charts=5)
    page.locator("#model").select_option("All models")
    views = [run.evaluators["hour"][name] for name in MODELS]
    for metric, view in (("f1", views[1]), ("roc_auc", views[1])):
        expect(shown.tile(metric).locator(".value")).to_have_text(f"{views[0][metric]:.4f}")
        expect(shown.tile(metric).locator(".others")).to_have_text(f"challenger {view[metric]:.4f}")
    each = "; ".join(
        f"{name} area {view['roc_auc']:.4f}" for name, view in zip(MODELS, views, strict=True)
    )
    expect(page.locator("#roc-chart")).to_have_attribute(
        "aria-label", f"ROC curve of 2 models: {each}"
    )
    for chart in ("roc", "precision_recall", "calibration", "time"):
        legend = page.locator(f"#{chart}-chart .legendtext")
        expect(legend).to_have_text([re.compile("^champion"), re.compile("^challenger")])
    colours = page.evaluate(
        "document.querySelector('#time-chart').data"
        ".filter(({ showlegend }) => showlegend).map(({ line }) => line.color)"
    )
    assert len(set(colours)) == 2
    for name, view in zip(MODELS, views, strict=True):
        values = [f"{row.value:.4f}" for row in view.series("accuracy")][::-1]
        shown.expect_column("#time-table", f"model {name}", values)
    expect(page.locator("#confusion-about")).to_contain_text("champion")
    # A column for each model; pressing one sorts by its values.
    shown.tile("f1").get_by_role("button").click()
    for name in MODELS:
        heading = page.locator(f'#slices-table th[data-key="model {name}"]')
        if name != "champion":
            heading.get_by_role("button").press("Enter")
        expect(heading).to_have_attribute("aria-sort", "ascending")
        rows = shown.ask("api/slices", window="hour", sort="f1", order="worst", model=name)[
            "slices"
        ]
        for other in MODELS:
            wanted = [
                f"{run.slice('hour', row['slice']['country'])[other]['f1']:.4f}" for row in rows
            ]
            shown.expect_column("#slices-table", f"model {other}", wanted)


def test_the_reference_of_an_alert_is_a_line_with_its_name(show: Show) -> None:
    data = sample()
    for report in data["reports"].values():
        report["references"] = {"last-month.state": {"accuracy": 0.125, "f1": None}}
    shown = show(data, charts=True).open("?metric=accuracy").drawn()
    reference = (
        "document.querySelector('#time-chart').data.find(({ name }) => name === 'reference')"
    )
    assert shown.page.evaluate(f"{reference}.y") == [0.125, 0.125]
    expect(shown.page.locator("#time-chart .legendtext")).to_have_text(["reference"])
    expect(shown.page.locator("#time-legend")).to_contain_text(
        "Faint line: the reference last-month.state, 0.1250."
    )
    tip = shown.tile("accuracy").get_by_role("tooltip", include_hidden=True)
    expect(tip).to_contain_text("Reference last-month.state: 0.1250.")
    shown.tile("f1").get_by_role("button").click()
    expect(shown.page.locator("#time-chart .legendtext")).to_have_count(0)


def test_the_newest_ten_partitions_and_the_rest_on_demand(show: Show) -> None:
    data = sample()
    (one, _) = data["partitions"]
    one["position"] = {"segment": 3, "file": "x" * 70, "offset": 4_096}
    data["partitions"] = [
        {**one, "partition": f"files:{n}", "newest": f"2026-03-01T{n // 60:02}:{n % 60:02}:00Z"}
        for n in range(312)
    ]
    shown = show(data).open().seen()
    names = [f"files:{n}" for n in range(311, -1, -1)]
    shown.expect_column("#source-table", "partition", names[:10])
    heads = shown.page.locator("#source-table thead th").evaluate_all(
        "all => all.map((one) => one.dataset.key)"
    )
    assert heads[:3] == ["partition", "lag", "newest"]
    # A long position breaks within its column.
    table = shown.page.locator("#source-table .scroll")
    expect(table).to_contain_text("x" * 70)
    assert table.evaluate("(node) => node.scrollWidth - node.clientWidth") <= 0
    more = shown.page.locator("#source-table").get_by_role("button", name="Show all 312")
    more.press("Enter")
    shown.expect_column("#source-table", "partition", names)
    shown.page.get_by_role("button", name="Show the first 10").press("Enter")
    shown.expect_column("#source-table", "partition", names[:10])


AXE = Path(__file__).parents[1] / "scripts_check" / "node_modules" / "axe-core" / "axe.min.js"


def accessible(page: Page) -> list[str]:
    """What axe finds against WCAG 2.2 AA, with the element of each."""
    page.evaluate(AXE.read_text(encoding="utf-8") + "; undefined")
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = page.evaluate("(values) => axe.run({ runOnly: { type: 'tag', values } })", tags)
    return [
        f"{rule['id']} {node['target']} {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


@pytest.mark.skipif(not AXE.exists(), reason="NOT TESTED: axe; make scripts installs it")
@pytest.mark.parametrize(
    ("path", "width", "scheme"),
    [
        ("", 390, "dark"),
        ("?model=&window=1h", 1280, "light"),
        ("?model=model-1&slice=country%3DC1", 390, "light"),
        ("docs", 1280, "dark"),
    ],
)
def test_axe_finds_nothing(show: Show, path: str, width: int, scheme: str) -> None:
    data = sample(models=2, undefined=True, predictions=True)
    for report in data["reports"].values():
        report["references"] = {"last-month.state": {"accuracy": 0.5}}
    shown = show(data, color_scheme=scheme, viewport={"width": width, "height": 900}).open(path)
    if path != "docs":
        shown.seen()
        shown.page.locator("#slices-table tbody tr").first.wait_for()
        shown.page.locator("#predictions-table summary").click()
        expect(shown.page.locator("#predictions-table tbody tr")).to_have_count(48)
    assert accessible(shown.page) == []
    assert shown.page.evaluate("document.documentElement.scrollWidth") == width


def test_models_side_by_side_with_their_differences(show: Show) -> None:
    data = sample(models=3)
    comparison = data["comparison"]["all"]
    comparison["differences"][1] |= {"low": -0.03, "high": -0.01, "value": -0.02}
    shown = show(data).open().seen()
    page, differences = shown.page, comparison["differences"]
    shown.expect_column("#models-table", "a", [row["a"] for row in differences])
    for key, of in (("own", "a"), ("first", "b")):
        values = [comparison["values"][row["metric"]][row[of]] for row in differences]
        assert shown.column("#models-table", key) == [f"{value:.4f}" for value in values]
    first, worse, *_, undefined = page.locator("#models-table tbody tr").all()
    row = differences[0]
    expect(first.locator(".forest > span").last).to_have_text(words(row["low"], row["high"]))
    expect(first.locator("line.reference")).to_have_count(1)
    expect(first.locator(".side")).to_have_text("better" if row["low"] > 0 else "not certain")
    expect(worse.locator(".side.worse")).to_have_text("worse")
    expect(undefined).to_contain_text("no interval")
    expect(undefined.locator("td.missing").first).to_contain_text("undefined: no events")
    expect(page.locator("#models-note")).to_contain_text("Dashed line: no difference")
    shown.expect_column("#models-slices", "slice", ["country=PT"])
    expect(page.locator("#models-slices-about")).to_contain_text("1 of 2 slices by f1")
    expect(page.locator('#sections a[href="#models"]')).to_be_visible()


def opened_trace(page: Page, chart: str, name: str) -> Any:
    """The trace of that name in a chart."""
    return page.evaluate(
        "([chart, name]) => { const { x, y } = document.getElementById(chart).data"
        ".findLast((one) => one.name === name); return { x, y }; }",
        [chart, name],
    )


def test_predictions_are_shown_before_their_labels(show: Show) -> None:
    data = sample(predictions=True)
    report = data["predictions"]["1h"]
    shown = show(data, charts=True).open("?metric=accuracy").drawn(charts=10)
    page = shown.page
    # The chosen window has no panes: as over time, the first one that has.
    expect(page.locator("#predictions-about")).to_contain_text("1h: 1h in panes of 5m")
    note = page.locator("#predictions-note")
    expect(note).to_have_text(
        "Window all has no panes; shown is 1h. Numbers and scores are of the 2,500 predictions "
        "from 2026-03-01 15:45:00 to 2026-03-01 16:00:00, whose labels are still arriving; they "
        "are shaded. Reference: panes from 2026-03-01 12:00:00 to 2026-03-01 13:00:00. All "
        "predictions of the run are counted."
    )
    volume = page.locator("#volume dl")
    expect(volume).to_contain_text("Predictions2,500 of 40,000 in the window")
    expect(volume).to_contain_text("positive_rate0.2500 [0.2400, 0.2600]")
    expect(volume).to_contain_text("median_score– no scores")
    for name, key in (("now", "now"), ("reference", "reference")):
        shares = report["scores"][key]
        assert opened_trace(page, "scores-chart", name)["y"] == [*shares, shares[-1]]

    page.locator("#predictions-table summary").press("Enter")
    expect(page.locator("#drift dl")).to_contain_text("ks0.1250p0.0001")
    for measure in ("ks", "wasserstein"):
        page.get_by_label("Measure").select_option(measure)
        column = [text(value) for value in report["series"]["drift"][measure]][::-1]
        shown.expect_column("#predictions-table", "drift", column)
    expect(page.locator("#drift dl")).to_contain_text(
        "wasserstein0.0625p– a Wasserstein distance has no p-value"
    )

    # What failed is marked wherever it is shown.
    doubt = "⚠ Do not believe it: 13 of 33 intervals failed"
    check, chart = page.locator("#expected-check"), page.locator("#expected-chart")
    expect(page.locator("#expected dl")).to_have_text("accuracy ⚠0.8125 [0.7900, 0.8300]")
    expect(check).to_have_text(f"{doubt}. The mean of estimate less value is 0.0500.")
    expect(chart).to_have_attribute("aria-label", re.compile(re.escape(doubt)))
    expect(page.locator('#predictions-table th[data-key="value"]')).to_contain_text("accuracy ⚠")
    expect(page.locator("#expected-metric option")).to_have_text(["accuracy ⚠", "f1"])
    page.locator("#expected-metric").select_option("f1")
    expect(page.locator("#expected dl")).to_have_text("f10.7500 [0.7100, 0.7900]")
    expect(check).to_contain_text("In 32 of 33 panes whose labels have come")
    expect(chart).not_to_have_attribute("aria-label", re.compile("⚠"))
    series, values = report["series"], data["series"]["1h"]["metrics"]["f1"]
    column = [text(value) for value in series["expected"]["f1"]][::-1]
    shown.expect_column("#predictions-table", "value", column)
    realised = [text(None if n >= 45 else value) for n, value in enumerate(values)][::-1]
    shown.expect_column("#predictions-table", "realised", realised)
    drawn = [y for y in opened_trace(page, "expected-chart", "value with labels")["y"] if y]
    assert set(drawn) <= set(values[:45])
    low, high = series["low"]["f1"][-1], series["high"]["f1"][-1]
    band = page.evaluate(
        "document.querySelector('#expected-chart').data.find(({ fill }) => fill === 'toself').y"
    )
    assert {low, high} < set(band)

    # Not every measure is computed of each pane.
    del report["series"]["drift"]["wasserstein"]
    shown.publish({**data, "sequence": 2})
    expect(page.locator("#drift .explain")).to_contain_text("No pane has this measure now.")
    expect(page.locator("#drift-chart")).to_be_hidden()

    # The menus keep their choices while there is nothing to choose from.
    lacking = sample(predictions=True, sequence=2)
    lacking["predictions"]["1h"].update(drift={}, expected={}, checks={})
    shown.publish(lacking)
    expect(page.locator("#drift")).to_be_hidden()
    shown.publish(data)
    expect(page.locator("#expected dl")).to_contain_text("f1")
    expect(page.locator("#measure")).to_have_value("wasserstein")


def text(value: float | None) -> str:
    """A value as the page writes it."""
    return "–" if value is None else f"{value:.4f}"


def test_predictions_come_first_while_there_is_no_label(show: Show) -> None:
    data = sample(predictions=True)
    data["checkpoint"]["events"] = 0
    report = data["predictions"]["1h"]
    reason = "0 of the 24 panes of [reference] have all their labels"
    report.update(reference="", reference_reason=reason, drift={}, expected={}, checks={})
    report["scores"]["reference"] = []
    report.update(since=data["at"])
    shown = show(data).open("?window=1h").seen()
    page = shown.page
    expect(page.locator("#predictions-note")).to_contain_text(
        f"No drift and no expected metric yet, as there is no reference: {reason}. Predictions are "
        f"counted since {data['at'][:19].replace('T', ' ')}, by their time."
    )
    expect(page.locator("#volume")).to_be_visible()
    for absent in ("#drift", "#expected"):
        expect(page.locator(absent)).to_be_hidden()
    regions = page.locator("main section:visible h2")
    expect(regions).to_have_text(
        ["Predictions", "Waiting for the first labelled events", "Labels", "Source", "Quarantine",
         "Alerts"]
    )  # fmt: skip


@pytest.mark.parametrize(
    "counted",
    [{"models": MODELS, "join": {"wait": "10m"}, "reference": {"panes": 2}}],
    indirect=True,
)
def test_predictions_of_a_slice_and_of_a_model(counted: tuple[CountedRun, Shown]) -> None:
    run, shown = counted
    page = shown.page
    seen = set()
    for model, country in (("champion", ""), ("challenger", ""), ("challenger", "GR")):
        name = country and f"country={country}"
        shown.open(f"?window=hour&model={model}" + (f"&slice={name}" if name else "")).seen()
        about = re.compile(f"^{model} · " + (f"slice {name} · " if name else "") + "hour")
        expect(page.locator("#predictions-about")).to_have_text(about)
        counted_here = run.evaluators[f"hour:predictions:{model}"]
        whole = counted_here.slices()[(("country", country),)] if name else counted_here.total
        waiting = whole.of_panes(mark.start for mark in whole.marks if mark.end > 70 * MINUTE)
        rate = waiting.report(["positive_rate"], intervals=0.95).rows[0]
        said = f"{text(rate.value)} {words(rate.interval.low, rate.interval.high)}"
        expect(page.locator("#volume dl")).to_contain_text(f"positive_rate{said}")
        seen.add(said)
    assert len(seen) == 3
    # Two panes of a slice have too few labelled events for it.
    expect(page.locator("#expected dl")).to_contain_text("– labelled: expected at least 100")
    page.goto(shown.server.url + "?window=all&slice=country%3DNO")
    expect(page.locator("#predictions-note")).to_contain_text("It cannot be shown: slice: expected")
    expect(page.locator("#predictions-body")).to_be_hidden()
    shown.allowed = "404"


@pytest.mark.parametrize("counted", [{"task": "regression"}], indirect=True)
def test_a_run_of_numbers(counted: tuple[CountedRun, Shown]) -> None:
    run, shown = counted
    shown.open().drawn(charts=3)
    expect(shown.page.locator("#what")).to_have_text("Regression")
    value = run.evaluators["all"]["mean_absolute_error"]
    expect(shown.tile("mean_absolute_error").locator(".value")).to_have_text(f"{value:.4f}")
    expect(shown.tile("r2").locator(".tip")).to_contain_text("(1 and less, more is better)")
    for panel in ("#confusion", "#by-label", "#roc", "#curves-label"):
        expect(shown.page.locator(panel)).to_be_hidden()
    chart = shown.page.locator("#residuals-chart")
    columns = shown.ask("api/curves/residuals")["columns"]
    assert sum(columns["events"]) == 900
    first, last = columns["low"][0], columns["high"][-1]
    expect(chart).to_have_attribute("aria-label", f"Residuals from {first:.4f} to {last:.4f}")
    expect(chart.locator(".bars .point")).to_have_count(40)
    columns = shown.ask("api/curves/actual_vs_predicted")["columns"]
    assert sum(columns["events"]) == 900
    expect(shown.page.locator("#actual_vs_predicted-chart")).to_have_attribute(
        "aria-label", re.compile(f"in {len(columns['events'])} squares, actual from")
    )
    drawn = shown.page.evaluate(
        "document.getElementById('actual_vs_predicted-chart').data[0].z.flat().map(Math.expm1)"
    )
    assert sorted(round(one) for one in drawn if one) == sorted(columns["events"])
    expect(shown.page.locator("#time-legend")).to_have_text("Band: the 95 % interval of each pane.")


@pytest.mark.parametrize("counted", [{"task": "multilabel"}], indirect=True)
def test_a_run_of_label_sets(counted: tuple[CountedRun, Shown]) -> None:
    run, shown = counted
    shown.open().drawn(charts=3)
    expect(shown.page.locator("#what")).to_have_text("Multi-label · 3 labels")
    expect(shown.page.locator("#confusion")).to_be_hidden()
    views = {tag: run.evaluators["all"].one_vs_rest(tag) for tag in TAGS}
    for key, metric in (("f1", "f1"), ("roc_auc", "roc_auc"), ("recall", "recall")):
        shown.page.locator(f'#by-label th[data-key="{key}"] button').click()
        falling = sorted((view[metric] for view in views.values()), reverse=True)
        shown.expect_column("#by-label", key, [f"{value:.4f}" for value in falling])
    low = {
        tag: view.report(["f1"], intervals=0.95).rows[0].interval.low for tag, view in views.items()
    }
    shown.page.locator('#by-label th[data-key="low"] button').click()
    shown.expect_column("#by-label", "label", sorted(TAGS, key=low.__getitem__, reverse=True))
    expect(shown.page.locator("#curves-label select")).to_have_value("ad")
    shown.page.locator("#by-label").get_by_role("button", name="toxic").click()
    expect(shown.page.locator("#curves-label select")).to_have_value("toxic")
    assert "label=toxic" in shown.page.url
    drawn = "document.getElementById('roc-chart').data[1].y.length"
    points = len(views["toxic"].curve("roc").tpr)
    shown.page.wait_for_function(f"{drawn} === {min(points, 500)}")
    assert shown.ask("api/curves/roc", label="toxic")["columns"]["tpr"][-1] == 1
    assert httpx.get(shown.server.url + "api/view?label=span").status_code == 400
