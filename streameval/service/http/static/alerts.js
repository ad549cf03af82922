// @ts-check
// Every alert of the settings and its state, with the interval that it was judged by.

import { byId, make, section, setText } from "./dom.js";
import { sortable } from "./table.js";
import * as text from "./text.js";
import { intervalOf, percent, words } from "./whisker.js";

const ORDER = ["firing", "pending", "undefined", "ok"];

/** What has to be beyond the bound. @type {Record<Api.AlertState["when"], [name: string, meaning: string]>} */
const WHEN = {
  value: ["value", "Fires as soon as the value itself is beyond the bound, which chance may do"],
  certain: ["certain", "Fires only when the whole interval is beyond the bound"],
  anytime: ["anytime", "Fires only when the whole of an interval that may be looked at after every event is " +
    "beyond the bound: false alarms stay rare over the whole life of the alert"],
};

/** @type {Table<Api.AlertState>} */
const table = sortable({
  caption: "Alerts",
  columns: [
    {
      key: "state", name: "State", class: "why", value: (row) => ORDER.indexOf(row.state),
      cell: (row) => make("div", {},
        make("span", { class: "alert-state", "data-state": row.state }, row.state),
        row.reason ? make("small", { class: "stream" }, text.visible(row.reason, 200)) : null),
    },
    {
      key: "name", name: "Alert", class: "stream",
      value: (row) => row.name, cell: (row) => text.visible(row.name, 80),
    },
    {
      key: "metric", name: "Metric", value: (row) => row.metric,
      cell: (row) => (row.model ? `${row.metric} of ${text.visible(row.model, 80)}` : row.metric),
    },
    {
      key: "value", name: "Value", number: true, value: (row) => row.value, cell: (row) => text.value(row.value),
      reason: (row) => text.visible(row.reason || "no value", 300),
    },
    {
      key: "low", name: "Interval", number: true, title: "Of the value; sorted by its lower end",
      value: (row) => row.low, cell: interval, reason: () => "no interval",
      hint: (row) => (row.level === null ? undefined : `${percent(row.level)} interval (${row.method})`),
    },
    { key: "bound", name: "Fires", value: (row) => row.bound, cell: (row) => text.visible(row.bound, 60) },
    {
      key: "when", name: "When", title: "What has to be beyond the bound", value: (row) => row.when,
      cell: (row) => WHEN[row.when][0], hint: (row) => WHEN[row.when][1],
    },
    {
      key: "against", name: "Compared with", value: (row) => row.against,
      cell: (row) => text.visible(row.against || "the number", 80),
      hint: (row) => (row.against ? "Value and interval are of the difference: this is subtracted" : undefined),
    },
    { key: "window", name: "Window", value: (row) => row.window, cell: (row) => text.visible(row.window, 40) },
    {
      key: "slice", name: "Slice", class: "stream",
      value: (row) => row.slice, cell: affected,
    },
    {
      key: "support", name: "Support", number: true,
      value: (row) => row.support, cell: (row) => text.whole(row.support),
    },
    { key: "since", name: "Since", value: (row) => row.since, cell: (row) => text.time(row.since) },
  ],
  keyOf: (row) => row.name,
  empty: "The settings have no alerts.",
  sort: { key: "state", order: "asc" },
});

/** @param {Api.AlertState} row */
function interval(row) {
  const ends = intervalOf(row);
  return ends ? words(ends) : text.NOTHING;
}

/** The slice; of an alert on any slice, also those beyond its bound. @param {Api.AlertState} row */
export function affected({ slice, slices }) {
  const found = slices.slice(0, 5).map((name) => text.visible(name, 80));
  const more = slices.length > 5 ? [`and ${slices.length - 5} more`] : [];
  const named = found.length ? `: ${[...found, ...more].join(" · ")}` : "";
  return `${text.visible(slice || "all", 80)}${named}`;
}

/** @type {Panel} */
export const panel = {
  node: section("alerts", "Alerts", {}, make("div", { id: "alerts-table" }, table.node)),
  show({ snapshot: { alerts } }) {
    const firing = alerts.filter((alert) => alert.state === "firing").length;
    const about = `${text.whole(firing)} of ${text.whole(alerts.length)} firing`;
    setText(byId("alerts-about"), alerts.length === 0 ? "" : about);
    table.show(alerts);
  },
};
