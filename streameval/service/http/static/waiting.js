// @ts-check
// What there is to see and to do before the first labelled event.

import { byId, make } from "./dom.js";
import { shownOf } from "./tasks.js";
import * as text from "./text.js";

const origin = location.origin;

/** @param {string} path @param {object[]} lines */
function curl(path, lines) {
  const body = lines.map((line) => JSON.stringify(line)).join("\n");
  return `curl ${origin}${path} --data-binary '${body}'`;
}

/** @param {Api.Run | null} run */
function examples(run) {
  const { prediction, truth: label } = shownOf(run);
  const truth = { y_true: label(run) };
  if (run && !run.join) return [curl("/v1/predictions", [{ id: "1", ...prediction, ...truth }])];
  return [curl("/v1/predictions", [{ id: "1", ...prediction }]), curl("/v1/labels", [{ id: "1", ...truth }])];
}

/** What the run reads, by its settings. @param {Api.Run | null} run */
function sources(run) {
  /** @type {Record<string, string>} */
  const ways = { files: "from files", kafka: "from the Kafka topic", http: "by POST at" };
  return (run?.sources ?? []).map(({ kind, holds, name }) =>
    make("li", { class: "stream" }, `${holds} ${ways[kind] ?? `from ${kind}`} ${text.visible(name, 200)}`));
}

/**
 * Show it, or hide it once events are counted.
 *
 * @param {Api.Status | null} status
 * @param {Api.SnapshotEvent | null} snapshot
 */
export function show(status, snapshot) {
  const box = byId("waiting");
  const events = snapshot?.checkpoint.events ?? 0;
  box.hidden = events > 0 || !status;
  if (box.hidden || !status) return;
  const join = snapshot?.join;
  const key = JSON.stringify([status.posts, status.run?.sources, join?.predictions, join?.labels]);
  if (box.dataset.shown === key) return;
  box.dataset.shown = key;
  // What is there to see is above what is not.
  if (status.run?.predictions && join?.predictions && !byId("page").contains(box)) byId("predictions").after(box);
  const so = join && (join.predictions || join.labels)
    ? `So far ${text.plural(join.predictions, "prediction")} and ${text.plural(join.labels, "label")} ` +
      "have arrived, but no two of the same id."
    : "None has arrived yet.";
  box.replaceChildren(
    make("h2", { id: "waiting-title" }, "Waiting for the first labelled events"),
    make("p", {}, `${so} This page shows them as soon as they are counted.`),
    ...(status.run?.sources.length
      ? [make("p", {}, "It waits for:"), make("ul", {}, ...sources(status.run))] : []),
    ...(status.posts ? [
      make("p", {}, "Send some, with fields as the settings name them; usually:"),
      make("pre", { tabindex: "0" }, examples(status.run).join("\n")),
      make("p", { class: "muted" }, "With a token, add -H \"Authorization: Bearer $TOKEN\". ",
        "What cannot be counted shows under Quarantine."),
    ] : [
      make("p", {}, "Source, below, shows how far it has read; ",
        "records that cannot be counted show under Quarantine."),
    ]),
  );
}
