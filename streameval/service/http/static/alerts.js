// @ts-check
// Every alert of the settings and its state.

import { byId, make, section, setText } from "./dom.js";
import { sortable } from "./table.js";
import * as text from "./text.js";

const ORDER = ["firing", "pending", "undefined", "ok"];

/** @type {Table<Api.AlertState>} */
const table = sortable({
  caption: "Alerts",
  columns: [
    {
      key: "state", name: "State", value: (row) => ORDER.indexOf(row.state),
      cell: (row) => make("span", { class: "alert-state", "data-state": row.state }, row.state),
    },
    {
      key: "name", name: "Alert", class: "stream",
      value: (row) => row.name, cell: (row) => text.visible(row.name, 80),
    },
    { key: "metric", name: "Metric", value: (row) => row.metric, cell: (row) => row.metric },
    {
      key: "value", name: "Value", number: true, value: (row) => row.value, cell: (row) => text.value(row.value),
      reason: (row) => text.visible(row.reason || "no value", 300),
    },
    { key: "bound", name: "Fires", value: (row) => row.bound, cell: (row) => text.visible(row.bound, 60) },
    { key: "window", name: "Window", value: (row) => row.window, cell: (row) => text.visible(row.window, 40) },
    {
      key: "slice", name: "Slice", class: "stream",
      value: (row) => row.slice, cell: (row) => text.visible(row.slice || "all", 80),
    },
    {
      key: "support", name: "Support", number: true,
      value: (row) => row.support, cell: (row) => text.whole(row.support),
    },
    { key: "since", name: "Since", value: (row) => row.since, cell: (row) => text.time(row.since) },
    {
      key: "reason", name: "Why", class: "stream wide",
      value: (row) => row.reason, cell: (row) => text.visible(row.reason, 200),
    },
  ],
  keyOf: (row) => row.name,
  empty: "The settings have no alerts.",
  sort: { key: "state", order: "asc" },
});

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
