// ROC, precision and recall, calibration.

import { clear, draw } from "./charts.js";
import { byId, note, setText } from "./dom.js";
import * as text from "./text.js";

const CURVES = { roc: roc, precision_recall: precisionRecall, calibration: calibration };

/** `view`: an answer of /api/view; `has`: the names of the curves that the window has. */
export function show(view, { has, task }) {
  // A task of many classes has no ROC curve; a binary one may lack it for want of scores.
  const names = Object.keys(CURVES).filter((name) => task === "binary" || has.includes(name));
  for (const name of Object.keys(CURVES)) byId(name).hidden = !names.includes(name);
  const absent = names.length < Object.keys(CURVES).length;
  note(byId("curves-note"), absent ? "ROC, precision and recall curves are about one class against another: tasks of more classes have none." : "");
  if (names.length === 0) return;
  setText(byId("curves-about"), text.about(view.window, { numbers: true }));
  for (const { curve, reason, columns } of names.map((name) => view.curves[name])) {
    const points = Object.values(columns)[0]?.length ?? 0;
    const chart = byId(`${curve}-chart`);
    chart.hidden = points === 0;
    note(byId(`${curve}-note`), points === 0 ? `None: ${text.visible(reason || "no points", 300)}.` : "");
    if (points === 0) clear(`${curve}-chart`);
    else CURVES[curve](columns, view.report);
  }
}

const unit = { range: [-0.02, 1.02], tickvals: [0, 0.2, 0.4, 0.6, 0.8, 1] };

function stepped(theme, x, y, about) {
  return {
    type: "scatter", mode: "lines", x, y, text: about, hovertemplate: "%{text}<extra></extra>",
    line: { color: theme.first, width: 2 },
  };
}

function dashed(theme, x, y) {
  return { type: "scatter", mode: "lines", x, y, hoverinfo: "skip", line: { color: theme.muted, width: 1, dash: "dot" } };
}

const at = (threshold) => (typeof threshold === "number" ? `<br>threshold ${text.value(threshold)}` : "");

function roc({ fpr, tpr, threshold }, report) {
  const area = report?.metrics.roc_auc?.value;
  const words = `ROC curve${typeof area === "number" ? `, area ${text.value(area)}` : ""}`;
  const about = fpr.map((x, n) => `false positive rate ${text.value(x)}<br>true positive rate ${text.value(tpr[n])}${at(threshold?.[n])}`);
  draw("roc-chart", words, (theme) => ({
    data: [dashed(theme, [0, 1], [0, 1]), stepped(theme, fpr, tpr, about)],
    layout: {
      xaxis: { ...unit, title: "false positive rate" }, yaxis: { ...unit, title: "true positive rate" },
      annotations: typeof area === "number" ? [corner(`area ${text.value(area)}`, theme, "right", 0.04)] : [],
    },
  }));
}

function precisionRecall({ precision, recall, threshold }, report) {
  const area = report?.metrics.average_precision?.value;
  const words = `Precision and recall${typeof area === "number" ? `, average precision ${text.value(area)}` : ""}`;
  const about = recall.map((x, n) => `recall ${text.value(x)}<br>precision ${text.value(precision[n])}${at(threshold?.[n])}`);
  draw("precision_recall-chart", words, (theme) => ({
    data: [stepped(theme, recall, precision, about)],
    layout: {
      xaxis: { ...unit, title: "recall" }, yaxis: { ...unit, title: "precision" },
      annotations: typeof area === "number" ? [corner(`average precision ${text.value(area)}`, theme, "left", 0.04)] : [],
    },
  }));
}

function calibration({ observed, predicted, weight, low, high }, report) {
  const error = report?.metrics.expected_calibration_error?.value;
  const words = `Calibration in ${text.plural(observed.length, "bin")}${typeof error === "number" ? `, expected calibration error ${text.value(error)}` : ""}`;
  const about = observed.map((share, n) =>
    `bin ${text.value(low?.[n])} to ${text.value(high?.[n])}<br>predicted ${text.value(predicted[n])}<br>came true ${text.value(share)}<br>${text.plural(weight?.[n] ?? 0, "event")}`);
  draw("calibration-chart", words, (theme) => ({
    data: [
      dashed(theme, [0, 1], [0, 1]),
      { ...stepped(theme, predicted, observed, about), mode: "lines+markers", marker: { size: 6, color: theme.first } },
      ...(weight ? [{
        type: "bar", yaxis: "y2", x: low && high ? low.map((from, n) => (from + high[n]) / 2) : predicted, y: weight,
        width: low && high ? low.map((from, n) => 0.92 * (high[n] - from)) : undefined,
        text: about, textposition: "none", hovertemplate: "%{text}<extra></extra>", marker: { color: theme.quiet },
      }] : []),
    ],
    layout: {
      xaxis: { ...unit, title: "predicted probability", anchor: weight ? "y2" : "y" },
      yaxis: { ...unit, title: "came true", domain: weight ? [0.3, 1] : [0, 1] },
      ...(weight ? { yaxis2: { title: "events", domain: [0, 0.2], rangemode: "tozero", nticks: 3 } } : {}),
      annotations: typeof error === "number" ? [corner(`expected error ${text.value(error)}`, theme, "left", 0.94)] : [],
    },
  }));
}

function corner(words, theme, side, height) {
  return {
    xref: "paper", yref: "paper", x: side === "left" ? 0.03 : 0.97, y: height, xanchor: side, yanchor: height > 0.5 ? "top" : "bottom",
    text: words, showarrow: false, font: { color: theme.text, size: 13 },
  };
}
