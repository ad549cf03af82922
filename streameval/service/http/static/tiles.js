// @ts-check
// The main metrics at a glance.

import { breakable, byId, hiddenNote, make, note, section, setText } from "./dom.js";
import * as text from "./text.js";
import { intervalOf, meaning as ofIntervals, percent, whisker, withoutEnds, words } from "./whisker.js";

/** @type {Map<string, ReturnType<typeof tile>>} */
const tiles = new Map();

const OF_BOUNDS = "Certain bounds (certainly … to …) are shown where scores are kept in cells, to bound the memory: " +
  "the exact value of the counted events is between them, always. Unlike the interval they say nothing of " +
  "further events.";

/** @type {Panel} */
export const panel = {
  node: section("metrics", "Metrics", { framed: false }, hiddenNote("metrics-note"),
    make("ul", { id: "tiles", class: "tiles" }),
    make("details", { id: "intervals-help", class: "more", hidden: true },
      make("summary", {}), make("p", { class: "explain" }), make("p", { class: "explain" }, OF_BOUNDS))),
  counted: true,
  draw: show,
};

/** "0 to 1, more is better" @param {Api.Definition | undefined} meaning */
export function range(meaning) {
  if (!meaning) return "";
  const { low, high } = meaning;
  const span = low === null ? (high === null ? "any number" : `${high} and less`)
    : high === null ? `${low} and more` : `${low} to ${high}`;
  const better = { up: "more is better", down: "less is better", none: "" }[meaning.direction];
  return better ? `${span}, ${better}` : span;
}

/** @param {string} name @param {(name: string) => void} choose */
function tile(name, choose) {
  const shown = make("span", { class: "value" });
  const interval = make("span", { class: "interval" });
  const bounds = make("span", { class: "bounds" });
  const support = make("span");
  const others = make("span", { class: "others" });
  const reason = make("span", { class: "reason" });
  const meaning = make("span", { class: "tip", role: "tooltip", id: `tip-${name}` });
  const press = () => choose(name);
  const button = make("button", { type: "button", class: "tile", "aria-describedby": meaning.id, onclick: press },
    make("span", { class: "name" }, ...breakable(name)), shown, interval, bounds, reason, others,
    make("span", { class: "support" }, support));
  const node = make("li", { "data-metric": name }, button, meaning);
  return { node, button, shown, interval, bounds, support, others, reason, meaning };
}

/** The chosen metric is drawn over time. @param {Api.ViewAnswer} view @param {Page} page */
function show({ report, window }, { meanings, chosen, chooseMetric, snapshot, status, views }) {
  const list = byId("tiles");
  const names = Object.keys(report.metrics);
  if (names.join("\n") !== [...tiles.keys()].join("\n")) {
    tiles.clear();
    for (const name of names) tiles.set(name, tile(name, chooseMetric));
    list.replaceChildren(...[...tiles.values()].map((one) => one.node));
  }
  for (const [name, one] of tiles) {
    const given = report.metrics[name];
    const { value, support, reason } = given;
    const defined = typeof value === "number";
    setText(one.shown, text.value(value));
    one.shown.title = defined ? String(value) : "undefined";
    setText(one.reason, defined ? "" : `Undefined: ${text.visible(reason || "no reason is given", 200)}`);
    const all = views[0].model === (status.run?.models[0] ?? "") && snapshot.reports[window.name];
    const whole = chosen.slice !== null && all ? all.metrics[name]?.value ?? null : null;
    showInterval(one, given, { level: report.level, meaning: meanings[name], whole });
    showBounds(one, given);
    setText(one.support, `${text.whole(support)} ${support === 1 ? "event" : "events"}`);
    one.others.replaceChildren(...views.slice(1).map(({ model, view }) =>
      make("span", {}, `${text.visible(model, 40)} ${text.value(view.report.metrics[name]?.value)}`)));
    const meaning = meanings[name];
    const compared = Object.entries(report.references ?? {}).map(([file, values]) =>
      ` Reference ${text.visible(file, 80)}: ${text.value(values[name])}.`).join("");
    setText(one.meaning, (meaning ? `${meaning.definition} (${range(meaning)}).` : name) + compared);
    one.button.setAttribute("aria-pressed", String(name === chosen.metric));
    one.node.classList.toggle("undefined", !defined);
    one.node.classList.toggle("immature", window.immature);
  }
  setText(byId("metrics-about"),
    text.about(window, { numbers: true, slice: chosen.slice, model: views[0].model }));
  note(byId("metrics-note"), [
    window.immature ? "Immature, with a dotted line: labels are still coming in, so these values will change." : "",
    report.level === undefined ? "No intervals: set intervals = 0.95 at the top of the configuration." : "",
    views.length > 1 ? `The large value and its interval are of ${text.visible(views[0].model, 40)}, the first ` +
      "model; below it are the others." : "",
  ].filter(Boolean).join(" "));
  const help = byId("intervals-help");
  help.hidden = report.level === undefined;
  if (report.level === undefined) return;
  const [summary, about, bounds] = help.children;
  /** @type {HTMLElement} */ (bounds).hidden = !Object.values(report.metrics).some((given) => given.bounds);
  setText(summary, `What a ${percent(report.level)} interval is`);
  setText(about, ofIntervals(report.level));
}

/**
 * The interval under the value, in words and as a whisker on the metric's range.
 *
 * @param {ReturnType<typeof tile>} one
 * @param {Api.Value} given
 * @param {{ level: number | undefined, meaning: Api.Definition | undefined, whole: number | null }} about `whole`: the
 *   value of all events, where this is of a slice
 */
function showInterval({ interval }, given, { level, meaning, whole }) {
  const { value, method, interval_as_of: asOf } = given;
  const ends = intervalOf(given);
  if (value === null || level === undefined) return interval.replaceChildren();
  if (ends === null) {
    interval.title = "";
    return setText(interval, `No interval: ${withoutEnds(given)}.`);
  }
  const older = asOf ? `; of the events until ${text.time(asOf)}` : "";
  const dashed = whole === null ? "" : `; dashed: all events, ${text.value(whole)}`;
  interval.title = `${percent(level)} interval (${method}${older})${dashed}`;
  // A metric without a greatest value is shown up to 1, or to what there is.
  // One without a least value from 0, or from what there is.
  const most = Math.max(1, value, whole ?? 1, Number.isFinite(ends.high) ? ends.high : 1);
  const least = Math.min(0, value, whole ?? 0, Number.isFinite(ends.low) ? ends.low : 0);
  const scale = { low: meaning?.low ?? least, high: meaning?.high ?? most };
  interval.replaceChildren(
    make("span", { class: "visually-hidden" }, `${percent(level)} interval `), words(ends),
    whisker({ value, ends, scale, reference: whole }));
}

/**
 * Where memory is bounded: between what the exact value lies.
 *
 * @param {ReturnType<typeof tile>} one
 * @param {Api.Value} given
 */
function showBounds({ bounds }, given) {
  if (!given.bounds) {
    bounds.title = "";
    return setText(bounds, "");
  }
  const [low, high] = given.bounds;
  // Rounded away from each other, or they were not certain; digits enough to tell them apart.
  const digits = Math.min(10, Math.max(4, Math.ceil(-Math.log10(high - low || 1)) + 1));
  const unit = 10 ** digits;
  const [least, most] = [Math.floor(low * unit) / unit, Math.ceil(high * unit) / unit];
  setText(bounds, `certainly ${least.toFixed(digits)} to ${most.toFixed(digits)}`);
  bounds.title = `Certain bounds of the exact value: ${low} to ${high}`;
}
