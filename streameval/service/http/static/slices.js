// @ts-check
// The slices of a window, a page at a time; the server filters and sorts.

import { ask } from "./api.js";
import { begin } from "./charts.js";
import { byId, control, make, section, setText } from "./dom.js";
import { sortable } from "./table.js";
import * as text from "./text.js";
import { range } from "./tiles.js";

const PAGE = 50;
/** At first, slices of less are left out: the worst of many are else those of one event. */
const USUAL_SUPPORT = 30;

const chosen = {
  sort: /** @type {string | null} */ (null),
  order: /** @type {Api.SlicesAnswer["order"]} */ ("worst"),
  q: "",
  support: /** @type {number | null} */ (null),
  offset: 0,
};
/** @type {Page["meanings"]} */
let meanings = {};
let changed = () => {};

/** @type {Table<Api.Slice>} */
const table = sortable({
  caption: "Slices",
  columns: [],
  keyOf: (row) => row.name,
  empty: "",
  onSort: pressed,
  details: detailsOf,
});

const find = make("input", {
  id: "slices-find", type: "search", maxlength: "200", placeholder: "part of a name", autocomplete: "off",
});
const support = make("input", {
  id: "slices-support", type: "number", min: "0", max: "1000000000", step: "1", inputmode: "numeric",
});
const before = make("button", { type: "button", id: "slices-before", onclick: () => turn(-PAGE) }, "Previous");
const after = make("button", { type: "button", id: "slices-after", onclick: () => turn(PAGE) }, "Next");

/** @type {Panel} */
export const panel = {
  node: section("slices", "Slices", {},
    make("div", { class: "filters" },
      control("Find", find), control("Support at least", support),
      make("span", { id: "slices-count", class: "muted" }),
      make("span", { class: "pager" }, before, make("span", { id: "slices-page", class: "muted" }), after)),
    make("div", { id: "slices-table" }, table.node)),
  counted: true,
  start,
  rewind() {
    chosen.offset = 0;
  },
  loads: [{ id: "slices", every: 2_000, load: (page, signal) => refresh(page, signal).finally(begin) }],
};

/** @param {Page} page */
function start(page) {
  changed = () => page.reload("slices");
  /** @type {number | undefined} */
  let soon;
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
}

/** @param {number} by */
function turn(by) {
  chosen.offset = Math.max(0, chosen.offset + by);
  changed();
}

/** @param {string} key */
function hasWorst(key) {
  return (meanings[key]?.direction ?? "none") !== "none";
}

/** @param {Column<Api.Slice>} column */
function pressed(column) {
  const [first, other] = column.key === "name" ? ["asc", "desc"]
    : hasWorst(column.key) ? ["worst", "best"] : ["desc", "asc"];
  const again = chosen.sort === column.key && chosen.order === first;
  Object.assign(chosen, { sort: column.key, order: again ? other : first, offset: 0 });
  changed();
}

/** @param {string} sort @param {Api.SlicesAnswer["order"]} order */
function falling(sort, order) {
  if (order === "asc" || order === "desc") return order;
  const risesToBetter = meanings[sort]?.direction !== "down";
  return risesToBetter === (order === "worst") ? "asc" : "desc";
}

/** @param {Page} page @param {AbortSignal} signal */
async function refresh(page, signal) {
  const { window } = page.chosen;
  const metrics = Object.keys(page.snapshot.reports[window ?? ""].metrics);
  meanings = page.meanings;
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
    support.value = String(chosen.support);
    if (chosen.support === 0) found = await ask("/api/slices", question(), { signal });
  }
  if (found.matching > 0 && chosen.offset >= found.matching) {
    chosen.offset = Math.floor((found.matching - 1) / PAGE) * PAGE;
    found = await ask("/api/slices", question(), { signal });
  }
  show(found);
}

let painted = false;

/** @param {Api.SlicesAnswer} found */
function show(found) {
  if (!painted) performance.mark("streameval-slices");
  painted = true;
  const order = { worst: "worst first", best: "best first", desc: "largest first", asc: "smallest first" }[found.order];
  const by = found.sort === "name" ? "by name" : `${order} by ${found.sort}`;
  const { name, spec, immature } = found.window;
  setText(byId("slices-about"),
    `${text.visible(name, 40)}: ${text.visible(spec, 80)}${immature ? " · immature" : ""} · ${by}`);
  const small = found.below_support ? `; ${whole(found.below_support)} of less support left out` : "";
  const count = `${whole(found.matching)} of ${text.plural(found.all, "slice")}${small}`;
  setText(byId("slices-count"), found.all === 0 ? "" : count);
  const last = found.offset + found.slices.length;
  setText(byId("slices-page"), found.matching > PAGE ? `${whole(found.offset + 1)}–${whole(last)}` : "");
  before.hidden = after.hidden = found.matching <= PAGE;
  before.disabled = found.offset === 0;
  after.disabled = last >= found.matching;
  table.show(found.slices, {
    columns: columnsOf(found.metrics),
    sort: { key: found.sort, order: falling(found.sort, found.order) },
    empty: found.all === 0
      ? "No slices yet. Name the fields to slice by in the settings, under evaluator.slices."
      : "No slice matches. Take a smaller support or another text.",
  });
}

const whole = text.whole;

/** @param {string[]} metrics @returns {Column<Api.Slice>[]} */
function columnsOf(metrics) {
  return [
    {
      key: "name", name: "Slice", class: "stream", title: "The slice's fields and values",
      cell: (row) => text.visible(row.name || "(all)", 80), hint: (row) => text.visible(row.name, 1000),
    },
    {
      key: "support", name: "Support", number: true, title: "Events of the slice that are counted",
      cell: (row) => whole(row.support),
    },
    ...metrics.map((name) => /** @type {Column<Api.Slice>} */ ({
      key: name, name, number: true,
      title: meanings[name] ? `${meanings[name].definition} (${range(meanings[name])})` : name,
      cell: (row) => text.value(row.metrics[name]),
      reason: (row) => text.visible(row.reasons[name] ?? "undefined", 300),
    })),
  ];
}

/** @param {Api.Slice} row */
function detailsOf(row) {
  const fields = Object.entries(row.slice).map(([key, given]) =>
    make("div", {}, make("dt", {}, text.visible(key, 100)), make("dd", { class: "stream" }, text.label(given, 6000))));
  const missing = Object.entries(row.metrics).filter(([, given]) => typeof given !== "number").map(([name]) => {
    const reason = text.visible(row.reasons[name] ?? "no reason is given", 500);
    return make("div", {}, make("dt", {}, name), make("dd", {}, `undefined: ${reason}`));
  });
  return make("div", {},
    make("dl", { class: "pairs" }, ...fields),
    missing.length ? make("dl", { class: "pairs" }, ...missing) : null);
}
