// @ts-check
// The slices of a window with their intervals, a page at a time; the server filters and sorts.

import { ask } from "./api.js";
import { begin } from "./charts.js";
import { byId, control, hiddenNote, make, note, section, setText } from "./dom.js";
import { sortable } from "./table.js";
import * as text from "./text.js";
import { range } from "./tiles.js";
import { endsOf, meaning, percent, whisker, withoutEnds, words } from "./whisker.js";

const PAGE = 50;
/** At first, slices of less are left out: the worst of many are else those of one event. */
const USUAL_SUPPORT = 30;

const chosen = {
  sort: /** @type {string | null} */ (null),
  /** Of all models side by side, whose values the rows are sorted by; empty: the first. */
  by: "",
  order: /** @type {Api.SlicesAnswer["order"]} */ ("worst"),
  q: "",
  support: /** @type {number | null} */ (null),
  offset: 0,
};
/** @type {Page["meanings"]} */
let meanings = {};
let changed = () => {};
/** @type {Page["openSlice"]} */
let open = () => {};
/** @type {Page["addressOf"]} */
let addressOf = () => "";

/** @typedef {Parameters<typeof whisker>[0]} Forest what a slice's whisker shows */
/** @typedef {Api.Slice & { forest: Forest | null, opened: boolean }} Row */

const KEY = "interval ";
/** Before the model's name, the key of its column. */
const OF_MODEL = "model ";
/** @type {Record<Api.Slice["differs"][string], string>} */
const MARKS = { below: "▾", above: "▴" };

/** @type {Table<Row>} */
const table = sortable({
  caption: "Slices",
  columns: [],
  keyOf: (row) => row.name,
  empty: "",
  onSort: pressed,
  details: detailsOf,
  link: linkTo,
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
    hiddenNote("slices-legend"),
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
  open = page.openSlice;
  addressOf = page.addressOf;
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

/** @param {Column<Row>} column */
function pressed(column) {
  if (column.key.startsWith(OF_MODEL) && chosen.by !== column.key.slice(OF_MODEL.length)) {
    const order = hasWorst(shownMetric) ? "worst" : "desc";
    Object.assign(chosen, { by: column.key.slice(OF_MODEL.length), sort: shownMetric, order, offset: 0 });
    return changed();
  }
  const key = column.key.startsWith(OF_MODEL) ? KEY + shownMetric : column.key;
  const sort = key.startsWith(KEY) ? key.slice(KEY.length) : key;
  const [first, other] = sort === "name" ? ["asc", "desc"] : hasWorst(sort) ? ["worst", "best"] : ["desc", "asc"];
  const again = chosen.sort === sort && chosen.order === first;
  Object.assign(chosen, { sort, order: again ? other : first, offset: 0 });
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
  const { window, metric } = page.chosen;
  const models = page.chosen.model === "" ? page.status.run?.models ?? [] : [];
  if (!models.includes(chosen.by)) chosen.by = models[0] ?? "";
  const metrics = Object.keys(page.snapshot.reports[window ?? ""].metrics);
  meanings = page.meanings;
  if (chosen.sort === null || !["name", "support", ...metrics].includes(chosen.sort)) {
    chosen.sort = metrics.find(hasWorst) ?? "support";
    chosen.order = hasWorst(chosen.sort) ? "worst" : "desc";
  }
  // Side by side the models are shown in the metric that is drawn over time.
  if (models.length && metric !== null) {
    if (metrics.includes(chosen.sort) && chosen.sort !== metric) {
      Object.assign(chosen, { sort: metric, order: hasWorst(metric) ? "worst" : "desc" });
    }
    shownMetric = metric;
  }
  const question = () => ({
    window, sort: chosen.sort, order: chosen.order, q: chosen.q, offset: chosen.offset, limit: PAGE,
    min_support: chosen.support ?? USUAL_SUPPORT,
    model: page.chosen.model || chosen.by, models: models.length ? "all" : null,
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
  const model = page.chosen.model || chosen.by;
  const { report } = model ? await ask("/api/report", { window, model }, { signal })
    : { report: page.snapshot.reports[found.window.name] };
  show(found, page, models, report);
}

let painted = false;

/**
 * @param {Api.SlicesAnswer} found
 * @param {Page} page
 * @param {string[]} models those side by side
 * @param {Api.Report} report of all events
 */
function show(found, page, models, { level, metrics: totals }) {
  if (!painted) performance.mark("streameval-slices");
  painted = true;
  const order = { worst: "worst first", best: "best first", desc: "largest first", asc: "smallest first" }[found.order];
  const of = page.chosen.model || chosen.by || (page.status.run?.models[0] ?? "");
  // Sorted by something else, the whiskers stay those of the metric sorted by before.
  if (found.metrics.includes(found.sort)) shownMetric = found.sort;
  const metric = found.metrics.includes(shownMetric) ? shownMetric : found.metrics[0];
  const rows = found.slices.map((row) => ({ row, ends: endsOf(row.low[metric], row.high[metric]) }));
  const total = totals[metric]?.value ?? null;
  const scale = scaleOf(rows.flatMap(({ ends }) => ends ?? []), total);
  const certain = scale && ["worst", "best"].includes(found.order) && found.sort === metric;
  const by = found.sort === "name" ? "by name"
    : `${order} by ${certain ? `the ${endOf(metric, found.order)} end of the interval of ` : ""}${found.sort}`;
  note(byId("slices-legend"), scale && level !== undefined ? [
    `Whiskers: ${percent(level)} interval of ${metric}${of && ` of ${text.visible(of, 40)}`}, ` +
      `from ${text.value(scale.low)} to ${text.value(scale.high)}.`,
    total === null ? "" : `Dashed line: all events, ${text.value(total)}.`,
    `${MARKS.below} below, ${MARKS.above} above: differs from all other events; at most 5 % of such marks are chance.`,
  ].filter(Boolean).join(" ") : level !== undefined && rows.some(({ row }) => typeof row.metrics[metric] === "number")
    ? `No intervals of ${metric}: ${withoutEnds(totals[metric])}.` : "");
  byId("slices-legend").title = level === undefined ? "" : meaning(level);
  const { name, spec, immature } = found.window;
  setText(byId("slices-about"),
    `${models.length ? `all models, ${metric} · ` : of && `${text.visible(of, 40)} · `}` +
    `${text.visible(name, 40)}: ${text.visible(spec, 80)}${immature ? " · immature" : ""} · ${by}`);
  const small = found.below_support ? `; ${whole(found.below_support)} of less support left out` : "";
  const count = `${whole(found.matching)} of ${text.plural(found.all, "slice")}${small}`;
  setText(byId("slices-count"), found.all === 0 ? "" : count);
  const last = found.offset + found.slices.length;
  setText(byId("slices-page"), found.matching > PAGE ? `${whole(found.offset + 1)}–${whole(last)}` : "");
  before.hidden = after.hidden = found.matching <= PAGE;
  before.disabled = found.offset === 0;
  after.disabled = last >= found.matching;
  table.show(rows.map(({ row, ends }) => ({
    ...row, opened: row.name === page.chosen.slice,
    forest: scale && { value: row.metrics[metric], ends, scale, reference: total },
  })), {
    columns: columnsOf(found.metrics, scale ? metric : null, level, models),
    sort: {
      key: models.length && found.sort === metric ? OF_MODEL + chosen.by : found.sort,
      order: falling(found.sort, found.order),
    },
    empty: found.all === 0
      ? "No slices yet. Name the fields to slice by in the settings, under evaluator.slices."
      : "No slice matches. Take a smaller support or another text.",
  });
}

const whole = text.whole;

/** The metric whose whiskers are shown. */
let shownMetric = "";

/**
 * From the least to the greatest end; null without intervals.
 *
 * @param {import("./whisker.js").Ends[]} all
 * @param {number | null} total
 */
function scaleOf(all, total) {
  if (all.length === 0) return null;
  const also = total === null ? [] : [total];
  return {
    low: Math.min(...all.map((one) => one.low), ...also), high: Math.max(...all.map((one) => one.high), ...also),
  };
}

/**
 * Which end the server sorts by: first are slices that are certainly bad, or certainly good.
 *
 * @param {string} metric
 * @param {Api.SlicesAnswer["order"]} order
 */
function endOf(metric, order) {
  return (meanings[metric]?.direction === "down") === (order === "worst") ? "lower" : "upper";
}

/** @param {Row} row */
function linkTo({ name, opened }) {
  return make("a", {
    href: addressOf(name), "aria-current": opened && "true", title: text.visible(name, 1000),
    /** @param {MouseEvent} event */
    onclick: (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      open(name);
    },
  }, text.visible(name || "(all)", 80));
}

/** Where a slice differs: a mark, and words for screen readers. @param {Row} row @param {string} metric */
function markOf({ differs }, metric, spelled = false) {
  const side = differs[metric];
  if (!side) return null;
  const direction = meanings[metric]?.direction ?? "none";
  const kind = direction === "none" ? "" : (side === "below") === (direction === "up") ? "worse" : "better";
  return make("span", { class: `side ${kind}`, title: `${side} the value of all other events` },
    ` ${MARKS[side]}`, make("span", { class: spelled ? null : "visually-hidden" }, ` ${side}`));
}

/** A value with its mark. @param {Row} row @param {string} metric */
function marked(row, metric) {
  const mark = markOf(row, metric);
  const shown = text.value(row.metrics[metric]);
  if (!mark) return shown;
  const both = document.createDocumentFragment();
  both.append(shown, mark);
  return both;
}

/** @param {Row} row @param {string} metric */
function forestOf(row, metric) {
  const { forest } = row;
  if (!forest?.ends) return forest?.value === null ? text.NOTHING : make("span", { class: "muted" }, "no interval");
  return make("div", { class: "forest" }, whisker(forest),
    markOf(row, metric, true) ?? make("span"), make("span", {}, words(forest.ends)));
}

/**
 * @param {string[]} metrics
 * @param {string | null} forest the metric of the whiskers
 * @param {number | undefined} level
 * @param {string[]} models a column for each
 * @returns {Column<Row>[]}
 */
function columnsOf(metrics, forest, level, models) {
  /** @type {Column<Row>} */
  const whiskers = {
    key: KEY + forest, name: `${forest} interval`, class: "whiskers",
    title: `${meaning(level ?? 0)} Worst first sorts by the ${endOf(forest ?? "", "worst")} end, so that slices ` +
      "that are certainly bad precede those of few events.",
    cell: (row) => forestOf(row, forest ?? ""),
    reason: (row) => text.visible(row.reasons[forest ?? ""] ?? "undefined", 300),
  };
  return [
    {
      key: "name", name: "Slice", class: "stream", title: "The slice's fields and values",
      cell: (row) => text.visible(row.name || "(all)", 80), hint: (row) => text.visible(row.name, 1000),
    },
    ...(forest === null ? [] : [whiskers]),
    {
      key: "support", name: "Support", number: true, title: "Events of the slice that are counted",
      cell: (row) => whole(row.support),
    },
    ...models.map((name) => /** @type {Column<Row>} */ ({
      key: OF_MODEL + name, name: text.visible(name, 40), number: true,
      title: `${shownMetric} of ${text.visible(name)}`,
      cell: (row) => text.value(row.models?.[name]?.[shownMetric]),
      reason: () => "undefined, or the model has no event of this slice",
    })),
    ...(models.length ? [] : metrics).map((name) => /** @type {Column<Row>} */ ({
      key: name, name, number: true,
      title: meanings[name] ? `${meanings[name].definition} (${range(meanings[name])})` : name,
      cell: (row) => marked(row, name),
      hint: (row) => {
        const ends = endsOf(row.low[name], row.high[name]);
        return ends ? words(ends) : undefined;
      },
      reason: (row) => text.visible(row.reasons[name] ?? "undefined", 300),
    })),
  ];
}

/** @param {Row} row */
function detailsOf(row) {
  const fields = Object.entries(row.slice).map(([key, given]) =>
    make("div", {}, make("dt", {}, text.visible(key, 100)), make("dd", { class: "stream" }, text.label(given, 6000))));
  const missing = Object.entries(row.metrics).filter(([, given]) => typeof given !== "number").map(([name]) => {
    const reason = text.visible(row.reasons[name] ?? "no reason is given", 500);
    return make("div", {}, make("dt", {}, name), make("dd", {}, `undefined: ${reason}`));
  });
  const sure = Object.entries(row.metrics).flatMap(([name, given]) => {
    const ends = endsOf(row.low[name], row.high[name]);
    if (given === null || ends === null) return [];
    return [make("div", {}, make("dt", {}, name),
      make("dd", {}, `${text.value(given)} ${words(ends)}`, markOf(row, name, true)))];
  });
  return make("div", {},
    make("dl", { class: "pairs" }, ...fields),
    sure.length ? make("dl", { class: "pairs intervals" }, ...sure) : null,
    missing.length ? make("dl", { class: "pairs" }, ...missing) : null);
}
