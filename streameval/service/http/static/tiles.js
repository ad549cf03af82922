// @ts-check
// The main metrics at a glance.

import { breakable, byId, make, section, setText } from "./dom.js";
import * as text from "./text.js";

/** @type {Map<string, ReturnType<typeof tile>>} */
const tiles = new Map();

/** @type {Panel} */
export const panel = {
  node: section("metrics", "Metrics", { framed: false }, make("ul", { id: "tiles", class: "tiles" })),
  counted: true,
  draw: show,
};

/** "0 to 1, more is better" @param {Api.Definition | undefined} meaning */
export function range(meaning) {
  if (!meaning) return "";
  const span = meaning.high === null ? `${meaning.low} and more` : `${meaning.low} to ${meaning.high}`;
  const better = { up: "more is better", down: "less is better", none: "" }[meaning.direction];
  return better ? `${span}, ${better}` : span;
}

/** @param {string} name @param {(name: string) => void} choose */
function tile(name, choose) {
  const shown = make("span", { class: "value" });
  const support = make("span");
  const immature = make("span", {
    class: "immature-mark", title: "Labels are still coming in: the value will change",
  });
  const reason = make("span", { class: "reason" });
  const meaning = make("span", { class: "tip", role: "tooltip", id: `tip-${name}` });
  const press = () => choose(name);
  const button = make("button", { type: "button", class: "tile", "aria-describedby": meaning.id, onclick: press },
    make("span", { class: "name" }, ...breakable(name)), shown, reason,
    make("span", { class: "support" }, support, " ", immature));
  const node = make("li", { "data-metric": name }, button, meaning);
  return { node, button, shown, support, immature, reason, meaning };
}

/** The chosen metric is drawn over time. @param {Api.ViewAnswer} view @param {Page} page */
function show({ report, window }, { meanings, chosen, chooseMetric }) {
  const list = byId("tiles");
  const names = Object.keys(report.metrics);
  if (names.join("\n") !== [...tiles.keys()].join("\n")) {
    tiles.clear();
    for (const name of names) tiles.set(name, tile(name, chooseMetric));
    list.replaceChildren(...[...tiles.values()].map((one) => one.node));
  }
  for (const [name, one] of tiles) {
    const { value, support, reason } = report.metrics[name];
    const defined = typeof value === "number";
    setText(one.shown, text.value(value));
    one.shown.title = defined ? String(value) : "undefined";
    setText(one.reason, defined ? "" : `Undefined: ${text.visible(reason || "no reason is given", 200)}`);
    setText(one.support, `${text.whole(support)} ${support === 1 ? "event" : "events"}`);
    setText(one.immature, window.immature ? "immature" : "");
    const meaning = meanings[name];
    setText(one.meaning, meaning ? `${meaning.definition} (${range(meaning)}).` : name);
    one.button.setAttribute("aria-pressed", String(name === chosen.metric));
    one.node.classList.toggle("undefined", !defined);
    one.node.classList.toggle("immature", window.immature);
  }
  setText(byId("metrics-about"), text.about(window, { numbers: true }));
}
