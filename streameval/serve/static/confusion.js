// The confusion matrix as a heat map, and its largest confusions as a table.

import { ask } from "./api.js";
import { clear, draw, ink } from "./charts.js";
import { byId, note, setText } from "./dom.js";
import { sortable } from "./table.js";
import * as text from "./text.js";

const MOST_CONFUSIONS = 50;
const MOST_NUMBERS = 12;

const table = sortable({
  caption: "Largest confusions",
  columns: [
    { key: "true", name: "True", class: "stream", value: (row) => row.true, cell: (row) => row.true },
    { key: "predicted", name: "Predicted", class: "stream", value: (row) => row.predicted, cell: (row) => row.predicted },
    { key: "count", name: "Events", number: true, title: "Events of the one class that were taken for the other (their weights, where events have one)", value: (row) => row.count, cell: (row) => text.whole(row.count) },
    { key: "share", name: "Of true class", number: true, title: "Share of the true class's events", value: (row) => row.share, cell: (row) => text.percent(row.share) },
  ],
  keyOf: (row) => `${row.true}\n${row.predicted}`,
  empty: "No event was taken for another class.",
  sort: { key: "count", order: "desc" },
});
byId("confusion-table").append(table.node);

const classes = sortable({
  caption: "Classes",
  columns: [
    { key: "label", name: "Class", class: "stream", value: (row) => row.name, cell: (row) => row.name },
    { key: "true", name: "Events", number: true, title: "Events of this class (their weights, where events have one)", value: (row) => row.true, cell: (row) => text.whole(row.true) },
    { key: "predicted", name: "Predicted", number: true, title: "Events that were taken for this class", value: (row) => row.predicted, cell: (row) => text.whole(row.predicted) },
    { key: "right", name: "Right", number: true, title: "Events of this class that were taken for it", value: (row) => row.right, cell: (row) => text.whole(row.right) },
    { key: "recall", name: "Found", number: true, title: "Share of the class's events that were taken for it", value: (row) => row.recall, cell: (row) => text.percent(row.recall) },
  ],
  keyOf: (row) => row.name,
  empty: "No labelled events yet.",
  sort: { key: "true", order: "desc" },
});
byId("classes-table").append(classes.node);

/** Every class in full, also those that the matrix has no room for. */
export async function refreshClasses({ window, signal }) {
  if (!byId("classes").open) return;
  const found = await ask("/api/confusion", { window, limit: 0 }, { signal });
  setText(byId("classes-about"), text.about(found.window, { numbers: true }));
  classes.show(found.classes.map((row) => (
    { ...row, name: text.label(row.label, Infinity), recall: row.true ? row.right / row.true : null })));
}

/** `changed` is called when the table of classes is opened. */
export function start(changed) {
  byId("classes").addEventListener("toggle", changed);
}

/** `view`: an answer of /api/view. */
export function show(view) {
  const { labels, matrix, left_out: leftOut } = view.confusion;
  setText(byId("confusion-about"),
    `${labels.length ? `${text.plural(labels.length, "class", "classes")} · ` : ""}${text.about(view.window, { numbers: true })}`);
  note(byId("confusion-note"), labels.length === 0 ? "No labelled events yet."
    : leftOut ? `${text.plural(leftOut, "class", "classes")} of less support ${leftOut === 1 ? "is" : "are"} left out; the table of all classes has ${leftOut === 1 ? "it" : "them"}.` : "");
  byId("confusion-body").hidden = byId("confusion-scale").hidden = byId("classes").hidden = labels.length === 0;
  table.show(largest(labels, matrix));
  if (labels.length === 0) clear("confusion-chart");
  else picture(labels, matrix);
}

function largest(labels, matrix) {
  const rows = [];
  matrix.forEach((counts, i) => {
    const all = counts.reduce((sum, count) => sum + count, 0);
    counts.forEach((count, j) => {
      if (i !== j && count > 0) rows.push({ i, j, count, share: count / all });
    });
  });
  rows.sort((a, b) => b.count - a.count || a.i - b.i || a.j - b.j);
  return rows.slice(0, MOST_CONFUSIONS).map(({ i, j, count, share }) => (
    { true: text.label(labels[i], 200), predicted: text.label(labels[j], 200), count, share }));
}

/** A long label in lines, for the box that shows on hover. */
function broken(label) {
  const marks = Array.from(label);
  const lines = Array.from({ length: Math.ceil(marks.length / 40) }, (_, n) => marks.slice(40 * n, 40 * n + 40).join(""));
  return lines.map(text.plain).join("<br>");
}

function picture(labels, matrix) {
  const sums = matrix.map((counts) => counts.reduce((sum, count) => sum + count, 0));
  const shares = matrix.map((counts, i) => counts.map((count) => (sums[i] ? count / sums[i] : null)));
  const names = labels.map((one) => broken(text.label(one, 240)));
  const about = matrix.map((counts, i) => counts.map((count, j) =>
    `true ${names[i]}<br>predicted ${names[j]}<br>${text.whole(count)}${sums[i] ? ` · ${text.percent(count / sums[i])} of the true class` : ""}`));
  const right = matrix.reduce((sum, counts, i) => sum + counts[i], 0);
  const all = sums.reduce((sum, one) => sum + one, 0);
  const summary = `Confusion matrix of ${text.plural(labels.length, "class", "classes")}: ${text.whole(right)} of ${text.plural(all, "event")} predicted right`;
  const few = labels.length <= MOST_NUMBERS;
  // Of many classes none may have a large share of right ones: the colours end where the shares do.
  const most = few ? 1 : Math.max(0.01, ...shares.flat());
  setText(byId("confusion-most"), `${text.percent(most, 0)} of the true class`);
  byId("confusion-chart").dataset.size = labels.length <= 3 ? "small" : few ? "middle" : "large";
  const narrow = byId("confusion-chart").clientWidth < 420;
  const step = Math.ceil(labels.length / (narrow ? 12 : 25));
  const places = labels.map((_, n) => n).filter((n) => n % step === 0);
  const shown = places.map((n) => text.short(labels[n], narrow ? 9 : few ? 24 : 14));
  const ticks = {
    tickvals: places, ticktext: shown.map(text.plain),
    showgrid: false, tickfont: { size: labels.length > 40 ? 10 : 12 },
  };
  // Plotly leaves out names that would run over the edge: long ones rise towards their cells.
  const room = byId("confusion-chart").clientWidth / (places.length + 1);
  const angle = Math.max(...shown.map((name) => 7 * name.length)) < room ? 0 : few ? -40 : -90;
  draw("confusion-chart", summary, (theme) => ({
    data: [{
      type: "heatmap", z: shares, x: labels.map((_, n) => n), y: labels.map((_, n) => n),
      zmin: 0, zmax: most, colorscale: theme.ramp, showscale: false,
      // Without gaps Plotly takes a quicker way that writes a style attribute.
      xgap: few ? 2 : 0.01, ygap: few ? 2 : 0.01,
      text: about, hovertemplate: "%{text}<extra></extra>", hoverongaps: false,
    }],
    layout: {
      xaxis: { ...ticks, tickangle: angle, title: "predicted", side: "bottom", range: [-0.5, labels.length - 0.5] },
      yaxis: { ...ticks, title: "true", range: [labels.length - 0.5, -0.5] },
      annotations: few ? matrix.flatMap((counts, i) => counts.map((count, j) => ({
        x: j, y: i, text: text.compact(count), showarrow: false,
        font: { size: labels.length > 6 ? 11 : 14, color: shares[i][j] === null ? theme.text : ink(theme.ramp, shares[i][j] / most) },
      }))) : [],
    },
  }));
}
