// @ts-check
// Puts the page together: the panels, the state that they share, and when each is drawn.

import { panel as alerts } from "./alerts.js";
import { ask, NeedsToken, Refused } from "./api.js";
import { redraw } from "./charts.js";
import { panel as confusion } from "./confusion.js";
import { panel as curves } from "./curves.js";
import { byId, make, note, options, setText } from "./dom.js";
import * as header from "./header.js";
import { panel as labels } from "./labels.js";
import { follow } from "./live.js";
import { panel as models } from "./models.js";
import { panel as opened } from "./opened.js";
import { panel as overTime } from "./over_time.js";
import { panel as predictions } from "./predictions.js";
import { panel as perLabel } from "./per_label.js";
import { panel as quarantine } from "./quarantine.js";
import { refresher } from "./refresh.js";
import { panel as slices } from "./slices.js";
import { panel as source } from "./source.js";
import { labelOf } from "./tasks.js";
import * as text from "./text.js";
import { panel as tiles } from "./tiles.js";
import * as waiting from "./waiting.js";

/** The page's sections, from top to bottom. */
const PANELS = [
  opened, tiles, overTime, predictions, models, perLabel, curves, slices, confusion, labels, source, quarantine, alerts,
];

const known = {
  status: /** @type {Api.Status | null} */ (null),
  snapshot: /** @type {Api.SnapshotEvent | null} */ (null),
  views: /** @type {Page["views"]} */ ([]),
  /** Whose views they are. */
  slice: /** @type {string | null} */ (null),
  model: /** @type {string | null} */ (null),
  /** Why the opened slice has none; empty where it has. */
  missing: "",
  state: /** @type {LiveState} */ ({ kind: "connecting", since: null }),
  clock: 0,
};
/** @returns {Page["chosen"]} */
function addressed() {
  const query = new URLSearchParams(location.search);
  const names = ["window", "metric", "slice", "model", "label"];
  const [window, metric, slice, model, label] = names.map((name) => query.get(name));
  return { window, metric, slice, model, label };
}
const chosen = addressed();

/** What panels are given; they are called once there are a snapshot and a status of a run. @type {Page} */
const page = {
  chosen,
  get snapshot() {
    return /** @type {Api.SnapshotEvent} */ (known.snapshot);
  },
  get status() {
    return /** @type {Api.Status} */ (known.status);
  },
  get meanings() {
    return known.status?.run?.definitions ?? {};
  },
  get missing() {
    return known.missing;
  },
  get views() {
    return known.views;
  },
  chooseMetric(name) {
    chosen.metric = name;
    history.replaceState(null, "", address());
    drawAll();
    drawView();
    loads.now("page", ...(chosen.model === "" ? ["slices"] : []));
  },
  chooseLabel(name) {
    chosen.label = name;
    history.replaceState(null, "", address());
    drawAll();
    loads.now("page");
  },
  addressOf: (slice) => address({ ...chosen, slice }),
  openSlice(name) {
    const row = document.querySelector('#slices-table a[aria-current="true"]');
    chosen.slice = name;
    history.pushState(null, "", address());
    changePart();
    if (name !== null) {
      byId("slice-title").focus({ preventScroll: true });
      // At once: a smooth way there ends where the page was before it is redrawn.
      byId("slice").scrollIntoView({ behavior: "instant" });
    } else if (row instanceof HTMLElement) row.focus();
    else byId("main").focus();
  },
  reload: (id) => loads.now(id),
};

byId("page").append(...PANELS.map((panel) => panel.node));
byId("sections").append(...PANELS.map(({ node }) =>
  make("a", { href: `#${node.id}` }, node.querySelector("h2")?.textContent)));

/** The server's time: ages are computed with one clock. */
const now = () => Date.now() + known.clock;

const loads = refresher([
  { id: "page", every: 1_000, load: view },
  ...PANELS.flatMap((panel) => panel.loads ?? []).map(({ id, every, load }) => (
    { id, every, load: (/** @type {AbortSignal} */ signal) => load(page, signal) })),
], (id, error) => {
  if (error instanceof NeedsToken) return login();
  console.warn(`${id}: ${error.message}`);
  setText(byId(id === "page" ? "metrics-about" : `${id}-about`), `not up to date: ${text.visible(error.message, 200)}`);
});

/** The run's models; none where it has one. */
const modelNames = () => known.status?.run?.models ?? [];

/** Tiles, curves, confusion and the metric over time: of one answer, so that they agree. @param {AbortSignal} signal */
async function view(signal) {
  const { window, metric, slice, model } = chosen;
  const label = labelOf(known.status?.run, chosen.label);
  const models = model === "" ? modelNames() : [model ?? modelNames()[0] ?? ""];
  try {
    const views = await Promise.all(models.map(async (one) => (
      { model: one, view: await ask("/api/view", { window, metric, slice, model: one, label }, { signal }) })));
    Object.assign(known, { views, slice, model, missing: "" });
  } catch (error) {
    // A window without the slice is no error of the page.
    if (slice === null || !(error instanceof Refused && [400, 404].includes(error.status))) throw error;
    Object.assign(known, { views: [], slice, model, missing: error.message });
  }
  byId("page").removeAttribute("aria-busy");
  drawAll();
  drawView();
}

/** Another slice or model has been chosen: what is shown is of the one before. */
function changePart() {
  known.missing = "";
  byId("page").setAttribute("aria-busy", "true");
  drawAll();
  loads.now("page", "predictions", "models", "slices", "classes", "by-label");
}

function drawView() {
  const view = known.views[0]?.view;
  if (!counted() || view?.window.name !== chosen.window) return;
  if (known.slice !== chosen.slice || known.model !== chosen.model) return;
  for (const panel of PANELS) panel.draw?.(view, page);
  document.documentElement.dataset.sequence = String(view.sequence);
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
/** @type {number | null} */
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
  const window = snapshot.windows.find((one) => one.name === chosen.window) ?? snapshot.windows[0];
  chosen.window = window.name;
  options(byId("window", HTMLSelectElement), snapshot.windows.map((one) =>
    [one.name, `${text.visible(one.name, 40)} — ${text.visible(one.spec, 60)}`]), window.name);
  showModels();
  const names = Object.keys(snapshot.reports[window.name]?.metrics ?? {});
  if (chosen.metric === null || !names.includes(chosen.metric)) chosen.metric = names[0] ?? null;
  for (const panel of PANELS) {
    // No numbers are shown before there are any.
    panel.node.hidden = Boolean(panel.counted && !counted()) || Boolean(panel.hidden?.(page)) ||
      Boolean(panel.draw && known.missing);
    panel.show?.(page);
  }
  for (const link of byId("sections").querySelectorAll("a")) link.hidden = byId(link.hash.slice(1)).hidden;
  if (!counted()) document.documentElement.dataset.sequence = String(snapshot.sequence);
  if (snapshot.sequence !== refreshed) {
    refreshed = snapshot.sequence;
    loads.changed();
  }
}

function showModels() {
  const names = modelNames();
  if (names.length === 0 || (chosen.model && !names.includes(chosen.model))) chosen.model = null;
  byId("model-control").hidden = names.length === 0;
  const each = names.map((name) => /** @type {[string, string]} */ ([name, text.visible(name, 40)]));
  options(byId("model", HTMLSelectElement), [...each, ["", "All models"]], chosen.model ?? names[0] ?? "");
}

/** What changes with time alone. */
function drawAges() {
  const current = header.currency(known.state, known.status, known.snapshot, now());
  header.showState(current);
  header.vitals(known.snapshot, now());
  header.banners(known.snapshot, current);
  const firing = (known.snapshot?.alerts ?? []).filter((alert) => alert.state === "firing").length;
  const silent = current.kind === "live" || current.kind === "connecting";
  header.announce([
    current.kind === "paused" ? "Paused." : silent ? "" : `${byId("state").textContent}.`,
    firing ? `${text.plural(firing, "alert")} firing.` : "",
  ].filter(Boolean).join(" "));
}

/** The page's address with these choices. @param {Page["chosen"]} choices */
function address(choices = chosen) {
  const url = new URL(location.href);
  for (const [name, given] of Object.entries(choices)) {
    if (given === null) url.searchParams.delete(name);
    else url.searchParams.set(name, given);
  }
  url.hash = "";
  return url.href;
}

addEventListener("popstate", () => {
  const before = { ...chosen };
  Object.assign(chosen, addressed());
  drawAll(); // chooses what the address leaves out, as after a link within the page
  if (chosen.slice !== before.slice || chosen.model !== before.model) changePart();
  else if (address() !== address(before)) loads.now();
});

function login() {
  const box = byId("login");
  if (!box.hidden) return;
  box.hidden = false;
  box.append(
    make("h2", { id: "login-title" }, "Log in"),
    make("p", {}, "This run requires its token."),
    make("form", { method: "post", action: "/login" },
      make("label", { for: "token" }, "Token"),
      make("input", { id: "token", name: "token", type: "password", autocomplete: "current-password", required: true }),
      make("button", { class: "primary" }, "Show the dashboard")),
  );
  for (const id of ["page", "sections", "window-control", "model-control", "pause", "vitals", "banners", "waiting"]) {
    byId(id).hidden = true;
  }
  note(byId("what"), "");
  header.showState({ kind: "stopped", words: "This run requires its token" });
  setText(byId("state"), "Locked");
  byId("token").focus();
}

const windows = byId("window", HTMLSelectElement);
windows.addEventListener("change", () => {
  chosen.window = windows.value;
  known.missing = "";
  history.replaceState(null, "", address());
  for (const panel of PANELS) panel.rewind?.();
  drawAll();
  loads.now();
});
const model = byId("model", HTMLSelectElement);
model.addEventListener("change", () => {
  chosen.model = model.value;
  history.replaceState(null, "", address());
  changePart();
});
const pause = byId("pause");
pause.addEventListener("click", () => {
  const paused = pause.getAttribute("aria-pressed") !== "true";
  pause.setAttribute("aria-pressed", String(paused));
  setText(pause, paused ? "Resume" : "Pause");
  live.pause(paused);
});
for (const panel of PANELS) panel.start?.(page);
header.themes(redraw);
setInterval(() => {
  if (!document.hidden && byId("login").hidden) drawAges();
}, 1_000);
