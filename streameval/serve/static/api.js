// Questions to the server.

/** The server wants a token. */
export class NeedsToken extends Error {}

/** The server has answered, but not with what was asked. */
export class Refused extends Error {
  constructor(status, fault) {
    super(fault ? `${fault.where}: expected ${fault.expected}, got ${fault.got}` : `status ${status}`);
    this.status = status;
  }
}

const PATIENCE = 15_000;

/** The JSON of a path; `query` leaves out what is null. */
export async function ask(path, query = {}, { signal } = {}) {
  const parameters = new URLSearchParams();
  for (const [name, given] of Object.entries(query)) {
    if (given !== null && given !== undefined && given !== "") parameters.set(name, String(given));
  }
  const text = parameters.toString();
  const limit = AbortSignal.timeout(PATIENCE);
  const answer = await fetch(text ? `${path}?${text}` : path, {
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
