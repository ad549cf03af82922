// Puts the page together: what is known, what is chosen, and who shows which part.

import * as alerts from "./alerts.js";
import { ask, NeedsToken } from "./api.js";
import { begin, redraw } from "./charts.js";
import * as confusion from "./confusion.js";
import * as curves from "./curves.js";
import { byId, make, note, options, setText } from "./dom.js";
import * as header from "./header.js";
import * as labels from "./labels.js";
import { follow } from "./live.js";
import * as overTime from "./over_time.js";
import * as quarantine from "./quarantine.js";
import { refresher } from "./refresh.js";
import * as slices from "./slices.js";
import * as source from "./source.js";
import * as text from "./text.js";
import * as tiles from "./tiles.js";
import * as waiting from "./waiting.js";

const known = { status: null, snapshot: null, view: null, state: { kind: "connecting", since: null }, clock: 0 };
const query = new URLSearchParams(location.search);
const chosen = { window: query.get("window"), metric: query.get("metric") };

/** The server's time: ages are told by one clock. */
const now = () => Date.now() + known.clock;
const meanings = () => known.status?.run?.definitions ?? {};
const windowNow = () => known.snapshot.windows.find((one) => one.name === chosen.window) ?? known.snapshot.windows[0];

const panels = refresher([
  { id: "slices", every: 2_000, load: (signal) => slices.refresh({ window: chosen.window, metrics: Object.keys(known.snapshot.reports[chosen.window].metrics), about: meanings(), signal }).finally(begin) },
  { id: "labels", every: 3_000, load: (signal) => labels.refresh({ signal }) },
  { id: "quarantine", every: 3_000, load: (signal) => quarantine.refresh({ signal }) },
  { id: "page", every: 1_000, load: view },
  { id: "classes", every: 3_000, load: (signal) => confusion.refreshClasses({ window: chosen.window, signal }) },
], (id, error) => {
  if (error instanceof NeedsToken) return login();
  console.warn(`${id}: ${error.message}`);
  setText(byId(id === "page" ? "metrics-about" : `${id}-about`), `not up to date: ${text.visible(error.message, 200)}`);
});

/** Tiles, curves, confusion and the metric over time: of one answer, so that they agree. */
async function view(signal) {
  const { window, metric } = chosen;
  known.view = await ask("/api/view", { window, metric }, { signal });
  drawView();
}

function drawView() {
  const { view } = known;
  if (!counted() || view?.window.name !== chosen.window) return;
  tiles.show(view.report, { window: view.window, meanings: meanings(), chosen: chosen.metric, choose: chooseMetric });
  if (view.series === null || view.series.metric === chosen.metric) overTime.show(view, meanings()[chosen.metric]);
  curves.show(view, { has: known.status.run.curves[chosen.window] ?? [], task: known.status.run.task });
  confusion.show(view);
  document.documentElement.dataset.sequence = view.sequence;
}

const counted = () => known.snapshot !== null && known.snapshot.checkpoint.events > 0;

const live = follow({
  onNeedsToken: login,
  onSnapshot(snapshot) {
    known.snapshot = snapshot;
    schedule();
  },
  onStatus(status) {
    known.status = status;
    known.clock = Date.parse(status.started) + 1000 * status.uptime_seconds - Date.now();
    schedule();
  },
  onState(state) {
    known.state = state;
    schedule();
  },
});

let scheduled = false;
let refreshed = null;

/** Draw before the next frame, however many things have changed. */
function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    drawAll();
  });
}

function drawAll() {
  if (!byId("login").hidden) return;
  const { status, snapshot } = known;
  drawAges();
  header.what(status);
  waiting.show(status, snapshot);
  const ready = snapshot !== null && snapshot.windows.length > 0 && Boolean(status?.run);
  byId("page").hidden = !ready;
  byId("window-control").hidden = byId("sections").hidden = !ready;
  if (!ready) return;
  const window = windowNow();
  chosen.window = window.name;
  options(byId("window"), snapshot.windows.map((one) => [one.name, `${text.visible(one.name, 40)} — ${text.visible(one.spec, 60)}`]), window.name);
  // Nothing is shown of numbers that are not there yet.
  const some = counted();
  const begun = snapshot.join !== null && snapshot.join.predictions + snapshot.join.labels > 0;
  for (const id of ["metrics", "time", "curves", "slices", "confusion"]) byId(id).hidden = !some;
  byId("labels").hidden = !(some || begun);
  for (const link of byId("sections").children) link.hidden = byId(link.hash.slice(1)).hidden;
  const names = Object.keys(snapshot.reports[window.name]?.metrics ?? {});
  if (!names.includes(chosen.metric)) chosen.metric = names[0] ?? null;
  options(byId("metric"), names.map((name) => [name, name]), chosen.metric);
  labels.show(snapshot.join);
  source.show(snapshot.partitions);
  quarantine.show(snapshot.quarantine);
  alerts.show(snapshot.alerts);
  if (!some) document.documentElement.dataset.sequence = snapshot.sequence;
  if (snapshot.sequence !== refreshed) {
    refreshed = snapshot.sequence;
    panels.changed();
  }
}

/** What changes with time alone. */
function drawAges() {
  const current = header.currency(known.state, known.status, known.snapshot, now());
  header.showState(current);
  header.vitals(known.snapshot, now());
  header.banners(known.snapshot, now(), current);
  const firing = (known.snapshot?.alerts ?? []).filter((alert) => alert.state === "firing").length;
  header.announce([
    { live: "", connecting: "", paused: "Paused." }[current.kind] ?? `${byId("state").textContent}.`,
    firing ? `${text.plural(firing, "alert")} firing.` : "",
  ].filter(Boolean).join(" "));
}

function remember() {
  const address = new URL(location.href);
  for (const [name, given] of Object.entries(chosen)) address.searchParams.set(name, given);
  history.replaceState(null, "", address);
}

function chooseMetric(name) {
  chosen.metric = name;
  remember();
  drawAll();
  drawView();
  panels.now("page");
}

function login() {
  const box = byId("login");
  if (!box.hidden) return;
  box.hidden = false;
  box.append(
    make("h2", { id: "login-title" }, "Log in"),
    make("p", {}, "This run is shown to those who know its token."),
    make("form", { method: "post", action: "/login" },
      make("label", { for: "token" }, "Token"),
      make("input", { id: "token", name: "token", type: "password", autocomplete: "current-password", required: true }),
      make("button", { class: "primary" }, "Show the dashboard")),
  );
  for (const id of ["page", "sections", "window-control", "pause", "vitals", "banners"]) byId(id).hidden = true;
  byId("waiting").hidden = true;
  note(byId("what"), "");
  header.showState({ kind: "stopped", words: "This run wants its token" });
  setText(byId("state"), "Locked");
  byId("token").focus();
}

byId("window").addEventListener("change", (event) => {
  chosen.window = event.target.value;
  remember();
  slices.rewind();
  drawAll();
  panels.now();
});
byId("metric").addEventListener("change", (event) => chooseMetric(event.target.value));
byId("pause").addEventListener("click", (event) => {
  const paused = event.target.getAttribute("aria-pressed") !== "true";
  event.target.setAttribute("aria-pressed", String(paused));
  setText(event.target, paused ? "Resume" : "Pause");
  live.pause(paused);
});
confusion.start(() => panels.now("classes"));
slices.start(() => panels.now("slices"));
quarantine.start(() => panels.now("quarantine"));
header.themes(redraw);
setInterval(() => { if (!document.hidden && byId("login").hidden) drawAges(); }, 1_000);
