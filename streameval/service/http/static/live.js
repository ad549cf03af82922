// @ts-check
// The stream of snapshots, and whether it can be trusted to be current.

import { ask, NeedsToken } from "./api.js";

const STATUS_EVERY = 5_000;
/** Without an answer for so long, the run is said to have stopped. */
const GIVEN_UP_AFTER = 15_000;
/** Refused the stream (there are as many listeners as may be), try again after so long. */
const AGAIN_AFTER = 5_000;
/** The stream may take so long to open before the page polls instead. */
const OPENS_WITHIN = 3_000;

/**
 * Calls back with every snapshot, with every answer of /api/status, and with every
 * change of state.
 *
 * @param {object} listeners
 * @param {(snapshot: Api.SnapshotEvent) => void} listeners.onSnapshot
 * @param {(status: Api.Status) => void} listeners.onStatus
 * @param {(state: LiveState) => void} listeners.onState
 * @param {() => void} listeners.onNeedsToken
 */
export function follow({ onSnapshot, onStatus, onState, onNeedsToken }) {
  /** @type {EventSource | null} */
  let source = null;
  let opening = 0;
  let paused = false;
  let ended = false;
  /** @type {number | null} */
  let brokenSince = null;
  /** @type {number | undefined} */
  let again;
  /** @type {LiveState["kind"]} */
  let kind = "connecting";
  let described = false;

  /** @param {LiveState["kind"]} next */
  function report(next) {
    if (next === kind) return;
    kind = next;
    onState({ kind, since: brokenSince });
  }

  function works() {
    brokenSince = null;
    report("live");
  }

  function broken() {
    brokenSince ??= Date.now();
    report(Date.now() - brokenSince > GIVEN_UP_AFTER ? "stopped" : "offline");
  }

  function open() {
    clearTimeout(again);
    // A page in the background holds no connection: browsers allow six for each server.
    if (source !== null || paused || ended || document.hidden) return;
    const mine = new EventSource("/api/events");
    source = mine;
    opening = performance.now();
    mine.addEventListener("open", works);
    mine.addEventListener("snapshot", (event) => {
      if (mine !== source) return;
      works();
      onSnapshot(JSON.parse(event.data));
      // The first of a run: its windows and curves are in the status.
      if (!described) checkStatus();
    });
    mine.addEventListener("error", () => {
      if (mine !== source) return;
      // While it is connecting, the browser retries.
      if (mine.readyState === EventSource.CLOSED) {
        close();
        again = setTimeout(open, AGAIN_AFTER);
      }
      checkStatus();
    });
  }

  function close() {
    source?.close();
    source = null;
  }

  function streams() {
    if (source === null) return false;
    return source.readyState === EventSource.OPEN || performance.now() - opening < OPENS_WITHIN;
  }

  async function checkStatus() {
    if (paused || ended || document.hidden) return;
    try {
      const status = await ask("/api/status");
      if (paused || ended) return;
      described = status.run !== null;
      onStatus(status);
      if (status.run && !streams()) {
        const snapshot = await polled(status.run);
        // It may be older than what the stream has brought in the meantime.
        if (!streams() && !paused) onSnapshot(snapshot);
      }
      works();
    } catch (error) {
      if (error instanceof NeedsToken) {
        ended = true;
        close();
        onNeedsToken();
      } else {
        broken();
      }
    }
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else if (!paused) {
      open();
      checkStatus();
    }
  });
  setInterval(checkStatus, STATUS_EVERY);
  open();
  checkStatus();

  return {
    /** @param {boolean} on */
    pause(on) {
      paused = on;
      if (on) {
        close();
        report("paused");
      } else {
        brokenSince = null;
        report("connecting");
        open();
        checkStatus();
      }
    },
  };
}

/**
 * What an event of the stream would hold, put together from other answers.
 *
 * @param {Api.Run} run
 * @returns {Promise<Api.SnapshotEvent>}
 */
async function polled(run) {
  const names = run.windows.map((window) => window.name);
  const [join, partitions, quarantine, alerts, ...reports] = await Promise.all([
    ask("/api/join"), ask("/api/partitions"), ask("/api/quarantine", { limit: 0 }), ask("/api/alerts"),
    ...names.map((window) => ask("/api/report", { window })),
  ]);
  return {
    sequence: join.sequence,
    at: join.at,
    windows: reports.map((report) => report.window),
    reports: Object.fromEntries(reports.map((report) => [report.window.name, report.report])),
    join: join.join,
    partitions: partitions.partitions,
    quarantine,
    alerts: alerts.alerts,
    checkpoint: run.checkpoint,
  };
}
