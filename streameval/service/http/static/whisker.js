// @ts-check
// Confidence intervals: in words, and as whiskers.

import * as text from "./text.js";

/** @typedef {{ low: number, high: number }} Ends */

/** The ends, where both are known. @param {number | null} [low] @param {number | null} [high] @returns {Ends | null} */
export function endsOf(low, high) {
  return typeof low === "number" && typeof high === "number" ? { low, high } : null;
}

/**
 * The interval of a value; an end that is missing beside a method is infinite.
 *
 * @param {{ low?: number | null, high?: number | null, method?: string }} given
 */
export function intervalOf({ low, high, method }) {
  return method ? endsOf(low ?? -Infinity, high ?? Infinity) : null;
}

/** Why a value has no interval, with the key that gives it where one does. @param {Api.Value | undefined} given */
export function withoutEnds(given) {
  return text.visible(given?.no_interval || "resampled now and then, only for all events of the first model and with " +
    "max_scores = 65536 or less", 300);
}

/** @param {number} end */
const word = (end) => (Number.isFinite(end) ? text.value(end) : end < 0 ? "−∞" : "∞");

/** "[0.7610, 0.8060]" @param {Ends} ends */
export const words = ({ low, high }) => `[${word(low)}, ${word(high)}]`;

/** "95 %" @param {number} level */
export const percent = (level) => `${Number((100 * level).toPrecision(6))} %`;

/** What an interval is, for hover and help. @param {number} level */
export function meaning(level) {
  return `The ${percent(level)} interval is a range for the value that the model would have on many more events ` +
    `like these. About ${percent(level)} of such intervals contain that value. Fewer events make an interval ` +
    "wider, and a change within it may be chance.";
}

/** @param {string} tag @param {Record<string, string | number>} attributes */
function shape(tag, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, given] of Object.entries(attributes)) node.setAttribute(name, String(given));
  return node;
}

/**
 * A value as a point with its interval as a line with two ends, on a scale; `reference` is a dashed line.
 * It repeats what the text beside it says, so screen readers leave it out.
 *
 * @param {{ value: number | null, ends: Ends | null, scale: Ends, reference?: number | null }} shown
 */
export function whisker({ value, ends, scale, reference = null }) {
  const picture = shape("svg", { class: "whisker", "aria-hidden": "true", focusable: "false" });
  const span = scale.high - scale.low || 1;
  // Two percent are left free at both ends, for the point's and the caps' width.
  /** @param {number} at */
  const place = (at) => {
    const share = Math.min(1, Math.max(0, (at - scale.low) / span));
    return `${(2 + 96 * share).toFixed(2)}%`;
  };
  /** @param {string} kind @param {number} from @param {number} to @param {number} top @param {number} bottom */
  const line = (kind, from, to, top, bottom) =>
    shape("line", { class: kind, x1: place(from), x2: place(to), y1: top, y2: bottom });
  picture.append(line("track", scale.low, scale.high, 7, 7));
  if (reference !== null) picture.append(line("reference", reference, reference, 0, 14));
  if (ends) {
    picture.append(line("range", ends.low, ends.high, 7, 7),
      ...[ends.low, ends.high].filter((end) => scale.low <= end && end <= scale.high)
        .map((end) => line("range", end, end, 4, 10)));
  }
  if (value !== null) picture.append(shape("circle", { class: "point", cx: place(value), cy: 7, r: 3 }));
  return picture;
}
