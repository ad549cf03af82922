// The types that the dashboard's scripts share, beside those of the API.

/** What a panel is given. */
interface Page {
  readonly snapshot: Api.SnapshotEvent;
  readonly status: Api.Status;
  /** By metric. */
  readonly meanings: Record<string, Api.Definition | undefined>;
  /** The model is null for the first or only one, and empty for all of them. */
  readonly chosen: Record<"window" | "metric" | "slice" | "model" | "label", string | null>;
  /** What is drawn over each other: one view, or that of each model; without names where the run has one model. */
  readonly views: { model: string; view: Api.ViewAnswer }[];
  /** Why the opened slice cannot be shown; empty where it can. */
  readonly missing: string;
  /** Draw another metric over time. */
  chooseMetric(name: string): void;
  /** Draw the curves of another label. */
  chooseLabel(name: string): void;
  /** Show a slice's numbers instead of those of all events; null: show all again. */
  openSlice(name: string | null): void;
  /** The page's address with that slice opened. */
  addressOf(slice: string | null): string;
  /** Load one of the panels' data at once. */
  reload(id: string): void;
}

/** A section of the page: a script with one of these, and a row in app.js. */
interface Panel {
  node: HTMLElement;
  /** Hidden until an event is counted. */
  counted?: boolean;
  hidden?(page: Page): boolean;
  /** Called once. */
  start?(page: Page): void;
  /** Called with every snapshot. */
  show?(page: Page): void;
  /** Called with every view of the chosen window. */
  draw?(view: Api.ViewAnswer, page: Page): void;
  /** Called when another window is chosen. */
  rewind?(): void;
  /** Requests after a snapshot, each at most every so many milliseconds while #id is in sight. */
  loads?: { id: string; every: number; load(page: Page, signal: AbortSignal): Promise<unknown> }[];
}

interface Column<Row> {
  key: string;
  name: string;
  title?: string;
  class?: string;
  /** Aligned as a number, and sorted from the largest at first. */
  number?: boolean;
  /** What rows are sorted by; none where the server sorts. */
  value?(row: Row): string | number | null;
  cell(row: Row): Node | string;
  hint?(row: Row): string | undefined;
  /** Why there is no value. */
  reason?(row: Row): string;
}

interface Sort {
  key: string;
  order: "asc" | "desc";
}

interface Table<Row> {
  node: HTMLElement;
  show(rows: Row[], options?: { sort?: Sort | null; columns?: Column<Row>[]; empty?: string | null }): void;
}

interface LiveState {
  kind: "connecting" | "live" | "offline" | "stopped" | "paused";
  /** Milliseconds since 1970: when the connection broke. */
  since: number | null;
}

/** How current the numbers are, and a sentence where they are not. */
interface Currency {
  kind: LiveState["kind"] | "waiting" | "behind" | "stale";
  words: string;
}
