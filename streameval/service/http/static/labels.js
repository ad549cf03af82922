// @ts-check
// Which predictions have got their label, how long that took, and what went amiss.

import { ask } from "./api.js";
import { clear, draw, legend } from "./charts.js";
import { byId, hiddenNote, make, note, section, setText, stat } from "./dom.js";
import { stand } from "./over_time.js";
import { sortable } from "./table.js";
import * as text from "./text.js";

/** @type {[key: "joined" | keyof Api.JoinCounts, name: string, meaning: string][]} */
const COUNTS = [
  ["predictions", "Predictions", "Predictions that arrived, each id once"],
  ["labels", "Labels", "Labels that arrived, each id once"],
  ["joined", "Joined", "Predictions that have found their label and are counted"],
  ["waiting", "Waiting", "Predictions whose label may still arrive"],
  ["labels_waiting", "Labels waiting", "Labels whose prediction may still arrive"],
  ["expired", "Never labelled", "Predictions whose label did not arrive within join.wait"],
  ["orphans", "Orphans", "Labels whose prediction did not arrive in time"],
  ["partial_labels", "Labels of open sets", "Labels that were added to a set before it was final"],
  ["too_late", "Too late", "Labels that arrived too long after their prediction to count"],
  ["duplicate_predictions", "Repeated predictions", "Predictions of an id that had one; the first counts"],
  ["duplicate_labels", "Repeated labels", "Labels that said again what was known"],
  ["corrected", "Corrected", "Labels that changed; the event was taken back and counted anew"],
];

/** @type {Table<Api.Cohort>} */
const table = sortable({
  caption: "Cohorts",
  columns: [
    { key: "start", name: "From", value: (row) => row.start, cell: (row) => text.time(row.start) },
    { key: "end", name: "To", value: (row) => row.end, cell: (row) => text.time(row.end) },
    {
      key: "predictions", name: "Predictions", number: true,
      value: (row) => row.predictions, cell: (row) => text.whole(row.predictions),
    },
    {
      key: "labelled", name: "Labelled", number: true,
      value: (row) => row.labelled, cell: (row) => text.whole(row.labelled),
    },
    {
      key: "expired", name: "Never labelled", number: true,
      value: (row) => row.expired, cell: (row) => text.whole(row.expired),
    },
    {
      key: "coverage", name: "Coverage", number: true,
      value: (row) => row.coverage, cell: (row) => text.percent(row.coverage), reason: () => "no predictions",
    },
    {
      key: "immature", name: "State", value: (row) => String(row.immature),
      cell: (row) => (row.immature ? "immature" : "complete"),
    },
  ],
  keyOf: (row) => row.start,
  empty: "No cohorts yet.",
  sort: { key: "start", order: "desc" },
});

const meanings = COUNTS.map(([, name, meaning]) => make("div", {}, make("dt", {}, name), make("dd", {}, meaning)));

/** @type {Panel} */
export const panel = {
  node: section("labels", "Labels", { framed: false },
    hiddenNote("labels-note"),
    make("div", { class: "two", id: "labels-body" },
      make("article", { class: "panel" },
        make("h3", {}, "Coverage and delay"),
        make("dl", { id: "labels-main", class: "stats main" }),
        make("dl", { id: "labels-counts", class: "stats" }),
        make("details", { class: "more" },
          make("summary", {}, "What these numbers mean"),
          make("dl", { id: "labels-meaning", class: "meaning" }, ...meanings))),
      make("article", { class: "panel" },
        make("h3", {}, "Cohorts"),
        make("p", { class: "explain" },
          "Predictions by their time: how many have their label, how many still wait, how many never got one in time."),
        hiddenNote("cohorts-note"),
        make("div", { id: "cohorts-chart", class: "chart" }),
        make("details", { class: "more", id: "cohorts-table" },
          make("summary", {}, "As a table"), make("div", {}, table.node))))),
  hidden: ({ snapshot: { checkpoint, join } }) =>
    checkpoint.events === 0 && (join === null || join.predictions + join.labels === 0),
  show: ({ snapshot }) => show(snapshot.join),
  loads: [{ id: "labels", every: 3_000, load: (page, signal) => refresh(signal) }],
};

/** The counts, of every snapshot. @param {Api.JoinCounts | null} join */
function show(join) {
  note(byId("labels-note"), join ? "" : "Every record brings its label with it: nothing is joined in this run.");
  byId("labels-body").hidden = !join;
  if (!join) return setText(byId("labels-about"), "");
  setText(byId("labels-about"), "since the run's store began");
  const { delay, coverage } = join;
  const error = text.percent(delay.relative_error, 0);
  const within = delay.relative_error ? `, within ${error}` : "";
  /** @param {string} part */
  const late = (part) => `${part} of the labels arrived within this time after their prediction${within}`;
  byId("labels-main").replaceChildren(
    stat("Label coverage", text.percent(coverage),
      "Share of the newest mature predictions that have a label; mature are those whose label can no longer arrive",
      typeof coverage === "number" ? over(join.mature) : text.visible(join.coverage_reason, 200)),
    stat("Delay p50", text.duration(delay.p50), late("Half")),
    stat("p95", text.duration(delay.p95), late("95 %")),
    stat("p99", text.duration(delay.p99), late("99 %"), within && delay.p99 !== null ? `delays within ± ${error}` : ""),
  );
  byId("labels-counts").replaceChildren(
    ...COUNTS.filter(([key]) => key !== "partial_labels" || join[key])
      .map(([key, name, meaning]) => stat(name, text.whole(join[key]), meaning)));
}

/** What coverage is measured over. @param {Api.Mature} mature */
function over({ start, end, predictions }) {
  const span = start && end ? `, ${text.time(start)} – ${text.shortTime(end, Date.parse(start))}` : "";
  return text.plural(predictions, "prediction") + span;
}

/** The cohorts, which the stream leaves out. @param {AbortSignal} signal */
async function refresh(signal) {
  const { join } = await ask("/api/join", {}, { signal });
  const cohorts = join?.cohorts ?? [];
  table.show(cohorts);
  byId("cohorts-chart").hidden = byId("cohorts-table").hidden = cohorts.length === 0;
  note(byId("cohorts-note"), cohorts.length === 0 ? "No predictions yet." : "");
  if (cohorts.length === 0) return clear("cohorts-chart");
  const young = cohorts.filter((cohort) => cohort.immature).length;
  const waits = young ? `; ${young} still wait for labels` : "";
  const summary = `${text.plural(cohorts.length, "cohort")} of predictions${waits}`;
  draw("cohorts-chart", summary, (theme) => picture(cohorts, theme));
}

/** @param {Api.Cohort[]} cohorts @param {import("./charts.js").Theme} theme */
function picture(cohorts, theme) {
  const about = cohorts.map((one) =>
    `${text.time(one.start)} – ${text.shortTime(one.end, Date.parse(one.start))}` +
    `<br>${text.percent(one.coverage)} labelled of ${text.plural(one.predictions, "prediction")}` +
    `<br>${text.whole(waiting(one))} waiting · ${text.whole(one.expired)} never labelled` +
    (one.immature ? "<br>immature" : ""));
  const hatched = { fillmode: "overlay", fgcolor: theme.panel, fgopacity: 0.6, size: 6, solidity: 0.3 };
  /** @param {string} name @param {number[]} counts @param {string} color @param {string} [shape] */
  const bars = (name, counts, color, shape) => ({
    type: "bar", name, x: cohorts.map((one) => stand(one.start)), y: counts, text: about, textposition: "none",
    hovertemplate: "%{text}<extra></extra>", offset: 0,
    width: cohorts.map((one) => 0.88 * (Date.parse(one.end) - Date.parse(one.start))),
    marker: { color, pattern: shape ? { shape, ...hatched } : undefined },
  });
  return {
    data: [
      bars("labelled", cohorts.map((one) => one.labelled), theme.first),
      bars("waiting", cohorts.map(waiting), theme.quiet),
      bars("never labelled", cohorts.map((one) => one.expired), theme.second, "/"),
    ],
    layout: {
      barmode: "stack", showlegend: true,
      legend: legend(theme),
      xaxis: { type: "date", showgrid: false, tickangle: 0 }, yaxis: { title: "predictions", rangemode: "tozero" },
      hovermode: "closest",
    },
  };
}

/** @param {Api.Cohort} cohort */
const waiting = (cohort) => Math.max(0, cohort.predictions - cohort.labelled - cohort.expired);
