// @ts-check
// What the page says of a run by its task.

import * as text from "./text.js";

/**
 * @typedef {object} Shown
 * @property {string} name
 * @property {(run: Api.Run) => string} labels what its labels are, in the header; empty without labels
 * @property {object} prediction the usual fields of a prediction, as an example
 * @property {(run: Api.Run | null) => unknown} truth that of a true label
 * @property {string[]} panels which of the panels that not every task has are shown
 * @property {string} without why some of its curves are not there; empty: those that are not say it themselves
 */

/** @type {Record<string, Shown>} */
const TASKS = {
  binary: {
    name: "Binary", labels: (run) => `positive class ${text.label(run.positive)}`,
    prediction: { score: 0.83 }, truth: (run) => run?.positive ?? true,
    panels: ["curves", "confusion"], without: "",
  },
  multiclass: {
    name: "Multi-class", labels: (run) => text.plural(run.classes, "class", "classes"),
    prediction: { y_pred: "cat" }, truth: () => "dog", panels: ["curves", "confusion"],
    without: "ROC, precision and recall curves are about one class against another: tasks of more classes have none.",
  },
  multilabel: {
    name: "Multi-label", labels: (run) => text.plural(run.classes, "label"),
    prediction: { score: { spam: 0.9, ad: 0.2 } }, truth: () => ["spam"],
    panels: ["by-label", "curves"], without: "Of sets of labels there are the curves of each label's scores.",
  },
  regression: {
    name: "Regression", labels: () => "", prediction: { y_pred: 2.9 }, truth: () => 3.2,
    panels: ["curves"],
    without: "Residuals, and actual against predicted numbers, are kept where evaluator.metrics names " +
      "median_absolute_error, residual_quantile or max_error.",
  },
};

/** @param {Api.Run | null | undefined} run */
export const shownOf = (run) => TASKS[run?.task ?? "binary"];

/** Whether a panel is of the run's task. @param {Api.Run | null | undefined} run @param {string} panel */
export const shows = (run, panel) => shownOf(run).panels.includes(panel);

/**
 * The label that curves are of, in a run of sets of labels: the first unless one is chosen.
 *
 * @param {Api.Run | null | undefined} run
 * @param {string | null} chosen
 */
export function labelOf(run, chosen) {
  if (!shows(run, "by-label")) return null;
  const [first] = run?.labels ?? [];
  return chosen ?? (first === undefined ? null : String(first));
}
