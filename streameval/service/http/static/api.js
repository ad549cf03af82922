// @ts-check
// Requests to the server.

/** The server requires a token. */
export class NeedsToken extends Error {}

/** The server has answered with an error. */
export class Refused extends Error {
  /** @param {number} status @param {Api.Fault} [fault] */
  constructor(status, fault) {
    super(fault ? `${fault.where}: expected ${fault.expected}, got ${fault.got}` : `status ${status}`);
    this.status = status;
  }
}

const PATIENCE = 15_000;

/**
 * The JSON of a path, whose {name} is taken from `query`; `query` leaves out what is null.
 *
 * @template {keyof Api.Answers} Path
 * @param {Path} path
 * @param {Record<string, string | number | null | undefined>} query
 * @param {{ signal?: AbortSignal }} options
 * @returns {Promise<Api.Answers[Path]>}
 */
export async function ask(path, query = {}, { signal } = {}) {
  const parameters = new URLSearchParams();
  const filled = path.replace(/\{(\w+)\}/, (_, name) => encodeURIComponent(query[name] ?? ""));
  for (const [name, given] of Object.entries(query)) {
    if (path.includes(`{${name}}`)) continue;
    if (given !== null && given !== undefined && given !== "") parameters.set(name, String(given));
  }
  const text = parameters.toString();
  const limit = AbortSignal.timeout(PATIENCE);
  const answer = await fetch(text ? `${filled}?${text}` : filled, {
    headers: { accept: "application/json" },
    signal: signal ? AbortSignal.any([signal, limit]) : limit,
  });
  if (answer.status === 401) throw new NeedsToken();
  if (!answer.ok) {
    const body = await answer.json().catch(() => null);
    throw new Refused(answer.status, body?.error);
  }
  return answer.json();
}
