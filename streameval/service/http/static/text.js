// @ts-check
// Numbers, times and texts as people read them. Nothing here touches the page.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const NOTHING = "–";

/** @param {unknown} number */
export function whole(number) {
  return typeof number === "number" ? WHOLE.format(number) : NOTHING;
}

/** @param {unknown} number */
export function compact(number) {
  if (typeof number !== "number") return NOTHING;
  return Math.abs(number) < 10_000 ? WHOLE.format(number) : COMPACT.format(number);
}

/** @type {[unit: string, size: number][]} */
const UNITS = [["GB", 1e9], ["MB", 1e6], ["kB", 1e3], ["B", 0]];

/** @param {number} number */
export function bytes(number) {
  const [unit, least] = UNITS.find(([, least]) => number >= least) ?? UNITS[3];
  const size = least || 1;
  return `${(number / size).toFixed(size === 1 ? 0 : 1)} ${unit}`;
}

/**
 * How much is left to read; without a unit no source reads the partition any longer.
 *
 * @param {Api.Partition["lag_unit"]} unit
 * @param {number | null} left
 */
export function lag(unit, left) {
  if (typeof left !== "number") return NOTHING;
  return unit === "bytes" ? bytes(left) : unit === "records" ? plural(left, "record") : whole(left);
}

/**
 * A metric's value with four decimals; large ones with fewer, the largest with a power of ten.
 * Undefined is a dash, never 0.
 *
 * @param {unknown} number
 */
export function value(number) {
  if (typeof number !== "number") return NOTHING;
  const size = Math.abs(number);
  if (size !== 0 && size < 0.00005) return number.toExponential(1);
  if (size >= 1e9) return number.toExponential(3);
  return number.toFixed(size < 100 ? 4 : 1);
}

/** @param {unknown} fraction @param {number} digits */
export function percent(fraction, digits = 1) {
  if (typeof fraction !== "number") return NOTHING;
  const text = (100 * fraction).toFixed(digits);
  // What is not all must not read as all, nor what is not nothing as nothing.
  if (fraction < 1 && Number(text) === 100) return `>${(100 - 10 ** -digits).toFixed(digits)} %`;
  if (fraction > 0 && Number(text) === 0) return `<${(10 ** -digits).toFixed(digits)} %`;
  return `${text} %`;
}

/** Seconds in their two largest units. @param {unknown} seconds */
export function duration(seconds) {
  if (typeof seconds !== "number" || !Number.isFinite(seconds)) return NOTHING;
  const sign = seconds < 0 ? "−" : "";
  const size = Math.abs(seconds);
  if (size < 0.001) return size === 0 ? "0 s" : "<1 ms";
  if (size < 1) return `${sign}${Math.round(size * 1000)} ms`;
  if (size < 10) return `${sign}${size.toFixed(1)} s`;
  if (size < 59.5) return `${sign}${Math.round(size)} s`;
  /** @type {[name: string, length: number][]} */
  const units = [["s", 1], ["min", 60], ["h", 3600], ["d", 86400]];
  // Rounded to the smaller unit first, so that 59.9 minutes are an hour and not 60 minutes.
  const unit = size < 3599.5 ? 1 : size < 86370 ? 2 : 3;
  const [smallName, smallLength] = units[unit - 1];
  const all = Math.round(size / smallLength);
  const [name, length] = units[unit];
  const each = length / smallLength;
  const small = all % each;
  return `${sign}${Math.floor(all / each)} ${name}${small ? ` ${small} ${smallName}` : ""}`;
}

/** How long ago, in whole units: it ticks every second. @param {number} seconds */
export function age(seconds) {
  return seconds < 1 ? "now" : seconds < 60 ? `${Math.floor(seconds)} s ago` : `${duration(Math.floor(seconds))} ago`;
}

/** "2026-03-01 12:05:00" of an ISO time, in UTC. @param {string | null | undefined} iso */
export function time(iso) {
  const at = new Date(iso ?? NaN);
  return Number.isNaN(at.getTime()) ? NOTHING : at.toISOString().slice(0, 19).replace("T", " ");
}

/**
 * As `time`, without the day when that is the day of `now`, without seconds when they are 0.
 *
 * @param {string} iso
 * @param {number} now
 */
export function shortTime(iso, now = Date.now()) {
  const text = time(iso);
  if (text === NOTHING) return text;
  const clock = text.endsWith(":00") ? text.slice(11, 16) : text.slice(11);
  const today = new Date(now).toISOString().slice(0, 10);
  return text.startsWith(today) ? clock : `${text.slice(0, 10)} ${clock}`;
}

/**
 * A window's name, what it holds, and until when its numbers count.
 *
 * @param {Api.Window} window
 * @param {{ numbers?: boolean, slice?: string | null, model?: string }} options
 */
export function about(window, { numbers = false, slice = null, model = "" } = {}) {
  const whose = model === "" ? "" : `${visible(model, 40)} · `;
  const part = slice === null ? "" : `slice ${visible(slice, 60)} · `;
  const spec = `${whose}${part}${visible(window.name, 40)}: ${visible(window.spec, 80)}`;
  return `${spec}${window.immature ? " · immature" : ""}${numbers ? ` · as of ${time(window.as_of)}` : ""}`;
}

/** @param {number} count @param {string} one @param {string} many */
export function plural(count, one, many = `${one}s`) {
  return `${whole(count)} ${count === 1 ? one : many}`;
}

// Control characters, line ends, marks that turn the direction of text, and those without width.
const UNSEEN = /[\p{Cc}\p{Zl}\p{Zp}\p{Cs}\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/gu;
const SHORT = new Map([["\n", "\\n"], ["\r", "\\r"], ["\t", "\\t"]]);

/**
 * Text from outside: what cannot be seen or misleads the eye is written as an escape.
 *
 * @param {unknown} text
 * @param {number} most
 */
export function visible(text, most = Infinity) {
  const shown = String(text).replace(UNSEEN, (mark) =>
    SHORT.get(mark) ?? `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);
  if (shown.length <= most) return shown;
  const kept = Array.from(shown.slice(0, most)).slice(0, -1).join("");
  return `${kept}…`;
}

/** A class's label; quoted where it looks empty or like a number. @param {unknown} given @param {number} most */
export function label(given, most = 60) {
  if (typeof given !== "string") return String(given);
  const quoted = given.trim() !== given || given === "" || (given !== "" && !Number.isNaN(Number(given)));
  return visible(quoted ? `"${given}"` : given, most);
}

/**
 * As `label`, cut in the middle: names that begin alike often end differently.
 *
 * @param {unknown} given
 * @param {number} most
 */
export function short(given, most) {
  const marks = Array.from(label(given, Infinity));
  if (marks.length <= most) return marks.join("");
  const head = Math.ceil(0.6 * (most - 1));
  return `${marks.slice(0, head).join("")}…${marks.slice(marks.length - (most - 1 - head)).join("")}`;
}

/**
 * For Plotly, which takes some HTML in every text: nothing of it is left. (Of the page's own
 * texts only <br> is used: for others Plotly writes style attributes, against the policy.)
 *
 * @param {string} text
 */
export function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}
