// @ts-check
// The labels of sets of labels: how many events have each, and how well each is predicted.

import { ask } from "./api.js";
import { byId, make, section, setText } from "./dom.js";
import { sortable } from "./table.js";
import { shows } from "./tasks.js";
import * as text from "./text.js";
import { intervalOf, words } from "./whisker.js";

const FIRST = 50;

/** @typedef {Record<"precision" | "recall" | "f1" | "threshold", number | null>} Numbers */
/** @typedef {Api.ClassRow & { name: string } & Numbers} Row */

/** @type {Page["chooseLabel"]} */
let choose = () => {};

/** @param {number} part @param {number} whole */
const share = (part, whole) => (whole ? part / whole : null);

/** @param {Row} row */
const ends = (row) => intervalOf(row.metrics?.f1 ?? {});

/** @param {Row} row */
function intervalText(row) {
  const found = ends(row);
  return found ? words(found) : text.NOTHING;
}

/**
 * A column of one of the row's numbers.
 *
 * @param {"precision" | "recall" | "f1"} key
 * @param {string} name
 * @param {string} title
 * @param {string} without
 * @returns {Column<Row>}
 */
const number = (key, name, title, without) => ({
  key, name, title, number: true, value: (row) => row[key], cell: (row) => text.value(row[key]), reason: () => without,
});

/** @type {Column<Row>[]} */
const COLUMNS = [
  {
    key: "label", name: "Label", class: "stream", value: (row) => row.name,
    cell: (row) => make("button", {
      type: "button", class: "count", title: "Show the curves of this label", "data-focus": row.name,
      onclick: () => choose(String(row.label)),
    }, row.name),
  },
  {
    key: "true", name: "Events", number: true, title: "Events with this label (their weights, where events have one)",
    value: (row) => row.true, cell: (row) => text.whole(row.true),
  },
  {
    key: "predicted", name: "Predicted", number: true, title: "Events predicted to have this label",
    value: (row) => row.predicted, cell: (row) => text.whole(row.predicted),
  },
  number("precision", "Precision", "Share of the events predicted to have the label that do", "never predicted"),
  number("recall", "Recall", "Share of the events with the label that are predicted to have it", "no event has it"),
  number("f1", "F1", "Harmonic mean of precision and recall", "no event has it or is predicted to"),
  {
    key: "low", name: "Interval of F1", number: true, title: "Sorted by its lower end",
    value: (row) => ends(row)?.low ?? null, cell: (row) => intervalText(row),
    reason: () => "no interval",
  },
  {
    key: "threshold", name: "Threshold", number: true, title: "The score from which on the label is predicted",
    value: (row) => row.threshold, cell: (row) => text.value(row.threshold), reason: () => "labels are given",
  },
  {
    key: "roc_auc", name: "AUC", number: true, title: "Area under the ROC curve of the label's scores",
    value: (row) => row.metrics?.roc_auc?.value ?? null, cell: (row) => text.value(row.metrics?.roc_auc?.value),
    reason: () => "no scores",
  },
];

/** @type {Table<Row>} */
const table = sortable({
  caption: "By label",
  columns: COLUMNS,
  keyOf: (row) => row.name,
  empty: "No labelled events yet.",
  sort: { key: "true", order: "desc" },
  first: FIRST,
});

/** @type {Panel} */
export const panel = {
  node: section("by-label", "By label", {}, table.node),
  counted: true,
  hidden: ({ status }) => !shows(status.run, "by-label"),
  start(page) {
    choose = page.chooseLabel;
  },
  loads: [{ id: "by-label", every: 2_000, load: refresh }],
};

/** @param {Page} page @param {AbortSignal} signal */
async function refresh({ chosen: { window, slice }, views: [shown], status }, signal) {
  // Of a run of another task, or of a slice that is not there, it is in sight until that is known.
  if (panel.node.hidden || !shows(status.run, "by-label")) return;
  const model = shown?.model;
  const found = await ask("/api/confusion", { window, slice, model, limit: 0 }, { signal });
  const { classes } = found;
  setText(byId("by-label-about"), `${text.plural(classes.length, "label")} · ` +
    text.about(found.window, { numbers: true, slice, model }));
  const scored = classes.some((row) => row.metrics?.roc_auc);
  const limits = shown?.view.report.threshold;
  const own = new Map(Array.isArray(limits) ? limits.map(([label, limit]) => [label, Number(limit)]) : []);
  const certain = classes.some((row) => intervalOf(row.metrics?.f1 ?? {}));
  table.show(classes.map((row) => ({
    ...row, name: text.label(row.label, Infinity),
    precision: share(row.right, row.predicted), recall: share(row.right, row.true),
    f1: share(2 * row.right, row.true + row.predicted),
    threshold: typeof limits === "number" ? limits : own.get(row.label) ?? null,
  })), { columns: COLUMNS.filter(({ key }) => (key !== "roc_auc" || scored) && (key !== "low" || certain)) });
}
