// @ts-check
// What is evaluated, how current it is, and what is wrong.

import { affected } from "./alerts.js";
import { byId, make, note, setText } from "./dom.js";
import { shownOf } from "./tasks.js";
import * as text from "./text.js";
import { intervalOf, words } from "./whisker.js";

/** @type {Record<Currency["kind"], [name: string, meaning: string]>} */
const STATES = {
  connecting: ["Connecting", "Asking the run for its numbers"],
  waiting: ["Waiting", "The run answers, and has counted nothing yet"],
  live: ["Live", "Every checkpoint shows here at once"],
  behind: ["Behind", ""],
  stale: ["Stale", ""],
  offline: ["Reconnecting", ""],
  stopped: ["No answer", ""],
  paused: ["Paused", "The page stays as it is; the run continues"],
};

let announced = "";

/** Say it once to screen readers; the same again is not repeated. @param {string} words */
export function announce(words) {
  if (words === announced) return;
  announced = words;
  setText(byId("announce"), words);
}

/** @param {Api.Status | null} status */
export function what(status) {
  const run = status?.run;
  setText(byId("version"), status ? `streameval ${status.version}` : "");
  if (!run) return note(byId("what"), "");
  const { name, labels } = shownOf(run);
  note(byId("what"), [name, labels(run)].filter(Boolean).join(" · "));
  document.title = `${run.task} · streameval`;
}

/**
 * How current the numbers are.
 *
 * @param {LiveState} state
 * @param {Api.Status | null} status
 * @param {Api.SnapshotEvent | null} snapshot
 * @param {number} now
 * @returns {Currency}
 */
export function currency(state, status, snapshot, now) {
  const age = snapshot ? (now - Date.parse(snapshot.checkpoint.at)) / 1000 : null;
  const numbers = age === null ? "" : ` The numbers are ${text.duration(Math.floor(Math.max(0, age)))} old.`;
  if (state.kind === "stopped") {
    const since = text.time(new Date(state.since ?? now).toISOString());
    const words = `The run has stopped or cannot be reached; no answer since ${since} UTC.${numbers}`;
    return { kind: "stopped", words };
  }
  if (state.kind === "offline") return { kind: "offline", words: `The connection is lost; trying again.${numbers}` };
  const waits = status && (!status.run || (status.ready && snapshot?.checkpoint.events === 0));
  if (state.kind === "live" && waits) return { kind: "waiting", words: "" };
  if (state.kind !== "live" || !status || status.ready) return { kind: state.kind, words: "" };
  // A partition's problem has a line of its own, and the age ticks here.
  const others = status.reasons
    .filter((_, n) => !["problem", "checkpoint_age"].includes(status.codes[n]))
    .map((reason) => text.visible(reason, 200));
  const more = others.length ? `; ${others.join("; ")}` : "";
  if (status.codes.includes("checkpoint_age")) {
    const old = age === null ? "too" : text.duration(Math.floor(age));
    return { kind: "stale", words: `These numbers are stale: the last checkpoint is ${old} old${more}.` };
  }
  return { kind: "behind", words: others.length ? `The run is not caught up: ${others.join("; ")}.` : "" };
}

/** @param {Currency} current */
export function showState({ kind, words }) {
  const badge = byId("state");
  const [name, meaning] = STATES[kind];
  badge.dataset.state = kind;
  setText(badge, name);
  badge.title = words || meaning;
}

/** @param {string} name @param {string} given @param {string} meaning */
function vital(name, given, meaning, level = "") {
  return make("div", { title: meaning, class: level || null }, make("dt", {}, name), make("dd", {}, given));
}

/** @param {Api.Partition[]} partitions */
function lagOf(partitions) {
  const known = partitions.filter((partition) => partition.lag !== null);
  if (known.length === 0) return partitions.length ? "unknown" : text.NOTHING;
  const units = /** @type {const} */ (["records", "bytes"]);
  const parts = units.map((unit) => {
    const left = known.filter((one) => one.lag_unit === unit).reduce((sum, one) => sum + (one.lag ?? 0), 0);
    return left > 0 ? text.lag(unit, left) : "";
  }).filter(Boolean);
  return `${known.length < partitions.length ? "≥ " : ""}${parts.join(" + ") || "0"}`;
}

/** @param {Api.SnapshotEvent | null} snapshot @param {number} now */
export function vitals(snapshot, now) {
  const list = byId("vitals");
  if (!snapshot) return list.replaceChildren();
  const age = Math.max(0, (now - Date.parse(snapshot.checkpoint.at)) / 1000);
  const problems = snapshot.partitions.filter((partition) => partition.problem).length;
  const { events, sequence, seconds } = snapshot.checkpoint;
  const { join, quarantine } = snapshot;
  list.replaceChildren(
    vital("Counted", text.whole(events), "Events counted since the run's store began"),
    vital("Checkpoint", text.age(age),
      `Number ${text.whole(sequence)}${seconds === null ? "" : `, which took ${text.duration(seconds)}`}; ` +
      "what was counted before it survives a crash"),
    vital("Lag", lagOf(snapshot.partitions),
      "What the source has and is not read yet, over all partitions: records of Kafka, bytes of files and posts"),
    ...(join ? [vital("Waiting", text.compact(join.waiting), "Predictions whose label has not arrived yet")] : []),
    ...(quarantine.total
      ? [vital("Quarantined", text.compact(quarantine.total), "Records that could not be counted")] : []),
    ...(problems ? [vital("Problems", text.whole(problems), "Partitions that cannot be read", "bad")] : []),
  );
}

/** @param {Api.AlertState} alert */
function firing(alert) {
  const about = [
    alert.slice ? affected(alert) : "",
    alert.window ? `window ${text.visible(alert.window, 40)}` : "",
    alert.since ? `since ${text.shortTime(alert.since)} UTC` : "",
  ].filter(Boolean).join(", ");
  const against = alert.against ? ` against ${text.visible(alert.against, 80)}` : "";
  const ends = intervalOf(alert);
  const model = alert.model ? ` of ${text.visible(alert.model, 80)}` : "";
  const value = `${alert.metric}${model}${against} is ${text.value(alert.value)}${ends ? ` ${words(ends)}` : ""}, ` +
    text.visible(alert.bound, 60);
  return `${text.visible(alert.name, 80)}: ${value}${about ? ` (${about})` : ""}`;
}

/** Lines above the numbers. @param {Api.SnapshotEvent | null} snapshot @param {Currency} current */
export function banners(snapshot, current) {
  const lines = [];
  if (current.words) lines.push([current.kind === "behind" ? "warn" : "bad", "Not current", current.words]);
  for (const alert of snapshot?.alerts ?? []) {
    if (alert.state === "firing") lines.push(["bad", "Alert firing", firing(alert)]);
  }
  const broken = (snapshot?.partitions ?? []).filter((partition) => partition.problem);
  for (const partition of broken.slice(0, 5)) {
    lines.push(["warn", "Source", `${text.visible(partition.partition, 80)}: ${text.visible(partition.problem, 300)}`]);
  }
  if (broken.length > 5) lines.push(["warn", "Source", `and ${text.plural(broken.length - 5, "more partition")}`]);
  const box = byId("banners");
  const shown = JSON.stringify(lines.map(([level, kind, words]) => [level, kind, words]));
  if (box.dataset.shown === shown) return;
  box.dataset.shown = shown;
  box.replaceChildren(...lines.map(([level, kind, words]) =>
    make("p", { class: `banner ${level}` }, make("strong", {}, kind), make("span", {}, words))));
}

/** The choice of theme; `changed` is called after every change, the system's too. @param {() => void} changed */
export function themes(changed) {
  const select = byId("theme", HTMLSelectElement);
  select.value = document.documentElement.dataset.theme ?? "system";
  select.addEventListener("change", () => {
    const system = select.value === "system";
    if (system) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = select.value;
    try {
      if (system) localStorage.removeItem("streameval-theme");
      else localStorage.setItem("streameval-theme", select.value);
    } catch {
      // Then the choice lasts as long as the page.
    }
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}
