// Records that could not be counted, and why.

import { ask } from "./api.js";
import { byId, make, setText } from "./dom.js";
import { sortable } from "./table.js";
import * as text from "./text.js";

const MOST = 50;
let reason = "";
let changed = () => {};

const table = sortable({
  caption: "Newest records in quarantine",
  columns: [
    { key: "at", name: "When", value: (row) => row.at, cell: (row) => text.time(row.at) },
    { key: "partition", name: "Partition", class: "stream", value: (row) => row.partition, cell: (row) => text.visible(row.partition, 40), hint: (row) => text.visible(row.partition, 1000) },
    { key: "place", name: "Place", number: true, title: "Where in the partition: an offset", value: (row) => row.place, cell: (row) => text.whole(row.place) },
    { key: "reason", name: "Reason", class: "stream", value: (row) => row.reason, cell: (row) => text.visible(row.reason, 60) },
    { key: "detail", name: "Detail", class: "stream wide", value: (row) => row.detail, cell: (row) => text.visible(row.detail, 300) },
    { key: "raw", name: "Record", class: "stream", value: (row) => row.raw, cell: raw },
  ],
  keyOf: (row) => String(row.id),
  empty: "Nothing is in quarantine.",
  sort: { key: "at", order: "desc" },
});
byId("quarantine-table").append(table.node);

export function start(onChange) {
  changed = onChange;
}

function raw(row) {
  const cut = row.raw_bytes_cut ? " (cut)" : "";
  if (row.raw.length <= 40) return make("code", {}, text.visible(row.raw.trim() === "" ? JSON.stringify(row.raw) : row.raw) + cut);
  return make("details", { class: "raw" },
    make("summary", { "data-focus": `raw ${row.id}` }, make("code", {}, text.visible(row.raw, 32)), cut),
    make("pre", { tabindex: "0" }, text.visible(row.raw)));
}

export function show(quarantine) {
  const { total, kept, reasons } = quarantine;
  setText(byId("quarantine-about"), total === 0 ? "empty" : `${text.plural(total, "record")}, ${text.whole(kept)} kept`);
  const box = byId("quarantine-reasons");
  const pairs = Object.entries(reasons).sort(([, a], [, b]) => b - a);
  const shown = JSON.stringify([pairs, reason]);
  if (box.dataset.shown === shown) return;
  box.dataset.shown = shown;
  const focused = box.contains(document.activeElement) ? document.activeElement.dataset.reason : undefined;
  box.replaceChildren(...pairs.map(([name, count]) => make("button", {
    type: "button", class: "chip stream", "aria-pressed": String(name === reason), "data-reason": name,
    title: "Show only these", onclick: () => {
      reason = reason === name ? "" : name;
      show(quarantine);
      changed();
    },
  }, text.visible(name, 80), make("b", {}, ` ${text.whole(count)}`))));
  if (focused !== undefined) [...box.children].find((one) => one.dataset.reason === focused)?.focus();
}

export async function refresh({ signal }) {
  // A reason longer than the server takes cannot be asked for; all are shown then.
  const found = await ask("/api/quarantine", { limit: MOST, reason: reason.length <= 200 ? reason : "" }, { signal });
  show(found);
  table.show(found.recent, { empty: found.total === 0 ? "Nothing is in quarantine." : "None of the kept records has this reason." });
}
