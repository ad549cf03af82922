// A metric in each pane of a window; panes whose labels still come in are dashed.

import { ask } from "./api.js";
import { clear, draw } from "./charts.js";
import { byId, note, setText } from "./dom.js";
import { sortable } from "./table.js";
import * as text from "./text.js";

const table = sortable({
  caption: "The metric over time",
  columns: [
    { key: "start", name: "From", value: (row) => row.start, cell: (row) => text.time(row.start) },
    { key: "end", name: "To", value: (row) => row.end, cell: (row) => text.time(row.end) },
    { key: "value", name: "Value", number: true, value: (row) => row.value, cell: (row) => text.value(row.value), reason: () => "too little to tell in this pane" },
    { key: "support", name: "Support", number: true, value: (row) => row.support, cell: (row) => text.whole(row.support) },
    { key: "immature", name: "Labels", value: (row) => String(row.immature), cell: (row) => (row.immature ? "still coming in" : "complete") },
  ],
  keyOf: (row) => row.start,
  empty: "No panes yet.",
  sort: { key: "start", order: "desc" },
});
byId("time-table").querySelector("div").append(table.node);

/** Load and draw. `windows` are those that have panes; the chosen one if it does, else the first. */
export async function refresh({ window, metric, windows, meaning, signal }) {
  if (windows.length === 0) {
    clear("time-chart");
    byId("time-chart").hidden = true;
    byId("time-table").hidden = true;
    return note(byId("time-note"), "No window of this run has panes. Give one a length and a pane in the settings, and its metrics show here over time.");
  }
  const shown = windows.includes(window) ? window : windows[0];
  const found = await ask(`/api/series/${encodeURIComponent(metric)}`, { window: shown }, { signal });
  byId("time-chart").hidden = false;
  byId("time-table").hidden = false;
  setText(byId("time-about"), `${text.visible(found.window.name, 40)}: ${text.visible(found.window.spec, 80)}`);
  const other = shown === window ? "" : `Window ${text.visible(window, 40)} has no panes; shown is ${text.visible(shown, 40)}.`;
  note(byId("time-note"), found.start.length === 0 ? "No pane has events yet." : other);
  const panes = found.start.map((start, n) => ({
    start, end: found.end[n], value: found.values[n], support: found.support[n], immature: found.immature[n],
  }));
  table.show(panes);
  draw("time-chart", summary(metric, panes), (theme) => picture(metric, panes, meaning, theme));
}

function summary(metric, panes) {
  const defined = panes.filter((pane) => pane.value !== null);
  if (defined.length === 0) return `${metric} over time: undefined in every pane`;
  const values = defined.map((pane) => pane.value);
  const young = panes.filter((pane) => pane.immature).length;
  return `${metric} over ${text.plural(panes.length, "pane")}: from ${text.value(Math.min(...values))} to ${text.value(Math.max(...values))}, ` +
    `last ${text.value(values.at(-1))}${young ? `; the labels of ${text.plural(young, "pane")} are still coming in` : ""}`;
}

/** Plotly takes times as they stand, without their zone: all are UTC here. */
const stand = (iso) => new Date(iso).toISOString().slice(0, -1);

function picture(metric, panes, meaning, theme) {
  const times = panes.map((pane) => stand(pane.end));
  const about = panes.map((pane) => text.plain(
    `${text.time(pane.start)} – ${text.shortTime(pane.end, Date.parse(pane.start))}`) +
    `<br>${text.value(pane.value)}<br>${text.plural(pane.support, "event")}${pane.immature ? "<br>labels still coming in" : ""}`);
  const line = (keep, dash) => ({
    type: "scatter", mode: panes.length < 60 ? "lines+markers" : "lines", x: times,
    y: panes.map((pane, n) => (keep(pane, n) ? pane.value : null)),
    text: about, hovertemplate: "%{text}<extra></extra>", connectgaps: false,
    line: { color: theme.first, width: 2, dash, shape: "linear" }, marker: { size: 4, color: theme.first },
  });
  // The dashed line starts at the last point whose labels are all there.
  const young = (pane, n) => pane.immature || panes[n + 1]?.immature || panes[n - 1]?.immature;
  const dashed = line((pane, n) => young(pane, n), "dash");
  dashed.hoverinfo = "skip";
  dashed.hovertemplate = undefined;
  dashed.mode = "lines";
  const points = line((pane) => pane.immature, "solid");
  points.mode = "markers";
  points.marker = { size: 6, color: theme.panel, line: { color: theme.first, width: 1.5 } };
  const bars = {
    type: "bar", x: times, y: panes.map((pane) => pane.support), yaxis: "y2",
    marker: { color: theme.quiet }, hoverinfo: "skip",
  };
  // One pane has no width of its own to draw it at: a pane's length to both sides.
  const alone = panes.length === 1;
  const length = alone ? Date.parse(panes[0].end) - Date.parse(panes[0].start) : 0;
  const around = alone ? [-1, 1].map((side) => new Date(Date.parse(panes[0].end) + side * length).toISOString().slice(0, -1)) : undefined;
  if (alone) bars.width = length;
  const low = meaning?.low, high = meaning?.high;
  const whole = alone && typeof low === "number" && typeof high === "number" ? [low, high] : undefined;
  const ends = meaning ? (meaning.direction === "none" ? "" : meaning.direction === "up" ? " (more is better)" : " (less is better)") : "";
  return {
    data: [bars, line((pane) => !pane.immature, "solid"), dashed, points],
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

