// @ts-check
// ROC, precision and recall, calibration; of numbers their residuals, and true against predicted.

import { clear, draw, legend, lineOf } from "./charts.js";
import { byId, control, hiddenNote, make, note, options, section, setText } from "./dom.js";
import { labelOf, shownOf, shows } from "./tasks.js";
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
  residuals: {
    title: "Residuals", picture: residuals,
    about: "Events by what their true number is above the predicted one; left of 0 predictions are too high.",
  },
  actual_vs_predicted: {
    title: "Actual against predicted", picture: actualVsPredicted,
    about: "Events by both numbers, the more the stronger. Above the dotted line predictions are too low.",
  },
};
/** @typedef {keyof typeof CURVES} Name */

const articles = Object.entries(CURVES).map(([name, { title, about }]) =>
  make("article", { class: "panel", id: name },
    make("h3", {}, title), make("p", { class: "explain" }, about),
    hiddenNote(`${name}-note`), make("div", { id: `${name}-chart`, class: "chart square" })));

const select = make("select", {});
const label = control("Label", select);
label.id = "curves-label";

/** @type {Panel} */
export const panel = {
  node: section("curves", "Curves", { framed: false, controls: [label] },
    hiddenNote("curves-note"), make("div", { class: "three" }, ...articles)),
  counted: true,
  hidden: ({ status }) => !shows(status.run, "curves"),
  start(page) {
    select.addEventListener("change", () => page.chooseLabel(select.value));
  },
  show({ status, chosen }) {
    const label = labelOf(status.run, chosen.label);
    byId("curves-label").hidden = label === null;
    const names = new Set([...(status.run?.labels ?? []).map(String), ...(label === null ? [] : [label])]);
    options(select, [...names].map((name) => [name, text.visible(name, 60)]), label);
  },
  draw: show,
};

/** @param {Api.ViewAnswer} view @param {Page} page */
function show(view, { status, chosen, views }) {
  const { without } = shownOf(status.run);
  const has = status.run?.curves[view.window.name] ?? [];
  // A multi-class task has no ROC curve; a binary one may lack it because no scores were given.
  const served = Object.values(view.curves).filter(({ curve }) => curve in CURVES);
  const shown = served.filter(({ curve, columns }) => (
    without === "" || has.includes(curve) || Object.keys(columns).length > 0));
  for (const name of Object.keys(CURVES)) byId(name).hidden = !shown.some(({ curve }) => curve === name);
  const absent = shown.length < served.length;
  note(byId("curves-note"), absent ? without : "");
  if (shown.length === 0) return;
  const model = views.length > 1 ? "all models" : views[0].model;
  setText(byId("curves-about"), text.about(view.window, { numbers: true, slice: chosen.slice, model }));
  for (const { curve, reason } of shown) {
    const all = views.map((one) => ({
      number: Math.max(0, status.run?.models.indexOf(one.model) ?? 0), name: text.visible(one.model, 40),
      report: one.view.report, columns: one.view.curves[curve].columns,
    })).filter(({ columns }) => Object.values(columns)[0]?.length);
    byId(`${curve}-chart`).hidden = all.length === 0;
    note(byId(`${curve}-note`), all.length ? "" : `None: ${text.visible(reason || "no points", 300)}.`);
    if (all.length === 0) clear(`${curve}-chart`);
    else CURVES[curve].picture(all);
  }
}

/** A model's curve. @typedef {{ number: number, name: string, report: Api.Report, columns: Columns }} Drawn */

/** @typedef {{ metric: string, words: string }} Measure */

/**
 * What a curve's area or error is, in words; empty where it is undefined.
 *
 * @param {Drawn} one
 * @param {Measure} measure
 */
function measured({ report }, { metric, words }) {
  const value = report.metrics[metric]?.value;
  return typeof value === "number" ? `${words} ${text.value(value)}` : "";
}

/** The chart in words: of several models each. @param {string} title @param {Drawn[]} all @param {Measure} measure */
function summary(title, all, measure) {
  if (all.length === 1) return [title, measured(all[0], measure)].filter(Boolean).join(", ");
  return `${title} of ${text.plural(all.length, "model")}: ` +
    all.map((one) => [one.name, measured(one, measure)].filter(Boolean).join(" ")).join("; ");
}

/**
 * What of one model stands in a corner; of several it is in the legend.
 *
 * @param {Drawn[]} all
 * @param {Measure} measure
 * @param {Theme} theme
 * @param {"left" | "right"} side
 * @param {number} height
 */
function named(all, measure, theme, side, height) {
  if (all.length > 1) return { showlegend: true, legend: legend(theme) };
  const words = measured(all[0], measure);
  return { annotations: words ? [corner(words, theme, side, height)] : [] };
}

const unit = { range: [-0.02, 1.02], tickvals: [0, 0.2, 0.4, 0.6, 0.8, 1] };

/**
 * @param {Theme} theme
 * @param {Drawn} one
 * @param {Measure} measure
 * @param {unknown[]} x
 * @param {unknown[]} y
 * @param {string[]} about
 */
function stepped(theme, one, measure, x, y, about) {
  const whose = one.name ? `${text.plain(one.name)}<br>` : "";
  return {
    type: "scatter", mode: "lines", x, y, text: about.map((words) => whose + words),
    hovertemplate: "%{text}<extra></extra>", line: lineOf(theme, one.number),
    name: text.plain([one.name, measured(one, measure)].filter(Boolean).join(" ")),
  };
}

/** @param {Theme} theme @param {number[]} x @param {number[]} y */
function dashed(theme, x, y) {
  const line = { color: theme.muted, width: 1, dash: "dot" };
  return { type: "scatter", mode: "lines", x, y, hoverinfo: "skip", line, showlegend: false };
}

/** @param {unknown} threshold */
const at = (threshold) => (typeof threshold === "number" ? `<br>threshold ${text.value(threshold)}` : "");

/** @param {Drawn[]} all */
function roc(all) {
  const measure = { metric: "roc_auc", words: "area" };
  draw("roc-chart", summary("ROC curve", all, measure), (theme) => ({
    data: [dashed(theme, [0, 1], [0, 1]), ...all.map((one) => {
      const { fpr, tpr, threshold } = one.columns;
      return stepped(theme, one, measure, fpr, tpr, fpr.map((x, n) =>
        `false positive rate ${text.value(x)}<br>true positive rate ${text.value(tpr[n])}${at(threshold?.[n])}`));
    })],
    layout: {
      xaxis: { ...unit, title: "false positive rate" }, yaxis: { ...unit, title: "true positive rate" },
      ...named(all, measure, theme, "right", 0.04),
    },
  }));
}

/** @param {Drawn[]} all */
function precisionRecall(all) {
  const measure = { metric: "average_precision", words: "average precision" };
  draw("precision_recall-chart", summary("Precision and recall", all, measure), (theme) => ({
    data: all.map((one) => {
      const { precision, recall, threshold } = one.columns;
      return stepped(theme, one, measure, recall, precision, recall.map((x, n) =>
        `recall ${text.value(x)}<br>precision ${text.value(precision[n])}${at(threshold?.[n])}`));
    }),
    layout: {
      xaxis: { ...unit, title: "recall" }, yaxis: { ...unit, title: "precision" },
      ...named(all, measure, theme, "left", 0.04),
    },
  }));
}

/** @param {Drawn[]} all */
function calibration(all) {
  const measure = { metric: "expected_calibration_error", words: "expected error" };
  const title = `Calibration in ${text.plural(all[0].columns.observed.length, "bin")}`;
  draw("calibration-chart", summary(title, all, measure), (theme) => ({
    data: [dashed(theme, [0, 1], [0, 1]), ...all.flatMap((one, place) => {
      const { observed, predicted, weight, low, high } = one.columns;
      const about = observed.map((share, n) =>
        `bin ${text.value(low?.[n])} to ${text.value(high?.[n])}<br>predicted ${text.value(predicted[n])}` +
        `<br>observed ${text.value(share)}<br>${text.plural(weight?.[n] ?? 0, "event")}`);
      const line = stepped(theme, one, measure, predicted, observed, about);
      // The bars of several models stand beside each other in their bin.
      const widths = low.map((from, n) => 0.92 * (Number(high[n]) - Number(from)) / all.length);
      return [{ ...line, mode: "lines+markers", marker: { size: 6, color: line.line.color } }, {
        type: "bar", yaxis: "y2", y: weight, width: widths, showlegend: false,
        x: low.map((from, n) => (Number(from) + Number(high[n])) / 2 + (place - (all.length - 1) / 2) * widths[n]),
        text: line.text, textposition: "none", hovertemplate: "%{text}<extra></extra>",
        marker: { color: all.length > 1 ? line.line.color : theme.quiet },
      }];
    })],
    layout: {
      xaxis: { ...unit, title: "predicted probability", anchor: "y2" },
      yaxis: { ...unit, title: "observed frequency", domain: [0.3, 1] },
      yaxis2: { title: "events", domain: [0, 0.2], rangemode: "tozero", nticks: 3 }, barmode: "overlay",
      ...named(all, measure, theme, "left", 0.94),
    },
  }));
}

/** @param {Drawn[]} all */
function residuals([{ columns: { low, high, events } }]) {
  const about = events.map((count, n) => `${text.value(low[n])} to ${text.value(high[n])}<br>` +
    text.plural(count ?? 0, "event"));
  const words = `Residuals from ${text.value(low[0])} to ${text.value(high.at(-1))}`;
  draw("residuals-chart", words, (theme) => ({
    data: [{
      type: "bar", x: low.map((from, n) => (Number(from) + Number(high[n])) / 2), y: events,
      width: low.map((from, n) => 0.92 * (Number(high[n]) - Number(from))),
      text: about, textposition: "none", hovertemplate: "%{text}<extra></extra>", marker: { color: theme.first },
    }],
    layout: {
      xaxis: { title: "true less predicted", zeroline: true, zerolinecolor: theme.muted },
      yaxis: { title: "events", rangemode: "tozero" },
    },
  }));
}

/** @param {Drawn[]} all */
function actualVsPredicted([{ columns }]) {
  const ends = columns.true_high.concat(columns.predicted_high).map(Number);
  // The last square ends at the largest float.
  const width = Math.max(...columns.true_low.concat(columns.predicted_low).map((low, n) => ends[n] - Number(low)));
  const [rows, across] = [steps(columns.true_low, width), steps(columns.predicted_low, width)];
  /** @type {(number | null)[][]} */
  const shares = rows.map(() => across.map(() => null));
  const about = rows.map(() => across.map(() => ""));
  columns.events.forEach((count, n) => {
    const row = stepOf(rows, width, columns.true_low[n]);
    const column = stepOf(across, width, columns.predicted_low[n]);
    shares[row][column] = Math.log1p(count ?? 0);
    const [actual, predicted] = ["true", "predicted"].map((name) =>
      `${text.value(columns[`${name}_low`][n])} to ${text.value(columns[`${name}_high`][n])}`);
    about[row][column] = `actual ${actual}<br>predicted ${predicted}<br>${text.plural(count ?? 0, "event")}`;
  });
  const line = [Math.max(rows[0], across[0]), Math.min(rows[rows.length - 1], across[across.length - 1])];
  const words = `Actual against predicted numbers in ${text.plural(columns.events.length, "square")}, ` +
    `actual from ${text.value(rows[0] - width / 2)} to ${text.value(rows[rows.length - 1] + width / 2)}`;
  draw("actual_vs_predicted-chart", words, (theme) => ({
    data: [{
      type: "heatmap", z: shares, x: across, y: rows, text: about, hoverongaps: false,
      // A square with one event is seen too.
      zmin: -0.15 * Math.log1p(Math.max(...columns.events.map(Number))),
      // Without gaps Plotly takes a quicker way that writes a style attribute.
      colorscale: theme.ramp, showscale: false, xgap: 0.01, ygap: 0.01, hovertemplate: "%{text}<extra></extra>",
    }, dashed(theme, line, line)],
    layout: { xaxis: { title: "predicted" }, yaxis: { title: "actual" } },
  }));
}

/** The middles of the squares along an axis. @param {Columns[string]} low @param {number} width */
function steps(low, width) {
  const edges = low.map(Number);
  const [first, last] = [Math.min(...edges), Math.max(...edges)];
  const count = Math.round(last / width - first / width) + 1;
  return Array.from({ length: count }, (_, n) => first + (n + 0.5) * width);
}

/** @param {number[]} middles @param {number} width @param {number | null} low */
const stepOf = (middles, width, low) => Math.round(Number(low) / width - middles[0] / width + 0.5);

/** @param {string} words @param {Theme} theme @param {"left" | "right"} side @param {number} height */
function corner(words, theme, side, height) {
  return {
    xref: "paper", yref: "paper", x: side === "left" ? 0.03 : 0.97, y: height,
    xanchor: side, yanchor: height > 0.5 ? "top" : "bottom",
    text: words, showarrow: false, font: { color: theme.text, size: 13 },
  };
}
