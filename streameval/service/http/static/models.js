// @ts-check
// Several models side by side: the metrics of each, and their differences from the first one as a
// forest plot.

import { ask, Refused } from "./api.js";
import { byId, hiddenNote, make, note, section, setText } from "./dom.js";
import { sortable } from "./table.js";
import * as text from "./text.js";
import { endsOf, percent, whisker, words } from "./whisker.js";

/** @typedef {Parameters<typeof whisker>[0]} Forest */
/** @typedef {{ forest: Forest | null, says: string, first: number | null, own: number | null }} Shown */
/** @typedef {Api.ModelDifference & Shown} Row */
/** @typedef {Row & { slice: string, support: number, href: string }} SliceRow */

/** @type {Table<Row>} */
const table = sortable({
  caption: "Differences of the models",
  columns: [],
  keyOf: (row) => `${row.metric} ${row.a}`,
  empty: "No metric yet.",
});

/** @type {Table<SliceRow>} */
const flagged = sortable({
  caption: "Slices in which the models differ",
  columns: [],
  keyOf: (row) => `${row.slice} ${row.a}`,
  empty: "The models are not seen to differ in any slice.",
});

/** @type {Panel} */
export const panel = {
  node: section("models", "Models", {},
    hiddenNote("models-note"),
    make("div", { id: "models-table" }, table.node),
    make("div", { id: "models-slices", hidden: true },
      make("h3", {}, "Slices in which the models differ"),
      make("p", { id: "models-slices-about", class: "muted" }), flagged.node)),
  counted: true,
  hidden: ({ status }) => !status.run?.models.length,
  loads: [{ id: "models", every: 2_000, load: refresh }],
};

/** @param {Page} page @param {AbortSignal} signal */
async function refresh(page, signal) {
  if (!page.status.run?.models.length) return;
  const { window, slice } = page.chosen;
  try {
    const found = await ask("/api/comparison", { window, slice }, { signal });
    if (found.comparison) show(found.comparison, found.window, page);
  } catch (error) {
    // A window without the slice is no error of the page.
    if (slice === null || !(error instanceof Refused && [400, 404].includes(error.status))) throw error;
    byId("models-table").hidden = byId("models-slices").hidden = true;
    note(byId("models-note"), `It cannot be shown: ${text.visible(error.message, 300)}.`);
  }
}

/** @param {Api.ModelComparison} found @param {Api.Window} window @param {Page} page */
function show(found, window, page) {
  const [first, ...others] = found.models;
  const { slice } = page.chosen;
  const of = slice === null ? "" : `slice ${text.visible(slice, 60)} · `;
  setText(byId("models-about"),
    `${of}${text.visible(window.name, 40)}: ${text.visible(window.spec, 80)} · as of ${text.time(found.as_of)}`);
  byId("models-table").hidden = false;
  const rows = rowsOf(found.differences, found.values, page);
  const { forest } = rows.find((row) => row.forest) ?? { forest: null };
  note(byId("models-note"), [
    `Differences are those from ${text.visible(first, 80)}, on the same events.`,
    forest ? `Whiskers: ${percent(found.level)} intervals, from ${text.value(forest.scale.low)} to ` +
      `${text.value(forest.scale.high)}. Dashed line: no difference.` : "",
    others.length > 1 ? "p is adjusted for the number of models (Holm)." : "",
  ].filter(Boolean).join(" "));
  table.show(rows, { columns: columnsOf(first, found.level) });
  showSlices(found, page);
}

/** @param {Api.ModelComparison} found @param {Page} page */
function showSlices(found, page) {
  byId("models-slices").hidden = found.slice_metric === "" || found.slices.length === 0;
  const kept = found.slices.filter((one) => one.flagged);
  const all = found.slices.length + found.slices_left_out;
  setText(byId("models-slices-about"), `${text.whole(kept.length)} of ${text.plural(all, "slice")} by ` +
    `${found.slice_metric}; of those shown, about 5 % differ by chance (Benjamini and Hochberg).`);
  const rows = rowsOf(kept.map((one) => one.difference), found.values, page);
  /** @type {Column<SliceRow>[]} */
  const columns = [
    {
      key: "slice", name: "Slice", class: "stream", value: (row) => row.slice,
      cell: (row) => make("a", {
        href: row.href, title: text.visible(row.slice, 1000),
        /** @param {MouseEvent} event */
        onclick: (event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
          event.preventDefault();
          page.openSlice(row.slice);
        },
      }, text.visible(row.slice, 80)),
    },
    { key: "a", name: "Model", class: "stream", value: (row) => row.a, cell: (row) => text.visible(row.a, 80) },
    {
      key: "support", name: "Support", number: true, value: (row) => row.support,
      cell: (row) => text.whole(row.support),
    },
    ...differences(found.level),
  ];
  flagged.show(rows.map((row, n) => {
    const { slice, support } = kept[n];
    return { ...row, slice, support, href: page.addressOf(slice) };
  }), { columns });
}

/**
 * The differences with their whiskers, all on one scale that includes 0.
 *
 * @param {Api.ModelDifference[]} differences
 * @param {Api.ModelComparison["values"]} values
 * @param {Page} page
 * @returns {Row[]}
 */
function rowsOf(differences, values, page) {
  const ends = differences.flatMap((one) => endsOf(one.low, one.high) ?? []);
  const scale = ends.length === 0 ? null : {
    low: Math.min(0, ...ends.map((one) => one.low)), high: Math.max(0, ...ends.map((one) => one.high)),
  };
  return differences.map((one) => ({
    ...one,
    forest: scale && { value: one.value, ends: endsOf(one.low, one.high), scale, reference: 0 },
    says: verdict(one, page.meanings[one.metric]?.direction ?? "none"),
    first: values[one.metric]?.[one.b] ?? null,
    own: values[one.metric]?.[one.a] ?? null,
  }));
}

/**
 * In a word, where the whole interval is on one side of 0.
 *
 * @param {Api.ModelDifference} one
 * @param {Api.Definition["direction"]} direction
 */
function verdict({ low, high }, direction) {
  const ends = endsOf(low, high);
  if (!ends) return "";
  const side = ends.low > 0 ? "up" : ends.high < 0 ? "down" : null;
  if (side === null) return "not certain";
  if (direction === "none") return side === "up" ? "higher" : "lower";
  return side === direction ? "better" : "worse";
}

/** @param {string} first @param {number} level @returns {Column<Row>[]} */
function columnsOf(first, level) {
  return [
    { key: "metric", name: "Metric", value: (row) => row.metric, cell: (row) => row.metric },
    { key: "a", name: "Model", class: "stream", value: (row) => row.a, cell: (row) => text.visible(row.a, 80) },
    {
      key: "own", name: "Value", number: true, title: "The model's own metric",
      value: (row) => row.own, cell: (row) => text.value(row.own), reason: (row) => text.visible(row.reason, 300),
    },
    {
      key: "first", name: text.visible(first, 40), number: true, title: "The metric of the first model",
      value: (row) => row.first, cell: (row) => text.value(row.first), reason: (row) => text.visible(row.reason, 300),
    },
    ...differences(level),
  ];
}

/** Why there is no interval, with the key that gives it where one does. @param {string} reason */
function lacking(reason) {
  return reason.includes("paired_scores") ? "set paired_scores = true under [evaluator]"
    : text.visible(reason || "the metric never has one", 300);
}

/** @param {number} level @returns {Column<any>[]} */
function differences(level) {
  /** @type {Column<Row>[]} */
  const columns = [
    {
      key: "value", name: "Difference", number: true, title: "The model's metric less that of the first model",
      value: (row) => row.value, cell: (row) => text.value(row.value),
      reason: (row) => text.visible(row.reason || "undefined", 300),
    },
    {
      key: "low", name: `${percent(level)} interval`, class: "whiskers", value: (row) => row.low,
      title: "Of the difference; sorted by its lower end", hint: (row) => row.method || undefined,
      cell: (row) => (row.forest?.ends
        ? make("div", { class: "forest" }, whisker(row.forest),
          make("span", { class: ["better", "worse"].includes(row.says) ? `side ${row.says}` : "side" }, row.says),
          make("span", {}, words(row.forest.ends)))
        : make("span", { class: "muted reason" }, `no interval: ${lacking(row.reason)}`)),
    },
    {
      key: "p", name: "p", number: true, title: "Adjusted for the number of tests",
      value: (row) => row.p_adjusted, cell: (row) => text.value(row.p_adjusted),
      reason: (row) => text.visible(row.reason || "no test", 300),
    },
  ];
  return columns;
}
