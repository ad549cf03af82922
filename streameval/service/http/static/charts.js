// @ts-check
// Plotly: fetched after the numbers are on the page, given the page's colours, and kept
// from touching the page's styles.

import { byId, make } from "./dom.js";

/** @typedef {{ data: object[], layout: Record<string, any> }} Drawing */
/** @typedef {(theme: Theme) => Drawing} Build */
/** @typedef {ReturnType<typeof colours>} Theme */

/** @type {Promise<any> | null} */
let loading = null;
/** @type {() => void} */
let allow;
/** @type {Promise<void>} */
const allowed = new Promise((resolve) => { allow = resolve; });
/** @type {Map<string, [summary: string, build: Build]>} */
const drawn = new Map();

/** The numbers are on the page: from now on there is time for the charts' script. */
export function begin() {
  requestAnimationFrame(() => setTimeout(allow, 0));
}

/** Plotly, once it has been loaded. */
function plotly() {
  loading ??= allowed.then(() => new Promise((resolve, reject) => {
    // Its maps, which are not used here, put a style element into the page while the
    // script runs. The policy would stop that, with an error in the console.
    const head = document.head;
    /** @type {any} */ (head).appendChild = (/** @type {Node} */ node) =>
      node.nodeName === "STYLE" ? node : Node.prototype.appendChild.call(head, node);
    const script = make("script", { src: "/static/plotly.min.js" });
    /** @param {() => void} act */
    const once = (act) => () => {
      Reflect.deleteProperty(head, "appendChild");
      act();
    };
    script.addEventListener("load", once(() => resolve(Reflect.get(globalThis, "Plotly"))));
    script.addEventListener("error", once(() => {
      loading = null;
      script.remove();
      reject(new Error("the charts' script cannot be loaded"));
    }));
    head.append(script);
  }));
  return loading;
}

/** The page's colours of the moment. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  /** @param {string} name */
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    text: read("text"), muted: read("muted"), line: read("line"), panel: read("panel"),
    first: read("chart-1"), second: read("chart-2"), third: read("chart-3"), quiet: read("chart-quiet"),
    models: [1, 2, 3, 4, 5].map((number) => read(`chart-${number}`)),
    band: read("chart-band"), bad: read("bad"),
    ramp: [0, 1, 2, 3, 4].map((step) => /** @type {[number, string]} */ ([step / 4, read(`ramp-${step}`)])),
  };
}

/** A legend above the chart, which does not react to clicks. @param {Theme} theme */
export function legend(theme) {
  return {
    orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: theme.text },
    itemclick: false, itemdoubleclick: false, traceorder: "normal",
  };
}

/** The line of one of several models; from the sixth on dashed. @param {Theme} theme @param {number} number */
export function lineOf(theme, number) {
  const dash = ["solid", "8px,3px", "3px,3px"][Math.floor(number / 5) % 3];
  return { color: theme.models[number % 5], width: 2, dash };
}

/** @param {string} colour */
const channels = (colour) => [1, 3, 5].map((from) => Number.parseInt(colour.slice(from, from + 2), 16));

/** The luminance that the contrast of colours is made of (WCAG 2). @param {number[]} rgb */
function luminance(rgb) {
  const [r, g, b] = rgb.map((one) => one / 255)
    .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/**
 * Black or white: which can be read at that share of the ramp; one of them always can, at 4.5:1.
 *
 * @param {Theme["ramp"]} ramp
 * @param {number} share
 */
export function ink(ramp, share) {
  const position = Math.min(1, Math.max(0, share)) * (ramp.length - 1);
  const step = Math.min(ramp.length - 2, Math.floor(position));
  const [from, to] = [ramp[step][1], ramp[step + 1][1]].map(channels);
  const light = luminance(from.map((one, n) => one + (to[n] - one) * (position - step)));
  return (light + 0.05) ** 2 > 1.05 * 0.05 ? "#000000" : "#ffffff";
}

/** @param {Record<string, any>} own @param {Theme} theme */
function layoutOf(own, theme) {
  const axis = {
    gridcolor: theme.line, linecolor: theme.line, zerolinecolor: theme.line, tickcolor: theme.line,
    zeroline: false, automargin: true, fixedrange: false, ticks: "",
    title: { font: { size: 12, color: theme.muted }, standoff: 8 },
  };
  /** @type {Record<string, any>} */
  const layout = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: theme.muted },
    margin: { l: 8, r: 12, t: 8, b: 8 }, showlegend: false, autosize: true, bargap: 0.15,
    hoverlabel: { bgcolor: theme.panel, bordercolor: theme.line, font: { color: theme.text, size: 12 }, align: "left" },
    // A finger on a chart scrolls the page.
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    ...own,
  };
  for (const name of Object.keys(layout)) {
    if (!/^[xy]axis\d*$/.test(name)) continue;
    const given = layout[name];
    const title = typeof given.title === "string" ? { ...axis.title, text: given.title } : axis.title;
    layout[name] = { ...axis, ...given, title };
  }
  return layout;
}

/**
 * Draw into the element of that id. `build(colours)` gives { data, layout }; it is called
 * again when the theme changes. `summary` says in words what the chart shows.
 *
 * @param {string} id
 * @param {string} summary
 * @param {Build} build
 */
export async function draw(id, summary, build) {
  const node = byId(id);
  drawn.set(id, [summary, build]);
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", summary);
  const Plotly = await plotly();
  if (drawn.get(id)?.[1] !== build) return;
  const theme = colours();
  const { data, layout } = build(theme);
  await Plotly.react(node, data, layoutOf(layout, theme), {
    displayModeBar: false, responsive: true, showTips: false, doubleClick: "reset",
  });
}

/** Take a chart away. @param {string} id */
export function clear(id) {
  const node = byId(id);
  const Plotly = Reflect.get(globalThis, "Plotly");
  if (drawn.delete(id) && Plotly && node.classList.contains("js-plotly-plot")) Plotly.purge(node);
  node.removeAttribute("role");
  node.removeAttribute("aria-label");
}

export function redraw() {
  for (const [id, [summary, build]] of drawn) draw(id, summary, build);
}
