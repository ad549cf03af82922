// @ts-check
// Records that could not be counted, and why.

import { ask } from "./api.js";
import { byId, focusedIn, make, section, setText } from "./dom.js";
import { sortable } from "./table.js";
import * as text from "./text.js";

const MOST = 50;
let reason = "";

/** @type {Table<Api.BadRecord>} */
const table = sortable({
  caption: "Newest records in quarantine",
  columns: [
    { key: "at", name: "When", value: (row) => row.at, cell: (row) => text.time(row.at) },
    {
      key: "partition", name: "Partition", class: "stream", value: (row) => row.partition,
      cell: (row) => text.visible(row.partition, 40), hint: (row) => text.visible(row.partition, 1000),
    },
    {
      key: "place", name: "Place", number: true, title: "Where in the partition: an offset",
      value: (row) => row.place, cell: (row) => text.whole(row.place),
    },
    {
      key: "reason", name: "Reason", class: "stream",
      value: (row) => row.reason, cell: (row) => text.visible(row.reason, 60),
    },
    {
      key: "detail", name: "Detail", class: "stream wide",
      value: (row) => row.detail, cell: (row) => text.visible(row.detail, 300),
    },
    { key: "raw", name: "Record", class: "stream", value: (row) => row.raw, cell: raw },
  ],
  keyOf: (row) => String(row.id),
  empty: "Nothing is in quarantine.",
  sort: { key: "at", order: "desc" },
});

/** @param {Api.BadRecord} row */
function raw(row) {
  const cut = row.raw_bytes_cut ? " (cut)" : "";
  if (row.raw.length <= 40) {
    const shown = row.raw.trim() === "" ? JSON.stringify(row.raw) : row.raw;
    return make("code", {}, text.visible(shown) + cut);
  }
  return make("details", { class: "raw" },
    make("summary", { "data-focus": `raw ${row.id}` }, make("code", {}, text.visible(row.raw, 32)), cut),
    make("pre", { tabindex: "0" }, text.visible(row.raw)));
}

/** @param {Api.QuarantineCounts} quarantine @param {Page} page */
function show(quarantine, page) {
  const { total, kept, reasons } = quarantine;
  const about = `${text.plural(total, "record")}, ${text.whole(kept)} kept`;
  setText(byId("quarantine-about"), total === 0 ? "empty" : about);
  const box = byId("quarantine-reasons");
  const pairs = Object.entries(reasons).sort(([, a], [, b]) => b - a);
  const shown = JSON.stringify([pairs, reason]);
  if (box.dataset.shown === shown) return;
  box.dataset.shown = shown;
  const focused = focusedIn(box)?.dataset.reason;
  const buttons = pairs.map(([name, count]) => make("button", {
    type: "button", class: "chip stream", "aria-pressed": String(name === reason), "data-reason": name,
    title: "Show only these", onclick: () => {
      reason = reason === name ? "" : name;
      show(quarantine, page);
      page.reload("quarantine");
    },
  }, text.visible(name, 80), make("b", {}, ` ${text.whole(count)}`)));
  box.replaceChildren(...buttons);
  if (focused !== undefined) buttons.find((one) => one.dataset.reason === focused)?.focus();
}

/** @type {Panel} */
export const panel = {
  node: section("quarantine", "Quarantine", {},
    make("p", { class: "explain" }, "Records that could not be counted. They do not touch any number; ",
      make("code", {}, "streameval store quarantine"), " lists them all."),
    make("div", { id: "quarantine-reasons", class: "chips" }),
    make("div", { id: "quarantine-table" }, table.node)),
  show(page) {
    show(page.snapshot.quarantine, page);
  },
  loads: [{
    id: "quarantine",
    every: 3_000,
    async load(page, signal) {
      // The server rejects a reason of more characters; then all are shown.
      const query = { limit: MOST, reason: reason.length <= 200 ? reason : "" };
      const found = await ask("/api/quarantine", query, { signal });
      show(found, page);
      const none = "None of the kept records has this reason.";
      table.show(found.recent, { empty: found.total === 0 ? "Nothing is in quarantine." : none });
    },
  }],
};
