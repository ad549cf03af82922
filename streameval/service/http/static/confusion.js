// @ts-check
// The confusion matrix as a heat map, its largest confusions as a table, and the ids behind a cell.

import { ask } from "./api.js";
import { clear, draw, ink } from "./charts.js";
import { byId, hiddenNote, make, note, section, setText } from "./dom.js";
import { sortable } from "./table.js";
import { shows } from "./tasks.js";
import * as text from "./text.js";

const MOST_CONFUSIONS = 50;
const MOST_NUMBERS = 12;

/** @typedef {Pick<Api.ExampleCell, "true" | "predicted">} Cell */
/** @typedef {{ true: string, predicted: string, count: number, share: number, cell: Cell }} Pair */
/** @typedef {Api.Example & { listed: string }} Listed */
/** @typedef {Api.ClassRow & { name: string, recall: number | null }} Row */

/** The cell whose events are shown. @type {Cell | null} */
let opened = null;
/** The labels of the matrix that is drawn. @type {Api.Matrix["labels"]} */
let drawn = [];
/** @type {() => void} */
let reload = () => {};

/** @param {Cell} cell */
function open(cell) {
  opened = cell;
  // A hidden panel is not in sight, and loads nothing.
  byId("examples").hidden = false;
  reload();
}

/** A count that opens its cell. @param {number} count @param {Cell} cell */
function opener(count, cell) {
  return make("button", {
    type: "button", class: "count", title: "Show ids of these events",
    "data-focus": JSON.stringify(cell), onclick: () => open(cell),
  }, text.whole(count));
}

/** @type {Table<Listed>} */
const examples = sortable({
  caption: "Events of a cell",
  columns: [
    {
      key: "id", name: "Id", class: "stream",
      value: (row) => row.id, cell: (row) => make("code", {}, text.visible(row.id)),
    },
    { key: "time", name: "Event time", value: (row) => row.time, cell: (row) => text.time(row.time) },
    {
      key: "score", name: "Score", number: true, title: "Of a binary task its score, else that of the predicted label",
      value: (row) => row.score, cell: (row) => text.value(row.score),
    },
    { key: "listed", name: "Listed as", value: (row) => row.listed, cell: (row) => row.listed },
  ],
  keyOf: (row) => row.id,
  empty: "No id is kept of this cell.",
});

/** @type {Table<Pair>} */
const table = sortable({
  caption: "Largest confusions",
  columns: [
    { key: "true", name: "True", class: "stream", value: (row) => row.true, cell: (row) => row.true },
    {
      key: "predicted", name: "Predicted", class: "stream",
      value: (row) => row.predicted, cell: (row) => row.predicted,
    },
    {
      key: "count", name: "Events", number: true,
      title: "Events of the one class predicted as the other (their weights, where events have one)",
      value: (row) => row.count, cell: (row) => opener(row.count, row.cell),
    },
    {
      key: "share", name: "Of true class", number: true, title: "Share of the true class's events",
      value: (row) => row.share, cell: (row) => text.percent(row.share),
    },
  ],
  keyOf: (row) => `${row.true}\n${row.predicted}`,
  empty: "No event was predicted as another class.",
  sort: { key: "count", order: "desc" },
});

/** @type {Table<Row>} */
const classes = sortable({
  caption: "Classes",
  columns: [
    { key: "label", name: "Class", class: "stream", value: (row) => row.name, cell: (row) => row.name },
    {
      key: "true", name: "Events", number: true, title: "Events of this class (their weights, where events have one)",
      value: (row) => row.true, cell: (row) => text.whole(row.true),
    },
    {
      key: "predicted", name: "Predicted", number: true, title: "Events predicted as this class",
      value: (row) => row.predicted, cell: (row) => text.whole(row.predicted),
    },
    {
      key: "right", name: "Right", number: true, title: "Events of this class predicted as it",
      value: (row) => row.right, cell: (row) => opener(row.right, { true: row.label, predicted: row.label }),
    },
    {
      key: "recall", name: "Found", number: true, title: "Share of the class's events predicted as it",
      value: (row) => row.recall, cell: (row) => text.percent(row.recall),
    },
  ],
  keyOf: (row) => row.name,
  empty: "No labelled events yet.",
  sort: { key: "true", order: "desc" },
});

const details = make("details", { id: "classes", class: "more" },
  make("summary", {}, "All classes as a table"),
  make("p", { id: "classes-about", class: "explain" }),
  make("div", { id: "classes-table" }, classes.node));

const scale = make("p", { id: "confusion-scale", class: "scale", hidden: true },
  make("span", {}, "0 %"), make("span", { class: "ramp", "aria-hidden": "true" }),
  make("span", { id: "confusion-most" }));

/** @type {Panel} */
export const panel = {
  node: section("confusion", "Confusion", {},
    hiddenNote("confusion-note"),
    make("div", { class: "two", id: "confusion-body" },
      make("div", {}, make("div", { id: "confusion-chart", class: "chart matrix" }), scale),
      make("div", {}, make("h3", {}, "Largest confusions"), make("div", { id: "confusion-table" }, table.node))),
    make("div", { id: "examples", hidden: true },
      make("h3", { id: "examples-title" }), hiddenNote("examples-note"), examples.node),
    details),
  counted: true,
  hidden: ({ status }) => !shows(status.run, "confusion"),
  start(page) {
    reload = () => page.reload("examples");
    details.addEventListener("toggle", () => page.reload("classes"));
  },
  draw: show,
  loads: [
    { id: "classes", every: 3_000, load: refreshClasses },
    { id: "examples", every: 3_000, load: ({ chosen }, signal) => refreshExamples(chosen, signal) },
  ],
};

/** The ids of the opened cell. @param {Page["chosen"]} chosen @param {AbortSignal} signal */
async function refreshExamples({ window, slice }, signal) {
  const cell = opened;
  if (!cell) return;
  const query = { window, true: String(cell.true), predicted: String(cell.predicted) };
  const found = await ask("/api/examples", query, { signal });
  if (cell !== opened) return;
  const names = [cell.true, cell.predicted].map((label) => text.label(label, 200));
  setText(byId("examples-title"), `Events of true ${names[0]}, predicted ${names[1]}`);
  const none = "No ids are kept; a run with labels of their own keeps them with examples = 5 under [join].";
  const all = slice ? "These are of all events, also those outside the slice." : "";
  note(byId("examples-note"), found.cells === null ? none : all);
  examples.node.hidden = found.cells === null;
  const [lists] = found.cells ?? [];
  const sure = cell.true === cell.predicted ? "least confident" : "most confident";
  /** @type {Map<string, Listed>} */
  const rows = new Map();
  for (const row of lists?.newest ?? []) rows.set(row.id, { ...row, listed: "newest" });
  for (const row of lists?.by_confidence ?? []) {
    rows.set(row.id, { ...row, listed: rows.has(row.id) ? `newest, ${sure}` : sure });
  }
  examples.show([...rows.values()]);
}

/** Every class, also those left out of the matrix. @param {Page} page @param {AbortSignal} signal */
async function refreshClasses({ chosen: { window, slice }, views: [shown] }, signal) {
  if (!details.open) return;
  const model = shown?.model;
  const found = await ask("/api/confusion", { window, slice, model, limit: 0 }, { signal });
  setText(byId("classes-about"), text.about(found.window, { numbers: true, slice, model }));
  classes.show(found.classes.map((row) => (
    { ...row, name: text.label(row.label, Infinity), recall: row.true ? row.right / row.true : null })));
}

/** @param {Api.ViewAnswer} view @param {Page} page */
function show(view, { chosen, views }) {
  const { labels, matrix, left_out: leftOut } = view.confusion;
  const classCount = labels.length ? `${text.plural(labels.length, "class", "classes")} · ` : "";
  setText(byId("confusion-about"), classCount + text.about(view.window, {
    numbers: true, slice: chosen.slice, model: views[0].model,
  }));
  const [verb, them] = leftOut === 1 ? ["is", "it"] : ["are", "them"];
  const rest = leftOut === 0 ? "" :
    `${text.plural(leftOut, "class", "classes")} of less support ${verb} left out; ` +
    `the table of all classes has ${them}.`;
  note(byId("confusion-note"), labels.length === 0 ? "No labelled events yet." : rest);
  byId("confusion-body").hidden = byId("confusion-scale").hidden = byId("classes").hidden = labels.length === 0;
  table.show(largest(labels, matrix));
  if (labels.length === 0) clear("confusion-chart");
  else picture(labels, matrix);
}

/** @param {Api.Matrix["labels"]} labels @param {number[][]} matrix @returns {Pair[]} */
function largest(labels, matrix) {
  /** @type {{ i: number, j: number, count: number, share: number }[]} */
  const rows = [];
  matrix.forEach((counts, i) => {
    const all = counts.reduce((sum, count) => sum + count, 0);
    counts.forEach((count, j) => {
      if (i !== j && count > 0) rows.push({ i, j, count, share: count / all });
    });
  });
  rows.sort((a, b) => b.count - a.count || a.i - b.i || a.j - b.j);
  return rows.slice(0, MOST_CONFUSIONS).map(({ i, j, count, share }) => (
    {
      true: text.label(labels[i], 200), predicted: text.label(labels[j], 200), count, share,
      cell: { true: labels[i], predicted: labels[j] },
    }));
}

/** A long label in lines, for the box that shows on hover. @param {string} label */
function broken(label) {
  const marks = Array.from(label);
  const count = Math.ceil(marks.length / 40);
  const lines = Array.from({ length: count }, (_, n) => marks.slice(40 * n, 40 * n + 40).join(""));
  return lines.map(text.plain).join("<br>");
}

/** @param {Api.Matrix["labels"]} labels @param {number[][]} matrix */
function picture(labels, matrix) {
  const sums = matrix.map((counts) => counts.reduce((sum, count) => sum + count, 0));
  const shares = matrix.map((counts, i) => counts.map((count) => (sums[i] ? count / sums[i] : null)));
  const names = labels.map((one) => broken(text.label(one, 240)));
  const about = matrix.map((counts, i) => counts.map((count, j) => {
    const share = sums[i] ? ` · ${text.percent(count / sums[i])} of the true class` : "";
    return `true ${names[i]}<br>predicted ${names[j]}<br>${text.whole(count)}${share}`;
  }));
  const right = matrix.reduce((sum, counts, i) => sum + counts[i], 0);
  const all = sums.reduce((sum, one) => sum + one, 0);
  const summary = `Confusion matrix of ${text.plural(labels.length, "class", "classes")}: ` +
    `${text.whole(right)} of ${text.plural(all, "event")} predicted right`;
  const few = labels.length <= MOST_NUMBERS;
  // Of many classes none may have a large share of right ones: the colours end where the shares do.
  const most = few ? 1 : Math.max(0.01, ...shares.flat().map(Number));
  setText(byId("confusion-most"), `${text.percent(most, 0)} of the true class`);
  byId("confusion-chart").dataset.size = labels.length <= 3 ? "small" : few ? "middle" : "large";
  const narrow = byId("confusion-chart").clientWidth < 420;
  const step = Math.ceil(labels.length / (narrow ? 12 : 25));
  const indices = labels.map((_, n) => n).filter((n) => n % step === 0);
  const shown = indices.map((n) => text.short(labels[n], narrow ? 9 : few ? 24 : 14));
  const ticks = {
    tickvals: indices, ticktext: shown.map(text.plain),
    showgrid: false, tickfont: { size: labels.length > 40 ? 10 : 12 },
  };
  // Plotly leaves out names that would run over the edge: long ones rise towards their cells.
  const width = byId("confusion-chart").clientWidth / (indices.length + 1);
  const angle = Math.max(...shown.map((name) => 7 * name.length)) < width ? 0 : few ? -40 : -90;
  drawn = labels;
  draw("confusion-chart", summary, (theme) => ({
    data: [{
      type: "heatmap", z: shares, x: labels.map((_, n) => n), y: labels.map((_, n) => n),
      zmin: 0, zmax: most, colorscale: theme.ramp, showscale: false,
      // Without gaps Plotly takes a quicker way that writes a style attribute.
      xgap: few ? 2 : 0.01, ygap: few ? 2 : 0.01,
      text: about, hovertemplate: "%{text}<extra></extra>", hoverongaps: false,
    }],
    layout: {
      xaxis: {
        ...ticks, tickangle: angle, title: "predicted", side: "bottom", range: [-0.5, labels.length - 0.5],
      },
      yaxis: { ...ticks, title: "true", range: [labels.length - 0.5, -0.5] },
      annotations: few ? matrix.flatMap((counts, i) => counts.map((count, j) => ({
        x: j, y: i, text: text.compact(count), showarrow: false,
        font: {
          size: labels.length > 6 ? 11 : 14,
          color: sums[i] === 0 ? theme.text : ink(theme.ramp, count / sums[i] / most),
        },
      }))) : [],
    },
  })).then(listen);
}

/** Plotly's element has events of its own, and forgets the listeners of one that was taken away. */
function listen() {
  /** @type {any} */
  const node = byId("confusion-chart");
  node.removeAllListeners?.("plotly_click");
  node.on?.("plotly_click", (/** @type {{ points: { x: number, y: number }[] }} */ { points: [point] }) => {
    open({ true: drawn[point.y], predicted: drawn[point.x] });
  });
}
