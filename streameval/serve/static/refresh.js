// When parts of the page ask the server again: after a new snapshot, when they are in
// sight, and each not too often.

/**
 * panels: [{ id, every, load: (signal) => promise }]; `every` in milliseconds. A panel is
 * loaded once in any case. `failed(id, error)` hears of errors.
 */
export function refresher(panels, failed) {
  const state = new Map(panels.map((panel) => [panel.id, { ...panel, due: false, seen: false, loaded: false, last: -Infinity, timer: null, running: null }]));

  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) state.get(entry.target.id).seen = entry.isIntersecting;
    plan();
  }, { rootMargin: "400px" });
  for (const id of state.keys()) observer.observe(document.getElementById(id));

  function plan() {
    if (document.hidden) return;
    for (const panel of state.values()) {
      clearTimeout(panel.timer);
      if (!panel.due || panel.running || !(panel.seen || !panel.loaded)) continue;
      const wait = panel.last + panel.every - performance.now();
      panel.timer = setTimeout(() => run(panel).then(plan), Math.max(0, wait));
    }
  }

  async function run(panel) {
    clearTimeout(panel.timer);
    panel.running?.abort();
    const mine = new AbortController();
    Object.assign(panel, { running: mine, due: false, last: performance.now() });
    try {
      await panel.load(mine.signal);
      panel.loaded = true;
    } catch (error) {
      if (!mine.signal.aborted) failed(panel.id, error);
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
    /** The reader wants something else of these panels: at once, instead of what is under way. */
    now(...ids) {
      for (const id of ids.length ? ids : state.keys()) run(state.get(id)).then(plan);
    },
  };
}
