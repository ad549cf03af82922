// @ts-check
// A metric in each pane of a window, with its interval as a band and the bounds of its alerts as
// lines; panes whose labels still arrive are dashed.

import { clear, draw } from "./charts.js";
import { byId, control, hiddenNote, make, note, options, section, setText } from "./dom.js";
import { sortable } from "./table.js";
import * as text from "./text.js";
import { endsOf, percent, words } from "./whisker.js";

/** @typedef {import("./whisker.js").Ends} Ends */
/** @typedef {{ value: number | null, ends: Ends | null, support: number, immature: boolean }} Numbers */
/** @typedef {Numbers & { start: string, end: string }} Pane */

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
      key: "low", name: "Interval", number: true, title: "Sorted by its lower end",
      value: (row) => row.ends?.low ?? null, cell: (row) => (row.ends ? words(row.ends) : text.NOTHING),
      reason: () => "no interval",
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
    hiddenNote("time-legend"),
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
  draw(view, page) {
    if (view.series === null || view.series.metric === page.chosen.metric) show(view, page);
  },
};

/**
 * The view's series is of the first window of panes where its own has none.
 *
 * @param {Api.ViewAnswer} view
 * @param {Page} page
 */
function show(view, { meanings, snapshot, status, chosen }) {
  const found = view.series;
  if (found === null) {
    clear("time-chart");
    byId("time-chart").hidden = true;
    byId("time-table").hidden = true;
    note(byId("time-legend"), "");
    setText(byId("time-about"), "");
    return note(byId("time-note"), status.run?.series.length
      ? "The window of panes has no events of this slice."
      : "No window of this run has panes. " +
        "Give one a length and a pane in the settings, and its metrics show here over time.");
  }
  const metric = found.metric;
  byId("time-chart").hidden = false;
  byId("time-table").hidden = false;
  setText(byId("time-about"), text.about(found.window, { slice: chosen.slice }));
  const other = found.window.name === view.window.name ? ""
    : `Window ${text.visible(view.window.name, 40)} has no panes; shown is ${text.visible(found.window.name, 40)}.`;
  note(byId("time-note"), found.start.length === 0 ? "No pane has events yet." : other);
  const panes = found.start.map((start, n) => ({
    start, end: found.end[n], value: found.values[n], ends: endsOf(found.low[n], found.high[n]),
    support: found.support[n], immature: found.immature[n],
  }));
  table.show(panes);
  const limits = limitsOf(snapshot.alerts, metric, found.window.name, chosen.slice ?? "");
  const { level } = view.report;
  const band = level !== undefined && panes.some((pane) => pane.ends);
  note(byId("time-legend"), [
    band ? `Band: the ${percent(level)} interval of each pane.` : "",
    ...limits.map(({ name, bound }) => `Dashed line: ${bound} fires ${name}.`),
  ].filter(Boolean).join(" "));
  draw("time-chart", summary(metric, panes, limits), (theme) =>
    picture(metric, panes, meanings[metric], limits, theme));
}

/**
 * The bounds that alerts set to this metric, window and slice; not those of differences.
 *
 * @param {Api.AlertState[]} alerts
 * @param {string} metric
 * @param {string} window
 * @param {string} slice
 */
function limitsOf(alerts, metric, window, slice) {
  const all = alerts
    .filter((alert) => alert.metric === metric && alert.window === window && alert.against === "")
    .filter((alert) => alert.slice === slice || (alert.slice === "any" && slice !== ""))
    .flatMap(({ name, bound, below, above, state, slice: of }) => [below, above].flatMap((limit) =>
      (limit === null ? [] : [{
        limit, bound: text.visible(bound, 60),
        name: text.visible(name, 40) + (of === slice && state === "firing" ? " (firing)" : ""),
      }])));
  // Alerts of one bound share its line.
  return [...new Set(all.map((one) => one.bound))].map((bound) => {
    const same = all.filter((one) => one.bound === bound);
    return { bound, limit: same[0].limit, name: same.map((one) => one.name).join(", ") };
  });
}
/** @typedef {ReturnType<typeof limitsOf>} Limits */

/** @param {string} metric @param {Pane[]} panes @param {Limits} limits */
function summary(metric, panes, limits) {
  const values = panes.flatMap((pane) => (pane.value === null ? [] : [pane.value]));
  if (values.length === 0) return `${metric} over time: undefined in every pane`;
  const young = panes.filter((pane) => pane.immature).length;
  const waiting = young ? `; the labels of ${text.plural(young, "pane")} are still coming in` : "";
  return `${metric} over ${text.plural(panes.length, "pane")}: ` +
    `from ${text.value(Math.min(...values))} to ${text.value(Math.max(...values))}, ` +
    `last ${text.value(values.at(-1))}${waiting}` +
    limits.map(({ name, bound }) => `; ${bound} fires ${name}`).join("");
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
 * The intervals as areas, one for panes that touch.
 *
 * @param {Pane[]} panes
 * @param {{ start: string, end: string }[]} times
 */
function areas(panes, times) {
  /** @type {(string | null)[]} */
  const x = [];
  /** @type {(number | null)[]} */
  const y = [];
  for (let from = 0; from < panes.length;) {
    let to = from;
    while (to < panes.length && panes[to].ends && (to === from || panes[to - 1].end === panes[to].start)) to += 1;
    const there = panes.slice(from, to).flatMap(({ ends }, n) => (ends ? [{ ...times[from + n], ...ends }] : []));
    const back = there.toReversed();
    if (x.length && there.length) {
      x.push(null);
      y.push(null);
    }
    x.push(...there.flatMap(({ start, end }) => [start, end]), ...back.flatMap(({ start, end }) => [end, start]));
    y.push(...there.flatMap(({ high }) => [high, high]), ...back.flatMap(({ low }) => [low, low]));
    from = Math.max(to, from + 1);
  }
  return { x, y };
}

/**
 * @param {string} metric
 * @param {Pane[]} panes
 * @param {Api.Definition | undefined} meaning
 * @param {Limits} limits
 * @param {import("./charts.js").Theme} theme
 */
function picture(metric, panes, meaning, limits, theme) {
  const times = panes.map((pane) => {
    const start = Date.parse(pane.start);
    const end = Date.parse(pane.end);
    return { start: stand(pane.start), end: stand(pane.end), middle: stand((start + end) / 2), length: end - start };
  });
  const about = panes.map((pane) => text.plain(
    `${text.time(pane.start)} – ${text.shortTime(pane.end, Date.parse(pane.start))}`) +
    `<br>${text.value(pane.value)}${pane.ends ? ` ${words(pane.ends)}` : ""}<br>${text.plural(pane.support, "event")}` +
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
  const band = {
    type: "scatter", mode: "lines", name: "interval", ...areas(panes, times), fill: "toself",
    fillcolor: theme.band, line: { width: 0 }, hoverinfo: "skip",
  };
  // As lines and not as shapes, so that the axis includes them.
  const bounds = panes.length === 0 ? [] : limits.map(({ limit }) => ({
    type: "scatter", mode: "lines", name: "bound", x: [times[0].start, times.at(-1)?.end], y: [limit, limit],
    hoverinfo: "skip", line: { color: theme.bad, width: 1.5, dash: "6px,4px" },
  }));
  const names = bounds.map(({ y: [limit] }, n) => ({
    xref: "paper", x: 0, xanchor: "left", y: limit, yanchor: "bottom", showarrow: false,
    text: text.plain(limits[n].bound), font: { color: theme.bad, size: 11 },
    bgcolor: theme.panel, opacity: 0.9, borderpad: 1,
  }));
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
      bars, band, ...bounds, line(mature, "solid"), line(young, "3px,3px"),
      points(mature, { size: panes.length < 60 ? 4 : 8, opacity: panes.length < 60 ? 1 : 0, color: theme.first }),
      points(young, { size: 6, color: theme.panel, line: { color: theme.first, width: 1.5 } }),
    ],
    layout: {
      xaxis: { type: "date", showgrid: false, anchor: "y2", tickangle: 0, ...(around && { range: around }) },
      yaxis: { title: text.plain(metric + ends), domain: [0.26, 1], ...(whole && { range: whole }) },
      yaxis2: { title: "events", domain: [0, 0.18], rangemode: "tozero", nticks: 3 },
      annotations: names,
      hovermode: "closest",
      // A zoom stays over updates, until another metric is chosen.
      uirevision: metric,
    },
  };
}
