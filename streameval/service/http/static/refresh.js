// @ts-check
// When parts of the page are requested again: after a new snapshot, when they are in
// sight, and each not too often.

import { byId } from "./dom.js";

/** @typedef {{ id: string, every: number, load: (signal: AbortSignal) => Promise<unknown> }} Loaded */

/**
 * `every` is in milliseconds. A panel is loaded once in any case; `failed` is called with each error.
 *
 * @param {Loaded[]} panels
 * @param {(id: string, error: Error) => void} failed
 */
export function refresher(panels, failed) {
  const state = new Map(panels.map((panel) => [panel.id, {
    ...panel, due: false, seen: false, loaded: false, last: -Infinity,
    timer: /** @type {number | undefined} */ (undefined),
    running: /** @type {AbortController | null} */ (null),
  }]));

  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const panel = state.get(entry.target.id);
      if (panel) panel.seen = entry.isIntersecting;
    }
    plan();
  }, { rootMargin: "400px" });
  for (const id of state.keys()) observer.observe(byId(id));

  function plan() {
    if (document.hidden) return;
    for (const panel of state.values()) {
      clearTimeout(panel.timer);
      if (!panel.due || panel.running || !(panel.seen || !panel.loaded)) continue;
      const wait = panel.last + panel.every - performance.now();
      panel.timer = setTimeout(() => run(panel).then(plan), Math.max(0, wait));
    }
  }

  /** @param {Loaded & { timer?: number, running: AbortController | null, loaded: boolean }} panel */
  async function run(panel) {
    clearTimeout(panel.timer);
    panel.running?.abort();
    const mine = new AbortController();
    Object.assign(panel, { running: mine, due: false, last: performance.now() });
    try {
      await panel.load(mine.signal);
      panel.loaded = true;
    } catch (error) {
      if (!mine.signal.aborted) failed(panel.id, /** @type {Error} */ (error));
    } finally {
      if (panel.running === mine) panel.running = null;
    }
  }

  document.addEventListener("visibilitychange", plan);

  return {
    /** There is a newer snapshot. */
    changed() {
      for (const panel of state.values()) panel.due = true;
      plan();
    },
    /** Load these panels (by default all) at once, instead of what is under way. @param {string[]} ids */
    now(...ids) {
      for (const panel of state.values()) if (!ids.length || ids.includes(panel.id)) run(panel).then(plan);
    },
  };
}
