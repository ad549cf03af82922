// The slices of a window, a page at a time; the server filters and sorts.

import { ask } from "./api.js";
import { byId, make, setText } from "./dom.js";
import { sortable } from "./table.js";
import * as text from "./text.js";
import { range } from "./tiles.js";

const PAGE = 50;
/** At first, slices of less are left out: the worst of many are else those of one event. */
const USUAL_SUPPORT = 30;

const chosen = { sort: null, order: null, q: "", support: null, offset: 0 };
let meanings = {};
let changed = () => {};

const table = sortable({
  caption: "Slices",
  columns: [],
  keyOf: (row) => row.name,
  empty: "",
  onSort: pressed,
  details: detailsOf,
});
byId("slices-table").append(table.node);

/** `onChange` is called when other rows are wanted. */
export function start(onChange) {
  changed = onChange;
  const find = byId("slices-find");
  const support = byId("slices-support");
  let soon = null;
  const later = () => {
    clearTimeout(soon);
    soon = setTimeout(() => {
      chosen.q = find.value.trim();
      const least = Number.parseInt(support.value, 10);
      chosen.support = Number.isFinite(least) && least > 0 ? Math.min(least, 1_000_000_000) : 0;
      chosen.offset = 0;
      changed();
    }, 150);
  };
  find.addEventListener("input", later);
  support.addEventListener("input", later);
  byId("slices-before").addEventListener("click", () => turn(-PAGE));
  byId("slices-after").addEventListener("click", () => turn(PAGE));
}

function turn(by) {
  chosen.offset = Math.max(0, chosen.offset + by);
  changed();
}

/** Another window: its first page. */
export function rewind() {
  chosen.offset = 0;
}

function hasWorst(key) {
  return (meanings[key]?.direction ?? "none") !== "none";
}

function pressed(column) {
  const [first, other] = column.key === "name" ? ["asc", "desc"] : hasWorst(column.key) ? ["worst", "best"] : ["desc", "asc"];
  const again = chosen.sort === column.key && chosen.order === first;
  Object.assign(chosen, { sort: column.key, order: again ? other : first, offset: 0 });
  changed();
}

function falling(sort, order) {
  if (order === "asc" || order === "desc") return order;
  const risesToBetter = meanings[sort]?.direction !== "down";
  return risesToBetter === (order === "worst") ? "asc" : "desc";
}

export async function refresh({ window, metrics, about, signal }) {
  meanings = about;
  if (chosen.sort === null || !["name", "support", ...metrics].includes(chosen.sort)) {
    chosen.sort = metrics.find(hasWorst) ?? "support";
    chosen.order = hasWorst(chosen.sort) ? "worst" : "desc";
  }
  const question = () => ({
    window, sort: chosen.sort, order: chosen.order, q: chosen.q, offset: chosen.offset, limit: PAGE,
    min_support: chosen.support ?? USUAL_SUPPORT,
  });
  let found = await ask("/api/slices", question(), { signal });
  if (chosen.support === null) {
    // Where every slice is small, leaving the small ones out leaves nothing to see.
    chosen.support = found.all > 0 && found.below_support === found.all ? 0 : USUAL_SUPPORT;
    byId("slices-support").value = chosen.support;
    if (chosen.support === 0) found = await ask("/api/slices", question(), { signal });
  }
  if (found.matching > 0 && chosen.offset >= found.matching) {
    chosen.offset = Math.floor((found.matching - 1) / PAGE) * PAGE;
    found = await ask("/api/slices", question(), { signal });
  }
  show(found);
}

let painted = false;

function show(found) {
  if (!painted) performance.mark("streameval-slices");
  painted = true;
  const order = found.order === "worst" ? "worst first" : found.order === "best" ? "best first" : found.order === "desc" ? "largest first" : "smallest first";
  const by = found.sort === "name" ? "by name" : `${order} by ${found.sort}`;
  setText(byId("slices-about"), `${text.visible(found.window.name, 40)}: ${text.visible(found.window.spec, 80)}${found.window.immature ? " · immature" : ""} · ${by}`);
  const small = found.below_support ? `; ${whole(found.below_support)} of less support left out` : "";
  setText(byId("slices-count"), found.all === 0 ? "" : `${whole(found.matching)} of ${text.plural(found.all, "slice")}${small}`);
  const last = found.offset + found.slices.length;
  setText(byId("slices-page"), found.matching > PAGE ? `${whole(found.offset + 1)}–${whole(last)}` : "");
  byId("slices-before").hidden = byId("slices-after").hidden = found.matching <= PAGE;
  byId("slices-before").disabled = found.offset === 0;
  byId("slices-after").disabled = last >= found.matching;
  table.show(found.slices, {
    columns: columnsOf(found.metrics),
    sort: { key: found.sort, order: falling(found.sort, found.order) },
    empty: found.all === 0
      ? "No slices yet. Name the fields to slice by in the settings, under evaluator.slices."
      : "No slice matches. Take a smaller support or another text.",
  });
}

const whole = text.whole;

function columnsOf(metrics) {
  return [
    { key: "name", name: "Slice", class: "stream", title: "The slice's fields and values", cell: (row) => text.visible(row.name || "(all)", 80), hint: (row) => text.visible(row.name, 1000) },
    { key: "support", name: "Support", number: true, title: "Events of the slice that are counted", cell: (row) => whole(row.support) },
    ...metrics.map((name) => ({
      key: name, name, number: true,
      title: meanings[name] ? `${meanings[name].definition} (${range(meanings[name])})` : name,
      cell: (row) => text.value(row.metrics[name]),
      reason: (row) => text.visible(row.reasons[name] ?? "undefined", 300),
    })),
  ];
}

function detailsOf(row) {
  const fields = Object.entries(row.slice).map(([key, given]) =>
    make("div", {}, make("dt", {}, text.visible(key, 100)), make("dd", { class: "stream" }, text.label(given, 6000))));
  const missing = Object.entries(row.metrics).filter(([, given]) => typeof given !== "number");
  return make("div", {},
    make("dl", { class: "pairs" }, ...fields),
    ...(missing.length ? [make("dl", { class: "pairs" }, ...missing.map(([name]) =>
      make("div", {}, make("dt", {}, name), make("dd", {}, `undefined: ${text.visible(row.reasons[name] ?? "no reason is given", 500)}`))))] : []));
}
