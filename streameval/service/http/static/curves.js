// @ts-check
// ROC, precision and recall, calibration.

import { clear, draw } from "./charts.js";
import { byId, hiddenNote, make, note, section, setText } from "./dom.js";
import * as text from "./text.js";

/** @typedef {import("./charts.js").Theme} Theme */
/** @typedef {Api.Curve["columns"]} Columns */

/** How each of the served curves is shown. */
const CURVES = {
  roc: {
    title: "ROC", picture: roc,
    about: "Share of positives found against share of negatives predicted positive, at every threshold.",
  },
  precision_recall: {
    title: "Precision and recall", picture: precisionRecall,
    about: "How many of those predicted positive are, against how many of the positives are found.",
  },
  calibration: {
    title: "Calibration", picture: calibration,
    about: "Observed frequency of the positive class against the predicted probability. Bars: events in each bin.",
  },
};
/** @typedef {keyof typeof CURVES} Name */

const articles = Object.entries(CURVES).map(([name, { title, about }]) =>
  make("article", { class: "panel", id: name },
    make("h3", {}, title), make("p", { class: "explain" }, about),
    hiddenNote(`${name}-note`), make("div", { id: `${name}-chart`, class: "chart square" })));

/** @type {Panel} */
export const panel = {
  node: section("curves", "Curves", { framed: false },
    hiddenNote("curves-note"), make("div", { class: "three" }, ...articles)),
  counted: true,
  draw: show,
};

/** @param {Api.ViewAnswer} view @param {Page} page */
function show(view, { status, chosen }) {
  const task = status.run?.task;
  const has = status.run?.curves[view.window.name] ?? [];
  // A multi-class task has no ROC curve; a binary one may lack it because no scores were given.
  const served = Object.values(view.curves).filter(({ curve }) => curve in CURVES);
  const shown = served.filter(({ curve }) => task === "binary" || has.includes(curve));
  for (const name of Object.keys(CURVES)) byId(name).hidden = !shown.some(({ curve }) => curve === name);
  const absent = shown.length < served.length;
  note(byId("curves-note"), !absent ? "" :
    "ROC, precision and recall curves are about one class against another: tasks of more classes have none.");
  if (shown.length === 0) return;
  setText(byId("curves-about"), text.about(view.window, { numbers: true, slice: chosen.slice }));
  for (const { curve, reason, columns } of shown) {
    const points = Object.values(columns)[0]?.length ?? 0;
    const chart = byId(`${curve}-chart`);
    chart.hidden = points === 0;
    note(byId(`${curve}-note`), points === 0 ? `None: ${text.visible(reason || "no points", 300)}.` : "");
    if (points === 0) clear(`${curve}-chart`);
    else CURVES[curve].picture(columns, view.report);
  }
}

const unit = { range: [-0.02, 1.02], tickvals: [0, 0.2, 0.4, 0.6, 0.8, 1] };

/** @param {Theme} theme @param {unknown[]} x @param {unknown[]} y @param {string[]} about */
function stepped(theme, x, y, about) {
  return {
    type: "scatter", mode: "lines", x, y, text: about, hovertemplate: "%{text}<extra></extra>",
    line: { color: theme.first, width: 2 },
  };
}

/** @param {Theme} theme @param {number[]} x @param {number[]} y */
function dashed(theme, x, y) {
  const line = { color: theme.muted, width: 1, dash: "dot" };
  return { type: "scatter", mode: "lines", x, y, hoverinfo: "skip", line };
}

/** @param {unknown} threshold */
const at = (threshold) => (typeof threshold === "number" ? `<br>threshold ${text.value(threshold)}` : "");

/** @param {Columns} columns @param {Api.Report} report */
function roc({ fpr, tpr, threshold }, report) {
  const area = report.metrics.roc_auc?.value;
  const words = `ROC curve${typeof area === "number" ? `, area ${text.value(area)}` : ""}`;
  const about = fpr.map((x, n) =>
    `false positive rate ${text.value(x)}<br>true positive rate ${text.value(tpr[n])}${at(threshold?.[n])}`);
  draw("roc-chart", words, (theme) => ({
    data: [dashed(theme, [0, 1], [0, 1]), stepped(theme, fpr, tpr, about)],
    layout: {
      xaxis: { ...unit, title: "false positive rate" }, yaxis: { ...unit, title: "true positive rate" },
      annotations: typeof area === "number" ? [corner(`area ${text.value(area)}`, theme, "right", 0.04)] : [],
    },
  }));
}

/** @param {Columns} columns @param {Api.Report} report */
function precisionRecall({ precision, recall, threshold }, report) {
  const area = report.metrics.average_precision?.value;
  const words = `Precision and recall${typeof area === "number" ? `, average precision ${text.value(area)}` : ""}`;
  const about = recall.map((x, n) =>
    `recall ${text.value(x)}<br>precision ${text.value(precision[n])}${at(threshold?.[n])}`);
  draw("precision_recall-chart", words, (theme) => ({
    data: [stepped(theme, recall, precision, about)],
    layout: {
      xaxis: { ...unit, title: "recall" }, yaxis: { ...unit, title: "precision" },
      annotations: typeof area === "number"
        ? [corner(`average precision ${text.value(area)}`, theme, "left", 0.04)] : [],
    },
  }));
}

/** @param {Columns} columns @param {Api.Report} report */
function calibration({ observed, predicted, weight, low, high }, report) {
  const error = report.metrics.expected_calibration_error?.value;
  const expected = typeof error === "number" ? `, expected calibration error ${text.value(error)}` : "";
  const words = `Calibration in ${text.plural(observed.length, "bin")}${expected}`;
  const about = observed.map((share, n) =>
    `bin ${text.value(low?.[n])} to ${text.value(high?.[n])}<br>predicted ${text.value(predicted[n])}` +
    `<br>observed ${text.value(share)}<br>${text.plural(weight?.[n] ?? 0, "event")}`);
  const bins = low.map((from, n) => ({ from: Number(from), to: Number(high[n]) }));
  draw("calibration-chart", words, (theme) => ({
    data: [
      dashed(theme, [0, 1], [0, 1]),
      { ...stepped(theme, predicted, observed, about), mode: "lines+markers", marker: { size: 6, color: theme.first } },
      {
        type: "bar", yaxis: "y2", x: bins.map(({ from, to }) => (from + to) / 2), y: weight,
        width: bins.map(({ from, to }) => 0.92 * (to - from)),
        text: about, textposition: "none", hovertemplate: "%{text}<extra></extra>", marker: { color: theme.quiet },
      },
    ],
    layout: {
      xaxis: { ...unit, title: "predicted probability", anchor: "y2" },
      yaxis: { ...unit, title: "observed frequency", domain: [0.3, 1] },
      yaxis2: { title: "events", domain: [0, 0.2], rangemode: "tozero", nticks: 3 },
      annotations: typeof error === "number"
        ? [corner(`expected error ${text.value(error)}`, theme, "left", 0.94)] : [],
    },
  }));
}

/** @param {string} words @param {Theme} theme @param {"left" | "right"} side @param {number} height */
function corner(words, theme, side, height) {
  return {
    xref: "paper", yref: "paper", x: side === "left" ? 0.03 : 0.97, y: height,
    xanchor: side, yanchor: height > 0.5 ? "top" : "bottom",
    text: words, showarrow: false, font: { color: theme.text, size: 13 },
  };
}
