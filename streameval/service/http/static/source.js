// @ts-check
// How far each partition of the source has been read.

import { byId, make, section, setText } from "./dom.js";
import { sortable } from "./table.js";
import * as text from "./text.js";

/** @param {Api.Partition["position"]} given */
function position(given) {
  if (given === null) return text.NOTHING;
  return Object.entries(given).map(([key, one]) =>
    `${text.visible(key, 40)} ${typeof one === "number" ? text.whole(one) : text.visible(one, 80)}`).join(", ");
}

/** Why it cannot be read, and what was left out; empty where all is well. @param {Api.Partition} row */
function state(row) {
  return [row.problem, row.missed].filter(Boolean).join("; ");
}

/** @type {Table<Api.Partition>} */
const table = sortable({
  caption: "Partitions of the source",
  columns: [
    {
      key: "partition", name: "Partition", class: "stream", value: (row) => row.partition,
      cell: (row) => text.visible(row.partition, 80), hint: (row) => text.visible(row.partition, 1000),
    },
    {
      key: "lag", name: "Lag", number: true,
      title: "What is there and not read yet: records of Kafka, bytes of files and posts",
      value: (row) => row.lag, cell: (row) => text.lag(row.lag_unit, row.lag),
      reason: () => "how much is left to read is not known yet",
    },
    {
      key: "newest", name: "Newest event", title: "The newest event's own time",
      value: (row) => row.newest, cell: (row) => text.time(row.newest), reason: () => "no event yet",
    },
    {
      key: "records", name: "Records", number: true, title: "Records read",
      value: (row) => row.records, cell: (row) => text.whole(row.records),
    },
    {
      key: "position", name: "Next to read", class: "position", title: "Where reading goes on, also after a restart",
      value: (row) => position(row.position), cell: (row) => position(row.position),
      reason: () => "nothing has been read yet",
    },
    {
      key: "problem", name: "State", class: "wide",
      value: state, cell: (row) => text.visible(state(row) || "reading", 600),
    },
  ],
  keyOf: (row) => row.partition,
  empty: "No partitions yet.",
  sort: { key: "newest", order: "desc" },
  first: 10,
});

/** @type {Panel} */
export const panel = {
  node: section("source", "Source", {}, make("div", { id: "source-table" }, table.node)),
  show({ snapshot: { partitions } }) {
    const broken = partitions.filter((partition) => partition.problem).length;
    setText(byId("source-about"),
      text.plural(partitions.length, "partition") + (broken ? `, ${text.whole(broken)} with a problem` : ""));
    table.show(partitions);
  },
};
