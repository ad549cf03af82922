// @ts-check
// A metric in each pane of a window; panes whose labels still arrive are dashed.

import { clear, draw } from "./charts.js";
import { byId, control, hiddenNote, make, note, options, section, setText } from "./dom.js";
import { sortable } from "./table.js";
import * as text from "./text.js";

/** @typedef {{ start: string, end: string, value: number | null, support: number, immature: boolean }} Pane */

/** @type {Table<Pane>} */
const table = sortable({
  caption: "The metric over time",
  columns: [
    { key: "start", name: "From", value: (row) => row.start, cell: (row) => text.time(row.start) },
    { key: "end", name: "To", value: (row) => row.end, cell: (row) => text.time(row.end) },
    {
      key: "value", name: "Value", number: true, value: (row) => row.value, cell: (row) => text.value(row.value),
      reason: () => "undefined for the events of this pane",
    },
    {
      key: "support", name: "Support", number: true,
      value: (row) => row.support, cell: (row) => text.whole(row.support),
    },
    {
      key: "immature", name: "Labels", value: (row) => String(row.immature),
      cell: (row) => (row.immature ? "still coming in" : "complete"),
    },
  ],
  keyOf: (row) => row.start,
  empty: "No panes yet.",
  sort: { key: "start", order: "desc" },
});

/** @type {Panel} */
export const panel = {
  node: section("time", "Over time", { controls: [control("Metric", make("select", { id: "metric" }))] },
    hiddenNote("time-note"),
    make("div", { id: "time-chart", class: "chart tall" }),
    make("details", { id: "time-table", class: "more" },
      make("summary", {}, "As a table"), make("div", {}, table.node))),
  counted: true,
  start(page) {
    const select = byId("metric", HTMLSelectElement);
    select.addEventListener("change", () => page.chooseMetric(select.value));
  },
  show({ snapshot, chosen }) {
    const names = Object.keys(snapshot.reports[chosen.window ?? ""]?.metrics ?? {});
    options(byId("metric", HTMLSelectElement), names.map((name) => [name, name]), chosen.metric);
  },
  draw(view, { chosen, meanings }) {
    if (view.series === null || view.series.metric === chosen.metric) show(view, meanings[chosen.metric ?? ""]);
  },
};

/**
 * The view's series is of the first window of panes where its own has none.
 *
 * @param {Api.ViewAnswer} view
 * @param {Api.Definition | undefined} meaning
 */
function show(view, meaning) {
  const found = view.series;
  if (found === null) {
    clear("time-chart");
    byId("time-chart").hidden = true;
    byId("time-table").hidden = true;
    return note(byId("time-note"), "No window of this run has panes. " +
      "Give one a length and a pane in the settings, and its metrics show here over time.");
  }
  const metric = found.metric;
  byId("time-chart").hidden = false;
  byId("time-table").hidden = false;
  setText(byId("time-about"), text.about(found.window));
  const other = found.window.name === view.window.name ? ""
    : `Window ${text.visible(view.window.name, 40)} has no panes; shown is ${text.visible(found.window.name, 40)}.`;
  note(byId("time-note"), found.start.length === 0 ? "No pane has events yet." : other);
  const panes = found.start.map((start, n) => ({
    start, end: found.end[n], value: found.values[n], support: found.support[n], immature: found.immature[n],
  }));
  table.show(panes);
  draw("time-chart", summary(metric, panes), (theme) => picture(metric, panes, meaning, theme));
}

/** @param {string} metric @param {Pane[]} panes */
function summary(metric, panes) {
  const values = panes.flatMap((pane) => (pane.value === null ? [] : [pane.value]));
  if (values.length === 0) return `${metric} over time: undefined in every pane`;
  const young = panes.filter((pane) => pane.immature).length;
  const waiting = young ? `; the labels of ${text.plural(young, "pane")} are still coming in` : "";
  return `${metric} over ${text.plural(panes.length, "pane")}: ` +
    `from ${text.value(Math.min(...values))} to ${text.value(Math.max(...values))}, ` +
    `last ${text.value(values.at(-1))}${waiting}`;
}

/** Plotly takes times as they stand, without their zone: all are UTC here. @param {string | number} moment */
const stand = (moment) => new Date(moment).toISOString().slice(0, -1);

/**
 * Each pane as a level line over its own span; panes that touch are joined, between others is a gap.
 *
 * @param {Pane[]} panes
 * @param {{ start: string, end: string }[]} times
 * @param {(pane: Pane) => boolean} keep
 */
function steps(panes, times, keep) {
  /** @type {string[]} */
  const x = [];
  /** @type {(number | null)[]} */
  const y = [];
  panes.forEach((pane, n) => {
    if (!keep(pane)) return;
    const joined = n > 0 && keep(panes[n - 1]) && panes[n - 1].end === pane.start;
    if (x.length && !joined) {
      x.push(times[n].start);
      y.push(null);
    }
    x.push(times[n].start, times[n].end);
    y.push(pane.value, pane.value);
  });
  return { x, y };
}

/**
 * @param {string} metric
 * @param {Pane[]} panes
 * @param {Api.Definition | undefined} meaning
 * @param {import("./charts.js").Theme} theme
 */
function picture(metric, panes, meaning, theme) {
  const times = panes.map((pane) => {
    const start = Date.parse(pane.start);
    const end = Date.parse(pane.end);
    return { start: stand(pane.start), end: stand(pane.end), middle: stand((start + end) / 2), length: end - start };
  });
  const about = panes.map((pane) => text.plain(
    `${text.time(pane.start)} – ${text.shortTime(pane.end, Date.parse(pane.start))}`) +
    `<br>${text.value(pane.value)}<br>${text.plural(pane.support, "event")}` +
    (pane.immature ? "<br>labels still coming in" : ""));
  /** @param {(pane: Pane) => boolean} keep @param {string} dash */
  const line = (keep, dash) => ({
    type: "scatter", mode: "lines", ...steps(panes, times, (pane) => pane.value !== null && keep(pane)),
    connectgaps: false, hoverinfo: "skip", line: { color: theme.first, width: 2, dash, shape: "linear" },
  });
  // In the middle of its span each pane has a point with its text; of many panes it is transparent.
  /** @param {(pane: Pane) => boolean} keep @param {object} marker */
  const points = (keep, marker) => ({
    type: "scatter", mode: "markers", x: times.map((one) => one.middle),
    y: panes.map((pane) => (keep(pane) ? pane.value : null)),
    text: about, hovertemplate: "%{text}<extra></extra>", marker,
  });
  /** @param {Pane} pane */
  const mature = (pane) => !pane.immature;
  /** @param {Pane} pane */
  const young = (pane) => pane.immature;
  const bars = {
    type: "bar", x: times.map((one) => one.start), offset: 0, width: times.map((one) => 0.9 * one.length),
    y: panes.map((pane) => pane.support), yaxis: "y2", marker: { color: theme.quiet }, hoverinfo: "skip",
  };
  // A single pane is shown with half its length to both sides.
  const alone = panes.length === 1;
  const half = alone ? times[0].length / 2 : 0;
  const around = alone
    ? [Date.parse(panes[0].start) - half, Date.parse(panes[0].end) + half].map(stand) : undefined;
  const low = meaning?.low, high = meaning?.high;
  const whole = alone && typeof low === "number" && typeof high === "number" ? [low, high] : undefined;
  const ends = meaning ? { none: "", up: " (more is better)", down: " (less is better)" }[meaning.direction] : "";
  return {
    data: [
      bars, line(mature, "solid"), line(young, "3px,3px"),
      points(mature, { size: panes.length < 60 ? 4 : 8, opacity: panes.length < 60 ? 1 : 0, color: theme.first }),
      points(young, { size: 6, color: theme.panel, line: { color: theme.first, width: 1.5 } }),
    ],
    layout: {
      xaxis: { type: "date", showgrid: false, anchor: "y2", tickangle: 0, ...(around && { range: around }) },
      yaxis: { title: text.plain(metric + ends), domain: [0.26, 1], ...(whole && { range: whole }) },
      yaxis2: { title: "events", domain: [0, 0.18], rangemode: "tozero", nticks: 3 },
      hovermode: "closest",
      // A zoom stays over updates, until another metric is chosen.
      uirevision: metric,
    },
  };
}
