// @ts-check
// A metric in each pane of a window, with its interval as a band and the bounds of its alerts as
// lines; panes whose labels still arrive are dashed.

import { clear, draw, legend, lineOf } from "./charts.js";
import { byId, control, hiddenNote, make, note, options, section, setText } from "./dom.js";
import { sortable } from "./table.js";
import * as text from "./text.js";
import { endsOf, percent, withoutEnds, words } from "./whisker.js";

/** @typedef {import("./whisker.js").Ends} Ends */
/** @typedef {{ value: number | null, ends: Ends | null, support: number, immature: boolean }} Numbers */
/** @typedef {Numbers & { start: string, end: string }} Pane */

/** @typedef {{ model: string, number: number, panes: Pane[] }} Line of a model; the name is empty in a run of one */

/** @type {Column<Pane>[]} */
const COLUMNS = [
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
];

/** @type {Table<Pane>} */
const table = sortable({
  caption: "The metric over time",
  columns: COLUMNS,
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
function show(view, { meanings, snapshot, status, chosen, views }) {
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
  const model = views.length > 1 ? "all models" : views[0].model;
  setText(byId("time-about"), text.about(found.window, { slice: chosen.slice, model }));
  const other = found.window.name === view.window.name ? ""
    : `Window ${text.visible(view.window.name, 40)} has no panes; shown is ${text.visible(found.window.name, 40)}.`;
  note(byId("time-note"), found.start.length === 0 ? "No pane has events yet." : other);
  const lines = views.flatMap((one) => (one.view.series === null ? [] : [{
    model: text.visible(one.model, 40), number: Math.max(0, status.run?.models.indexOf(one.model) ?? 0),
    panes: panesOf(one.view.series),
  }]));
  const [{ panes }] = lines;
  table.show(panes, { columns: columnsOf(lines) });
  const references = Object.entries(view.report.references ?? {}).flatMap(([file, values]) =>
    (typeof values[metric] === "number" ? [{ file: text.visible(file, 80), value: values[metric] }] : []));
  const limits = limitsOf(snapshot.alerts, metric, found.window.name, chosen.slice ?? "");
  const { level } = view.report;
  const band = lines.length === 1 && level !== undefined && panes.some((pane) => pane.ends);
  note(byId("time-legend"), [
    band ? `Band: the ${percent(level)} interval of each pane.` : "",
    !band && lines.length === 1 && level !== undefined && panes.some((pane) => pane.value !== null)
      ? `No band: ${withoutEnds(view.report.metrics[metric])}.` : "",
    ...limits.map(({ name, bound }) => `Dashed line: ${bound} fires ${name}.`),
    ...references.map(({ file, value }) => `Faint line: the reference ${file}, ${text.value(value)}.`),
  ].filter(Boolean).join(" "));
  const words = lines.map((line) =>
    (line.model && `${line.model}: `) + summary(metric, line.panes, limits)).join("; ");
  draw("time-chart", words, (theme) => picture(metric, lines, meanings[metric], { limits, references }, theme));
}

/** @param {Api.SeriesAnswer} found @returns {Pane[]} */
function panesOf(found) {
  return found.start.map((start, n) => ({
    start, end: found.end[n], value: found.values[n], ends: endsOf(found.low[n], found.high[n]),
    support: found.support[n], immature: found.immature[n],
  }));
}

/** With several models a column for the value of each. @param {Line[]} lines @returns {Column<Pane>[]} */
function columnsOf(lines) {
  if (lines.length === 1) return COLUMNS;
  const [from, to, , , ...others] = COLUMNS;
  const values = lines.map(({ model, panes }) => {
    const byStart = new Map(panes.map((pane) => [pane.start, pane.value]));
    /** @param {Pane} row */
    const value = (row) => byStart.get(row.start) ?? null;
    return {
      key: `model ${model}`, name: model, number: true, value,
      cell: (/** @type {Pane} */ row) => text.value(value(row)), reason: () => "undefined for the events of this pane",
    };
  });
  return [from, to, ...values, ...others];
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
export const stand = (moment) => new Date(moment).toISOString().slice(0, -1);

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
export function areas(panes, times) {
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
 * @param {Line[]} lines
 * @param {Api.Definition | undefined} meaning
 * @param {{ limits: Limits, references: { file: string, value: number }[] }} levels
 * @param {import("./charts.js").Theme} theme
 */
function picture(metric, lines, meaning, { limits, references }, theme) {
  const [{ panes }] = lines;
  const several = lines.length > 1;
  const times = panes.map(timesOf);
  const bars = {
    type: "bar", x: times.map((one) => one.start), offset: 0, width: times.map((one) => 0.9 * one.length),
    y: panes.map((pane) => pane.support), yaxis: "y2", marker: { color: theme.quiet }, hoverinfo: "skip",
    showlegend: false,
  };
  const band = {
    type: "scatter", mode: "lines", name: "interval", ...areas(several ? [] : panes, times), fill: "toself",
    fillcolor: theme.band, line: { width: 0 }, hoverinfo: "skip", showlegend: false,
  };
  // As lines and not as shapes, so that the axis includes them.
  /** @param {number} at @param {object} line @param {string} name */
  const level = (at, line, name) => ({
    type: "scatter", mode: "lines", name, x: [times[0]?.start, times.at(-1)?.end], y: [at, at],
    hoverinfo: "skip", line,
  });
  const bounds = panes.length === 0 ? [] : limits.map(({ limit }) => (
    { ...level(limit, { color: theme.bad, width: 1.5, dash: "6px,4px" }, "bound"), showlegend: false }));
  const compared = panes.length === 0 ? [] : references.map(({ file, value }) => level(
    value, { color: theme.muted, width: 1 }, text.plain(references.length > 1 ? `reference ${file}` : "reference")));
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
    data: [bars, band, ...bounds, ...compared, ...lines.flatMap((line) => traces(line, several, theme))],
    layout: {
      xaxis: { type: "date", showgrid: false, anchor: "y2", tickangle: 0, ...(around && { range: around }) },
      yaxis: { title: text.plain(metric + ends), domain: [0.26, 1], ...(whole && { range: whole }) },
      yaxis2: { title: "events", domain: [0, 0.18], rangemode: "tozero", nticks: 3 },
      annotations: names,
      hovermode: "closest",
      ...((several || compared.length > 0) && { showlegend: true, legend: legend(theme) }),
      // A zoom stays over updates, until another metric is chosen.
      uirevision: metric,
    },
  };
}

/** @param {Pane} pane */
export function timesOf(pane) {
  const start = Date.parse(pane.start);
  const end = Date.parse(pane.end);
  return { start: stand(pane.start), end: stand(pane.end), middle: stand((start + end) / 2), length: end - start };
}

/**
 * A model's panes as lines, and a point in the middle of each.
 *
 * @param {Line} given
 * @param {boolean} several
 * @param {import("./charts.js").Theme} theme
 */
export function traces({ model, number, panes }, several, theme) {
  const times = panes.map(timesOf);
  const { color } = lineOf(theme, number);
  const about = panes.map((pane) => (several ? `${text.plain(model)}<br>` : "") + text.plain(
    `${text.time(pane.start)} – ${text.shortTime(pane.end, Date.parse(pane.start))}`) +
    `<br>${text.value(pane.value)}${pane.ends ? ` ${words(pane.ends)}` : ""}<br>${text.plural(pane.support, "event")}` +
    (pane.immature ? "<br>labels still coming in" : ""));
  /** @param {(pane: Pane) => boolean} keep @param {string} dash @param {boolean} showlegend */
  const line = (keep, dash, showlegend) => ({
    type: "scatter", mode: "lines", ...steps(panes, times, (pane) => pane.value !== null && keep(pane)),
    connectgaps: false, hoverinfo: "skip", line: { color, width: 2, dash, shape: "linear" },
    name: text.plain(model), legendgroup: model, showlegend,
  });
  // In the middle of its span each pane has a point with its text; of many panes it is transparent.
  /** @param {(pane: Pane) => boolean} keep @param {object} marker */
  const points = (keep, marker) => ({
    type: "scatter", mode: "markers", x: times.map((one) => one.middle),
    y: panes.map((pane) => (keep(pane) ? pane.value : null)),
    text: about, hovertemplate: "%{text}<extra></extra>", marker, showlegend: false,
  });
  /** @param {Pane} pane */
  const mature = (pane) => !pane.immature;
  /** @param {Pane} pane */
  const young = (pane) => pane.immature;
  const few = panes.length < 60;
  return [
    line(mature, "solid", several), line(young, "3px,3px", several && !panes.some(mature)),
    points(mature, { size: few ? 4 : 8, opacity: few ? 1 : 0, color }),
    points(young, { size: 6, color: theme.panel, line: { color, width: 1.5 } }),
  ];
}
