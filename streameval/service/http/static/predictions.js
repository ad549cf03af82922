// @ts-check
// What predictions say before their labels: volume and rates, scores and drift against a reference,
// and the metrics that are expected once the labels are there.

import { ask, Refused } from "./api.js";
import { clear, draw, legend } from "./charts.js";
import { byId, control, hiddenNote, make, note, options, section, setText, stat } from "./dom.js";
import { areas, stand, timesOf, traces } from "./over_time.js";
import { sortable } from "./table.js";
import * as text from "./text.js";
import { endsOf, intervalOf, words } from "./whisker.js";

/** @typedef {import("./charts.js").Theme} Theme */
/** @typedef {import("./over_time.js").Pane} Pane */
/**
 * What was found, and which of it is shown: null where there is none.
 *
 * @typedef {object} Found
 * @property {Api.PredictionReport} report
 * @property {string | null} measure of drift
 * @property {string | null} metric that is expected
 * @property {Api.SeriesAnswer | null} realised
 * @property {Page["meanings"]} meanings
 */
/** @typedef {Pane & { rate: number | null, drift: number | null, realised: number | null }} Row */

/** What the menus were set to. */
const wanted = { measure: "", metric: "" };

/** The first of the names that there is. @param {object} there @param {(string | null)[]} names */
const firstOf = (there, ...names) =>
  [...names, ...Object.keys(there)].find((name) => name !== null && Object.hasOwn(there, name)) ?? null;

const MEANINGS = /** @type {Record<string, string>} */ ({
  positive_rate: "Share of these predictions that are of the positive class",
  mean_score: "Mean of their scores",
  median_score: "Half of their scores are at most this",
  mean_confidence: "Mean probability of the predicted label",
});

/** @type {Table<Row>} */
const table = sortable({
  caption: "Predictions over time",
  columns: [],
  keyOf: (row) => row.start,
  empty: "No panes yet.",
  sort: { key: "start", order: "desc" },
});

/** @param {string} id @param {string} title @param {string} about @param {Node[]} controls @param {...Node} numbers */
const article = (id, title, about, controls, ...numbers) => make("article", { class: "panel", id },
  make("div", { class: "head" }, make("h3", {}, title), ...controls), make("p", { class: "explain" }, about),
  ...numbers, make("div", { id: `${id}-chart`, class: "chart" }));

const FAR = "How far the predictions are from the reference.";

const stats = () => make("dl", { class: "stats main" });

/** @type {Panel} */
export const panel = {
  node: section("predictions", "Predictions", { framed: false },
    make("p", { class: "explain" }, "Before their labels are there. How many labels have come, and how late: ",
      make("a", { href: "#labels" }, "Labels"), "."),
    hiddenNote("predictions-note"),
    make("div", { id: "predictions-body", hidden: true },
      make("div", { class: "two" },
        article("volume", "Volume", "How many there are.", [], stats()),
        article("scores", "Scores", "", []),
        article("drift", "Drift", FAR, [control("Measure", make("select", { id: "measure" }))], stats()),
        article("expected", "Expected metric", "Band: the value that is expected once the labels are there, if a " +
          "score means what it meant in the reference. Line: the value in panes whose labels have come.",
        [control("Expected", make("select", { id: "expected-metric" }))],
        stats(), make("p", { id: "expected-check" }))),
      make("details", { class: "more", id: "predictions-table" },
        make("summary", {}, "As a table"), make("div", {}, table.node)))),
  hidden: ({ status, snapshot }) => !status.run?.predictions || !snapshot.join?.predictions,
  start(page) {
    for (const [id, of] of /** @type {const} */ ([["measure", "measure"], ["expected-metric", "metric"]])) {
      const select = byId(id, HTMLSelectElement);
      select.addEventListener("change", () => {
        wanted[of] = select.value;
        page.reload("predictions");
      });
    }
  },
  loads: [{ id: "predictions", every: 2_000, load }],
};

/** @param {Page} page @param {AbortSignal} signal */
async function load({ chosen, status: { run }, meanings }, signal) {
  if (!run?.predictions) return;
  // As over time: of the first window of panes where the chosen one has none.
  const other = run.series.length > 0 && !run.series.includes(chosen.window ?? "");
  const query = { window: other ? run.series[0] : chosen.window, slice: chosen.slice, model: chosen.model || null };
  const found = await unlessMissing(chosen.slice, ask("/api/predictions", query, { signal }));
  byId("predictions-body").hidden = found instanceof Refused;
  if (found instanceof Refused) {
    return note(byId("predictions-note"), `It cannot be shown: ${text.visible(found.message, 300)}.`);
  }
  const { window, predictions: report } = found;
  if (report === null) return;
  const metric = firstOf(report.expected, wanted.metric, chosen.metric);
  const realised = metric === null || report.series === null ? null
    : await unlessMissing(chosen.slice, ask("/api/series/{metric}", { ...query, metric }, { signal }));
  setText(byId("predictions-about"), text.about(window, {
    numbers: true, slice: chosen.slice, model: run.models.length ? chosen.model || run.models[0] : "" }));
  note(byId("predictions-note"), [
    other ? `Window ${text.visible(chosen.window, 40)} has no panes; shown is ${text.visible(window.name, 40)}.` : "",
    ...sentences(report)].filter(Boolean).join(" "));
  const measure = firstOf(report.drift, wanted.measure);
  show({ report, measure, metric, realised: realised instanceof Refused ? null : realised, meanings });
}

/**
 * The answer; a slice that the window does not have is no error of the page.
 *
 * @template Answer
 * @param {string | null} slice
 * @param {Promise<Answer>} answer
 */
const unlessMissing = (slice, answer) => answer.catch((error) => {
  if (slice === null || !(error instanceof Refused && [400, 404].includes(error.status))) throw error;
  return error;
});

/** What the numbers are about and compared with. @param {Api.PredictionReport} report */
function sentences(report) {
  const { since, start, end, events, unlabelled, series, reference, reference_reason: reason } = report;
  const of = text.plural(unlabelled, "prediction");
  const shaded = start && end
    ? `Numbers and scores are of the ${of} from ${text.time(start)} to ${text.time(end)}, whose labels are still ` +
      "arriving; they are shaded." : "";
  const none = events === 0 ? "No predictions yet." : "No pane waits for labels.";
  return [
    shaded || (series === null ? `Numbers and scores are of all ${of}. A window of panes has them over time.` : none),
    reference ? `Reference: ${text.visible(reference, 200).replace(/\d{4}-[\d-]+T[\d:.]+Z/g, text.time)}.`
      : `No drift and no expected metric yet, as there is no reference: ${text.visible(reason, 300)}.`,
    since ? `Predictions are counted since ${text.time(since)}, by their time.`
      : "All predictions of the run are counted.",
  ];
}

/** @param {string} id @param {...HTMLElement} numbers */
const state = (id, ...numbers) => byId(id).querySelector("dl")?.replaceChildren(...numbers);

/** What an article explains. @param {string} id */
const explained = (id) => /** @type {Element} */ (byId(id).querySelector(".explain"));

/** @param {string} name @param {Api.Value} given */
function valued(name, given, meaning = MEANINGS[name] ?? name) {
  const ends = intervalOf(given);
  return stat(name, text.value(given.value), meaning,
    given.value === null ? text.visible(given.reason || "undefined", 300) : ends ? words(ends) : "");
}

/** Why an expected metric must not be believed; else empty. @param {Api.EstimateCheck} [check] */
const doubt = (check) => (check?.flagged ? `⚠ Do not believe it: ${text.visible(check.reason, 200)}` : "");

/** @param {Found} found */
function show(found) {
  const { report, measure, metric } = found;
  const { series, drift, expected, checks } = report;
  const doubts = Object.fromEntries(Object.keys(expected).map((name) => [name, doubt(checks[name])]));
  state("volume",
    stat("Predictions", text.whole(report.unlabelled), "Weight of the predictions that these numbers are about",
      report.events === report.unlabelled ? "" : `of ${text.whole(report.events)} in the window`),
    ...Object.entries(report.metrics).map(([name, given]) => valued(name, given)));
  scores(report.scores);

  byId("drift").hidden = measure === null;
  options(byId("measure", HTMLSelectElement), Object.keys(drift).map((name) => [name, name]), measure);
  if (measure !== null) {
    const moved = drift[measure];
    const why = text.visible(moved.reason || "undefined", 300);
    state("drift", stat(measure, text.value(moved.value), "Of these predictions from the reference",
      moved.value === null ? why : ""),
    stat("p", text.value(moved.p_value), "The chance of such a distance, or a larger one, where nothing has " +
      "drifted; of many events every distance is certain, however small",
    moved.value !== null && typeof moved.p_value !== "number" ? why : ""));
  }

  byId("expected").hidden = metric === null;
  /** @param {string} name */
  const named = (name) => (doubts[name] ? `${name} ⚠` : name);
  options(byId("expected-metric", HTMLSelectElement),
    Object.keys(doubts).map((name) => [name, named(name)]), metric);
  const check = byId("expected-check");
  if (metric !== null) {
    state("expected", valued(named(metric), expected[metric], found.meanings[metric]?.definition));
    const { panes = 0, held = 0, error = null } = checks[metric] ?? {};
    check.className = doubts[metric] ? "doubt" : "explain";
    setText(check, doubts[metric] ? `${doubts[metric]}. The mean of estimate less value is ${text.value(error)}.`
      : panes === 0 ? "No pane has shown yet whether the estimates hold."
        : `In ${text.whole(held)} of ${text.plural(panes, "pane")} whose labels have come the interval held the ` +
          `value; the mean of estimate less value is ${text.value(error)}.`);
  }

  for (const id of ["volume-chart", "drift-chart", "expected-chart", "predictions-table"]) {
    byId(id).hidden = series === null;
  }
  if (series === null) return ["volume-chart", "drift-chart", "expected-chart"].forEach(clear);
  overTime(found, series, metric === null ? "" : doubts[metric]);
}

/** @param {Found} found @param {Api.PredictionSeries} series @param {string} mark why the estimate is doubtful */
function overTime({ report, measure, metric, realised, meanings }, series, mark) {
  const [rate] = Object.keys(series.metrics);
  const labelled = new Map((realised?.start ?? []).map((start, n) => [start, realised?.values[n] ?? null]));
  /** @param {(number | null)[] | undefined} values @param {Partial<Pane>} same @returns {Pane[]} */
  const panes = (values, same = {}) => series.start.map((start, n) => ({
    start, end: series.end[n], value: values?.[n] ?? null, ends: null, support: series.events[n],
    immature: series.immature[n], ...same }));
  setText(explained("volume"), `How many there are${rate ? `, as bars, and their ${rate}, as a line` : ""}.`);
  const rates = panes(series.metrics[rate], { immature: false });
  const drifts = panes(series.drift[measure ?? ""], { immature: false });
  const name = metric ?? "";
  const estimates = panes(series.expected[name]).map((pane, n) => (
    { ...pane, ends: endsOf(series.low[name]?.[n], series.high[name]?.[n]) }));
  const values = panes(series.start.map((start, n) => (series.immature[n] ? null : labelled.get(start) ?? null)));

  table.show(estimates.map((pane, n) => (
    { ...pane, rate: rates[n].value, drift: drifts[n].value, realised: values[n].value })), {
    columns: columnsOf(rate, { measure, metric, mark }) });
  const shown = { report, series };
  const first = series.start.length ? `, from ${text.time(series.start[0])}` : "";
  const over = `over ${text.plural(series.start.length, "pane")}${first}`;
  draw("volume-chart", `Predictions ${over}: last ${text.plural(series.events.at(-1) ?? 0, "prediction")}` +
    (rate ? `, ${rate} ${text.value(rates.at(-1)?.value)}` : ""), (theme) => {
    const times = rates.map(timesOf);
    const bars = {
      type: "bar", x: times.map((one) => one.middle), width: times.map((one) => 0.9 * one.length), yaxis: "y2",
      y: series.events, marker: { color: theme.quiet }, showlegend: false, textposition: "none",
      text: rates.map(({ start, support }) => `${text.time(start)}<br>${text.plural(support, "prediction")}`),
      hovertemplate: "%{text}<extra></extra>",
    };
    return timed([bars, ...(rate ? line("", 0, rates, theme) : [])], rate, shown, theme);
  });
  const far = drifts.flatMap((pane) => pane.value ?? []);
  // Not every measure is computed of each pane, and the oldest panes come last.
  const perPane = measure !== null && far.length > 0;
  setText(explained("drift"), `${FAR} ${perPane
    ? "Line: those of each pane; a pane of the reference itself has none." : "No pane has this measure now."}`);
  byId("drift-chart").hidden = !perPane;
  if (!perPane) clear("drift-chart");
  else {
    draw("drift-chart", `${measure} ${over}: at most ${text.value(Math.max(...far))}, last ${text.value(far.at(-1))}`,
      (theme) => timed(line("", 0, drifts, theme), measure, shown, theme));
  }
  const last = estimates.findLast((pane) => pane.value !== null);
  if (metric === null) return clear("expected-chart");
  draw("expected-chart", `Expected ${metric} ${over}: ` + (last
    ? `last ${text.value(last.value)}${last.ends ? ` ${words(last.ends)}` : ""}` : "undefined in every pane") +
    (mark && `. ${mark}`), (theme) => {
    const band = {
      type: "scatter", mode: "lines", ...areas(estimates, estimates.map(timesOf)), fill: "toself",
      fillcolor: theme.band, line: { width: 0 }, hoverinfo: "skip", showlegend: false,
    };
    const both = [...line("expected", 0, estimates, theme), ...line("value with labels", 1, values, theme)];
    const range = meanings[metric]?.direction === "down" ? " (less is better)" : "";
    return timed([band, ...both], metric + range, shown, theme, true);
  });
}

/** @param {string} model @param {number} number @param {Pane[]} panes @param {Theme} theme */
const line = (model, number, panes, theme) => traces({ model, number, panes }, model !== "", theme);

/**
 * A chart over the panes, on the same axis as the others; those whose labels are still arriving are shaded.
 *
 * @param {any[]} data
 * @param {string | undefined} title of what stands above bars; none where there are only bars
 * @param {{ report: Api.PredictionReport, series: Api.PredictionSeries }} shown
 * @param {Theme} theme
 */
function timed(data, title, { report: { start, end }, series }, theme, showlegend = false) {
  const bars = data.some((one) => one.yaxis === "y2");
  const shaded = start && end ? [{
    type: "rect", xref: "x", yref: "paper", x0: stand(start), x1: stand(end), y0: 0, y1: 1, layer: "below",
    line: { width: 0 }, fillcolor: theme.line, opacity: 0.4,
  }] : [];
  const whole = series.start.length ? { range: [series.start[0], series.end.at(-1) ?? ""].map(stand) } : {};
  return {
    data,
    layout: {
      xaxis: { type: "date", showgrid: false, tickangle: 0, ...whole, ...(bars && { anchor: "y2" }) },
      yaxis: { title: text.plain(title ?? ""), nticks: 5, ...(bars && { domain: [0.55, 1], visible: Boolean(title) }) },
      ...(bars && {
        yaxis2: { title: "predictions", domain: [0, title ? 0.45 : 1], rangemode: "tozero", nticks: 4 },
      }),
      shapes: shaded, hovermode: "closest", showlegend, legend: legend(theme), uirevision: title,
    },
  };
}

/**
 * @param {string | undefined} rate
 * @param {{ measure: string | null, metric: string | null, mark: string }} shown
 * @returns {Column<Row>[]}
 */
function columnsOf(rate, { measure, metric, mark }) {
  /** @param {keyof Row & ("rate" | "drift" | "value" | "realised")} key @param {string} name @param {string} reason */
  const number = (key, name, reason, title = "") => ({
    key, name, number: true, title, value: (/** @type {Row} */ row) => row[key],
    cell: (/** @type {Row} */ row) => text.value(row[key]), reason: () => reason,
  });
  const undefinedHere = "undefined in this pane, a pane of the reference, or not computed yet";
  return [
    { key: "start", name: "From", value: (row) => row.start, cell: (row) => text.time(row.start) },
    { key: "end", name: "To", value: (row) => row.end, cell: (row) => text.time(row.end) },
    {
      key: "support", name: "Predictions", number: true, value: (row) => row.support,
      cell: (row) => text.whole(row.support),
    },
    ...(rate ? [number("rate", rate, "undefined for the predictions of this pane")] : []),
    ...(measure !== null ? [number("drift", measure, undefinedHere)] : []),
    ...(metric !== null ? [
      number("value", `Expected ${metric}${mark && " ⚠"}`, undefinedHere, mark),
      {
        key: "low", name: "Interval", number: true, title: "Sorted by its lower end",
        value: (/** @type {Row} */ row) => row.ends?.low ?? null,
        cell: (/** @type {Row} */ row) => (row.ends ? words(row.ends) : text.NOTHING), reason: () => "no interval",
      },
      number("realised", metric, "labels are still arriving, or undefined for those that have come"),
    ] : []),
    {
      key: "immature", name: "Labels", value: (row) => String(row.immature),
      cell: (row) => (row.immature ? "still coming in" : "complete"),
    },
  ];
}

/**
 * Outlines of the scores now and of the reference; of several classes bars of the predicted labels.
 *
 * @param {Api.ScoreShares} found
 */
function scores({ edges, labels, now, reference }) {
  const ofLabels = labels.length > 0;
  const title = ofLabels ? "Predicted labels" : "Scores";
  setText(/** @type {Element} */ (byId("scores").querySelector("h3")), title);
  setText(explained("scores"), now.length === 0 ? "There are none yet."
    : `Share of the predictions ${ofLabels ? "by label" : `in ${now.length} bins of their scores`}` +
      `${reference.length ? ", now and in the reference" : ""}.`);
  byId("scores-chart").hidden = now.length === 0;
  byId("scores-chart").dataset.size = labels.length > 10 ? "large" : "small";
  if (now.length === 0) return clear("scores-chart");
  const bins = now.map((_, n) => (ofLabels ? text.visible(text.short(labels[n], 40))
    : `${text.value(edges[n])} to ${text.value(edges[n + 1])}`));
  const largest = now.indexOf(Math.max(...now));
  const summary = `${title}: most often ${bins[largest]}, ` +
    `${text.percent(now[largest])}${reference.length ? `, in the reference ${text.percent(reference[largest])}` : ""}`;
  draw("scores-chart", summary, (theme) => {
    const about = bins.map((bin, n) => `${text.plain(bin)}<br>now ${text.percent(now[n])}` +
      (reference.length ? `<br>reference ${text.percent(reference[n])}` : ""));
    const both = [{ name: "now", shares: now, color: theme.first }]
      .concat(reference.length ? [{ name: "reference", shares: reference, color: theme.second }] : []);
    return {
      data: both.map(({ name, shares, color }, n) => ({
        name, hovertemplate: "%{text}<extra></extra>", text: about,
        ...(ofLabels ? { type: "bar", orientation: "h", x: shares, y: shares.map((_, at) => at), textposition: "none",
          marker: { color } } : {
          // The last bin ends where its upper edge is.
          type: "scatter", mode: "lines", x: edges, y: [...shares, shares.at(-1)],
          line: { color, width: 2, shape: "hv", dash: n ? "6px,3px" : "solid" },
          ...(n === 0 && { fill: "tozeroy", fillcolor: theme.band }),
        }),
      })),
      layout: {
        ...(ofLabels ? {
          xaxis: { title: "share", rangemode: "tozero", tickformat: ".0%" },
          yaxis: { autorange: "reversed", showgrid: false, tickvals: labels.map((_, n) => n),
            ticktext: labels.map((one) => text.plain(text.short(one, 18))) },
        } : {
          xaxis: { title: "score", showgrid: false }, yaxis: { title: "share", rangemode: "tozero", tickformat: ".0%" },
        }),
        barmode: "group", hovermode: ofLabels ? "closest" : "x", showlegend: both.length > 1,
        legend: legend(theme),
      },
    };
  });
}
