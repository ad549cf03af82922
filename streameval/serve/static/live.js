// The stream of snapshots, and whether it can be trusted to be current.

import { ask, NeedsToken } from "./api.js";

const STATUS_EVERY = 5_000;
/** Without an answer for so long, the run is said to have stopped. */
const GIVEN_UP_AFTER = 15_000;
/** Refused the stream (there are as many listeners as may be), try again after so long. */
const AGAIN_AFTER = 5_000;

/**
 * Calls back with every snapshot, with every answer of /api/status, and with every
 * change of { kind, since }: connecting, live, offline, stopped, paused.
 */
export function follow({ onSnapshot, onStatus, onState, onNeedsToken, currentWindow }) {
  let source = null;
  let paused = false;
  let ended = false;
  let brokenSince = null;
  let again = null;
  let kind = "connecting";
  let described = false;

  function tell(next) {
    if (next === kind) return;
    kind = next;
    onState({ kind, since: brokenSince });
  }

  function works() {
    brokenSince = null;
    tell("live");
  }

  function broken() {
    brokenSince ??= Date.now();
    tell(Date.now() - brokenSince > GIVEN_UP_AFTER ? "stopped" : "offline");
  }

  function open() {
    clearTimeout(again);
    // A page in the background holds no connection: browsers allow six for each server.
    if (source !== null || paused || ended || document.hidden) return;
    const mine = new EventSource("/api/events");
    source = mine;
    mine.addEventListener("open", works);
    mine.addEventListener("snapshot", (event) => {
      if (mine !== source) return;
      works();
      onSnapshot(JSON.parse(event.data));
      // The first of a run: what its windows and curves are is told by the status.
      if (!described) checkStatus();
    });
    mine.addEventListener("error", () => {
      if (mine !== source) return;
      // While it is connecting, the browser tries again by itself.
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

  async function checkStatus() {
    if (paused || ended || document.hidden) return;
    try {
      const status = await ask("/api/status");
      if (paused || ended) return;
      described = status.run !== null;
      onStatus(status);
      if (source === null || source.readyState !== EventSource.OPEN) {
        // Served, but without the stream: ask for what it would have brought.
        if (status.run) onSnapshot(await polled(currentWindow()));
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
    pause(on) {
      paused = on;
      if (on) {
        close();
        tell("paused");
      } else {
        brokenSince = null;
        tell("connecting");
        open();
        checkStatus();
      }
    },
  };
}

/** What an event of the stream would hold, put together from other answers. */
async function polled(window) {
  const [report, join, partitions, quarantine, alerts, status] = await Promise.all([
    ask("/api/report", { window }), ask("/api/join"), ask("/api/partitions"),
    ask("/api/quarantine", { limit: 0 }), ask("/api/alerts"), ask("/api/status"),
  ]);
  return {
    sequence: report.sequence,
    at: report.at,
    windows: status.run.windows,
    reports: { [report.window.name]: report.report },
    join: join.join,
    partitions: partitions.partitions,
    quarantine,
    alerts: alerts.alerts,
    checkpoint: status.run.checkpoint,
  };
}
