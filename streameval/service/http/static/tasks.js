// @ts-check
// What the page says of a run by its task.

import * as text from "./text.js";

/**
 * @typedef {object} Shown
 * @property {string} name
 * @property {(run: Api.Run) => string} labels what its labels are, in the header; empty without labels
 * @property {object} prediction the usual fields of a prediction, as an example
 * @property {(run: Api.Run | null) => unknown} truth that of a true label
 * @property {boolean} curves whether metrics are shown as curves of one class against another
 */

/** @type {Record<string, Shown>} */
const TASKS = {
  binary: {
    name: "Binary", labels: (run) => `positive class ${text.label(run.positive)}`,
    prediction: { score: 0.83 }, truth: (run) => run?.positive ?? true, curves: true,
  },
  multiclass: {
    name: "Multi-class", labels: (run) => text.plural(run.classes, "class", "classes"),
    prediction: { y_pred: "cat" }, truth: () => "dog", curves: true,
  },
  multilabel: {
    name: "Multi-label", labels: (run) => text.plural(run.classes, "label"),
    prediction: { score: { spam: 0.9, ad: 0.2 } }, truth: () => ["spam"], curves: false,
  },
  regression: {
    name: "Regression", labels: () => "", prediction: { y_pred: 2.9 }, truth: () => 3.2, curves: false,
  },
};

/** @param {Api.Run | null | undefined} run */
export const shownOf = (run) => TASKS[run?.task ?? "binary"];
